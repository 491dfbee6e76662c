"""Results over a time: every way to a result is of that time, and says so."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from command_line import Rtclab

import rtclab as package
from rtclab import Results
from rtclab.errors import BadInput, TraceError

FLOW = "alice->bob"
RATE = "receiving_rate"
STEPS = '{ steps = [["0 s", "1 Mbit/s"], ["10 s", "300 kbit/s"]] }'
"""The capacity of a scenario in which the rate of the second half is less than half of the first."""
WORDS = "from 10 s"
ASKED = ("--metric", RATE, "--flow", FLOW)


@pytest.fixture(scope="module")
def fall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of runs with one call, `first-call-sim-1`, whose capacity falls after 10 s."""
    out = tmp_path_factory.mktemp("runs")
    falls = tomllib.loads(f"capacity = {STEPS}")["capacity"]
    package.run("first-call", set={"link.up.capacity": falls}, duration="20 s", repeats=2, out=out)
    return out


def rate_of(results: Results) -> float:
    """The mean rate of the flow in kbit/s, from the values of the repeats."""
    return float(results.metrics(metrics=RATE, flows=FLOW)["value"].mean())  # type: ignore[arg-type]


def arguments(out: Path) -> tuple[str, ...]:
    return ("first-call-sim-1", "--from", "10s", "--out", str(out))


def printed_rate(text: str) -> float:
    """The rate in a line of a table of a command."""
    found = re.search(rf"{RATE}\s+(?:{re.escape(FLOW)}\s+)?([\d.]+)", text)
    assert found, text
    return float(found[1])


def by_run(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    made = rtclab(
        *("run", "first-call", "--set", f"link.up.capacity={STEPS}", "--duration", "20s", "--repeats", "2"),
        *("--from", "10s", "--out", "own", "--flow", FLOW, "--all"),
    )
    kept = Results("own/first-call-sim-1")
    assert kept.window == (10.0, None)
    assert rate_of(kept) == rate_of(package.open("first-call-sim-1", out=out).between("10 s"))
    page = Path("own/first-call-sim-1/report.html").read_text()
    assert f"Only a part of the time: everything on this page is {WORDS}" in page
    return printed_rate(made.out), made.out


def by_measure(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    text = rtclab("measure", *arguments(out), *ASKED).out
    return printed_rate(text), text


def by_json(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    found = json.loads(rtclab("measure", *arguments(out), *ASKED, "--json").out)
    assert found["window"] == [10.0, None]
    return found["metrics"][0]["mean"], WORDS


def by_report(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    page = Path(rtclab("report", *arguments(out), "--flow", FLOW).out.strip())
    assert page.name == "report-from-10s.html"
    text = re.sub(r"<[^>]+>", " ", page.read_text())
    found = re.search(r"Receiving rate\s+kbit/s\s+([\d.]+)", text) or re.search(
        r"Receiving rate[^\d]+([\d.]+)", text
    )
    assert found
    return float(found[1]), text


def by_compare(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    found = rtclab("compare", "first-call-sim-1", *arguments(out), *ASKED, "--page", "page.html", "--json")
    told = json.loads(found.out)
    assert told["window"] == [10.0, None]
    return told["metrics"][0]["base"], Path("page.html").read_text()


def by_trace(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    run = package.open("first-call-sim-1", out=out)
    parts = [trace.between("10 s") for trace in run.traces]
    rows = [part.metrics().filter(metric=RATE, flow=FLOW)["value"].item() for part in parts]
    for part in parts:
        assert part.table("packets")["sent_ns"].min() >= 10 * 10**9
        assert part.table("flow_seconds")["at_ns"].min() >= 10 * 10**9
    return sum(rows) / len(rows), WORDS


def by_tables(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    late = package.open("first-call-sim-1", out=out).between("10 s")
    rows = late.table("flow_seconds").filter(flow=FLOW)
    every = late.scan("flow_seconds").filter(pl.col("flow") == FLOW).collect()
    assert rows["delivered_bytes"].to_list() == every["delivered_bytes"].to_list()
    return float(rows["delivered_bytes"].sum()) * 8 / 1000 / 10 / 2, repr(late)


def by_plot(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    late = package.open("first-call-sim-1", out=out).between("10 s")
    drawing = late.plot("rate", flow=FLOW)
    assert (drawing.x.begin, drawing.x.end) == (10.0, 20.0)
    return rate_of(late), WORDS


def by_notebook(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    late = package.open("first-call-sim-1", out=out).between("10 s")
    return late.overview().filter(metric=RATE, flow=FLOW)["mean"].item(), late._repr_html_()


def by_sweep(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    text = rtclab(
        *("sweep", "first-call", "--set", f"link.up.capacity={STEPS}", "--duration", "20s", "--repeats", "2"),
        *("--vary", "link.up.queue=300 ms", "--from", "10s", "--out", "own", "--metric", RATE),
        *("--metric", "queuing_delay_p95"),
    ).out
    kept = Results("own/first-call-sweep-1")
    assert not kept.metrics(metrics="queuing_delay_p95")["value"].is_empty()
    assert f"everything on this page is {WORDS}" in (kept.path / "report.html").read_text()
    return rate_of(kept), text


def by_gate(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    Path("suite.toml").write_text(
        f'repeats = 2\nlimits = ["{RATE} of {FLOW} < 1 Mbit/s"]\n[scenarios.fall]\nscenario = "first-call"\n'
        f'duration = "20 s"\nset = {{ "link.up.capacity" = {STEPS} }}\n'
    )
    ended = rtclab("gate", "suite.toml", "--from", "10s", "--json")
    found = json.loads(ended.out)
    assert found["window"] == [10.0, None]
    return found["checks"][0]["new"], rtclab("gate", "suite.toml", "--from", "10s").out


def by_arena(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    Path("suite.toml").write_text(
        f'pairings = false\n[cases.fall]\nscenario = "first-call"\nflows = ["{FLOW}"]\n'
        f'set = {{ "link.up.capacity" = {STEPS}, duration = "20 s" }}\n'
    )
    ended = rtclab(
        "arena", "goog-cc", "--suite", "suite.toml", "--repeats", "2", "--jobs", "1", "--from", "10s"
    )
    found = Results("runs/arena-suite-from-10s")
    assert f"everything on this page is {WORDS}" in (found.path / "arena.html").read_text().lower()
    assert rate_of(found) == pytest.approx(pl.read_csv(found.path / "arena.csv")[RATE].mean(), rel=1e-5)
    return rate_of(found), ended.out


def by_export(rtclab: Rtclab, out: Path) -> tuple[float, str]:
    text = rtclab("export", *arguments(out), *ASKED).out
    rows = pl.read_csv(io.StringIO(text))
    return float(rows["value"].mean()), WORDS  # type: ignore[arg-type]


WAYS = [
    by_run,
    by_measure,
    by_json,
    by_report,
    by_compare,
    by_trace,
    by_tables,
    by_plot,
    by_notebook,
    by_sweep,
    by_gate,
    by_arena,
    by_export,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_a_result_is_of_the_time_and_says_so(
    rtclab: Rtclab, fall: Path, way: Callable[[Rtclab, Path], tuple[float, str]]
) -> None:
    whole = package.open("first-call-sim-1", out=fall)
    expected = rate_of(whole.between("10 s"))
    assert expected < 310 < 500 < rate_of(whole)
    rate, text = way(rtclab, fall)
    assert rate == pytest.approx(expected, rel=2e-3)  # tables round to four digits
    assert WORDS in text or "10 s to 20 s of 20 s" in text


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        ("20 s", None, "nothing to measure from 20 s on: the run ends at 20 s"),
        ("12 s", "12 s", "cannot measure from 12 s to 12 s; expected an end after the begin"),
        ("12 s", "5 s", "cannot measure from 12 s to 5 s; expected an end after the begin"),
        ("-1 s", None, "begin: "),
        ("soon", None, "begin: cannot read `soon`"),
    ],
)
def test_a_time_that_no_repeat_has_is_refused_in_one_sentence(
    rtclab: Rtclab, fall: Path, begin: str, end: str | None, message: str
) -> None:
    run = package.open("first-call-sim-1", out=fall)
    with pytest.raises(BadInput, match=re.escape(message)):
        run.between(begin, end)
    with pytest.raises((BadInput, TraceError), match=re.escape(message)):
        run.traces[0].between(begin, end)
    given = ("--from", begin, *(("--to", end) if end else ()))
    for command in (("measure",), ("report",), ("compare", "first-call-sim-1")):
        ended = rtclab(*command, "first-call-sim-1", "--out", str(fall), *given)
        assert ended.status == 2
        assert message in ended.err
        assert len(ended.err.strip().splitlines()) <= 2  # the sentence, and a hint
