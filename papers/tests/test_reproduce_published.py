"""The files of papers: the values of checks, and errors for invalid files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from math import isnan, nan
from pathlib import Path

import pytest

from rtclab.errors import BadInput
from rtclab_papers.reproduce import NAMES
from rtclab_papers.reproduce.ambiguities import ReadingNumbers, ambiguity_of
from rtclab_papers.reproduce.estimate import Outcome
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import MEDIA, Values
from rtclab_papers.reproduce.paper import PUBLISHED, read_paper
from rtclab_papers.reproduce.trends import Numbers

REPEATS = {
    # Per repeat and flow: the rate of the whole call, and of its windows from 0 and from 10 s.
    "my/call": [
        {"a->b": (100, 80, 120), "b->a": (300, 280, 320)},
        {"a->b": (200, 180, 220), "b->a": (200, 180, 220)},
    ],
    "my/other": [{"a->b": (400, 400, 400)}],
    "my/steady": [{"a->b": (200, 200, 200)}, {"a->b": (200, 200, 200)}],
}


@pytest.fixture
def results() -> Measurements:
    return Measurements(
        {scenario: dict(enumerate(map(values, repeats))) for scenario, repeats in REPEATS.items()}
    )


def values(flows: Mapping[str, Sequence[float]]) -> Values:
    media: Values = {MEDIA: dict.fromkeys(flows, (1.0, None))}
    return media | {
        name: {flow: (float(rates[at]), None) for flow, rates in flows.items()}
        for at, name in enumerate(("rate_kbps", "stats_rate_kbps@0", "stats_rate_kbps@10"))
    }


CALL = {"metric": "rate_kbps", "scenario": "my/call"}
KBPS = {"metric": "stats_rate_kbps", "scenario": "my/call"}
OTHER = {"scenario": "my/other"}


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        # All flows of both repeats: (100 + 300 + 200 + 200) / 4, and one flow: (100 + 200) / 2.
        (CALL, "200"),
        (CALL | {"flows": "a->*"}, "150.0"),
        (CALL | {"combine": "sum"}, "400"),
        (KBPS | {"window_s": [0, 10]}, "180"),
        (KBPS | {"window_s": [10, 20]}, "220"),
        (KBPS | {"window_s": [0, 20], "flows": ["a->b", "b->a"]}, "200"),
        (KBPS | {"window_s": [0, 20], "combine": "sum"}, "400"),
        # 100 and 300: 400² / (2 · 100,000) = 0.8; 200 and 200: 1.
        (CALL | {"combine": "jain"}, "0.900"),
        (KBPS | {"window_s": [0, 20], "combine": "jain"}, "0.900"),
        (CALL | {"percent_of": OTHER}, "50"),
        (CALL | {"percent_of": {"value": 800}}, "25"),
        (CALL | {"percent_below": OTHER | {"flows": "a->b"}}, "50"),
        (CALL | {"ratio_to": {"flows": "b->a"}}, "0.800"),  # 200 / 250
        (CALL | {"minus": OTHER}, "−200"),
        (KBPS | {"window_s": [0, 10], "ratio_to": {"window_s": [10, 20]}}, "0.818"),
        # (150 + 2 · 250) / 2, the second as a ratio to 0.5.
        (CALL | {"mean_of": [{"flows": "a->b"}, {"flows": "b->a", "ratio_to": {"value": 0.5}}]}, "325.0"),
    ],
)
def test_a_quantity_has_the_value_computed_by_hand(
    results: Measurements, quantity: dict[str, object], expected: str
) -> None:
    finding = Numbers.read(quantity | {"between": [-1e9, 1e9]}, "test").check(results)
    assert finding.figures.partition(" ± ")[0] == expected


RATE = {"metric": "rate_kbps"}
STEADY = RATE | {"scenario": "my/steady"}


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        # Both repeats of this scenario have 200, so its interval has no width and the bounds are inclusive.
        (STEADY | {"between": [200, 201]}, Outcome.KEPT),
        (STEADY | {"between": [199, 200]}, Outcome.KEPT),
        (STEADY | {"between": [200.1, 300]}, Outcome.CONTRADICTED),
        (STEADY | {"between": [100, 199.9]}, Outcome.CONTRADICTED),
        # 20 % around the published number: 166.7 to 250 keep 200.
        (STEADY | {"near": 166.7}, Outcome.KEPT),
        (STEADY | {"near": 166.6}, Outcome.CONTRADICTED),
        (STEADY | {"near": 250}, Outcome.KEPT),
        (STEADY | {"near": 250.1}, Outcome.CONTRADICTED),
        # One direction has 100 and 200: 150 ± 12.706 · 70.7 / √2 = 150 ± 635.
        (CALL | {"flows": "a->b", "between": [0, 1000]}, Outcome.UNDECIDED),
        (CALL | {"flows": "a->b", "between": [-500, 1000]}, Outcome.KEPT),
        # One repeat has no interval.
        (RATE | OTHER | {"between": [0, 1000]}, Outcome.UNDECIDED),
        (RATE | {"each": [{"value": 3}, {"value": 2}], "falling": True}, Outcome.KEPT),
        (RATE | {"each": [{"value": 2}, {"value": 2}], "falling": True}, Outcome.CONTRADICTED),
        (RATE | {"each": [{"value": 2}, {"value": 3}], "falling": True}, Outcome.CONTRADICTED),
        # What varies together has a difference that does not: 200 in both repeats.
        (RATE | {"each": [STEADY, {"value": 100}], "falling": True}, Outcome.KEPT),
        (RATE | {"each": [STEADY, {"value": 201}], "between": [200, 201]}, Outcome.KEPT),
        (RATE | {"each": [STEADY, {"value": 202}], "between": [200, 201]}, Outcome.CONTRADICTED),
    ],
)
def test_a_check_is_decided_by_intervals_and_bounds_that_are_inclusive(
    results: Measurements, check: dict[str, object], outcome: Outcome
) -> None:
    assert Numbers.read(check, "test").check(results).outcome == outcome


def test_a_check_lists_its_numbers_with_their_intervals_and_unit(results: Measurements) -> None:
    check = RATE | {"each": [STEADY, CALL | {"flows": "a->b"}], "near": 300, "unit": "kbit/s"}
    assert Numbers.read(check, "test").check(results).figures == "200, 150.0 ± 635.3 kbit/s"


TOML = """
title = "A paper"
source = "Somebody, 2013"

[tables]
I = "Latency"

[reasons]
host = "one processor for everything"

[[trends]]
statement = "It falls"
source = "IV"
how = "below"
checks = [{ metric = "rate_kbps", scenario = "my/call", between = [0, 1] }]

[[figures]]
number = "5"
title = "Rates"
caption = "Of both."
form = "bars"
metric = "rate_kbps"
flow = "a->b"
lines = [{ label = "mine", scenario = "my/call" }, { label = "other", scenario = "my/other" }]

[[ambiguities]]
ambiguous = "Its unit"
source = "IV"
first = "bit"
other = "byte"
variant = "-byte"
changes = ["link.up.capacity"]
fits = "first"
verdict = "It agrees"
numbers = [{ label = "rate", metric = "sent_kbps", scenario = "my/rate", published = 10 }]

[pairs]
"500 kbit/s" = { before = "my/call", after = "my/other", sessions = 3 }
"""
CSV = """table,row,machine,column,scenario,metric,mean,sd,printed,status,note
I,0 ms,overall,Rate,my/call,rate_kbps,10,,,host,
"""


def test_a_paper_is_read_from_its_two_files(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(TOML)
    (tmp_path / "my.csv").write_text(CSV)
    paper = read_paper("my", tmp_path)
    assert [(cell.row, cell.mean, cell.sd, cell.status) for cell in paper.cells] == [
        ("0 ms", 10, None, "host")
    ]
    assert [trend.statement for trend in paper.trends] == ["It falls"]
    assert paper.scenarios == ["my/call", "my/other", "my/rate", "my/rate-byte"]
    assert [reading.scenarios for reading in paper.ambiguities] == [[("my/rate", "my/rate-byte")]]
    assert [figure.names for figure in paper.figures] == [["mine", "other"]]


@pytest.mark.parametrize(
    ("ours", "nearer"),
    [
        # Ratios to 200: 0.5 and 2 are as near, 0.5 and 1.9 are not.
        ((100, 380), "other"),
        ((110, 400), "first"),
        ((100, 400), None),
        ((100, 100.9), None),  # less than 1 % apart
        ((100, 101.1), "other"),
        ((nan, 200), None),
        ((0, 200), None),
    ],
)
def test_the_nearer_reading_has_the_smaller_ratio(ours: tuple[float, float], nearer: str | None) -> None:
    assert ReadingNumbers("rate", "kbit/s", *ours, published=200).nearer == nearer
    assert ReadingNumbers("rate", "kbit/s", *ours, published=None).nearer is None


def test_both_readings_measure_the_same_quantity(results: Measurements) -> None:
    number = {"label": "share", "metric": "rate_kbps", "scenario": "my/", "percent_of": {"value": 800}}
    entry = tomllib.loads(TOML)["ambiguities"][0] | {"variant": "other", "numbers": [number]}
    reading = ambiguity_of(entry, "my.toml")
    assert reading.scenarios == [("my/", "my/other")]
    (row,) = reading.rows(results)
    assert isnan(row.first), "nothing was measured"
    assert (row.other, row.published) == (50, None)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "A paper"', "", "my.toml: title: missing"),
        ("[tables]", "[tabels]", "my.toml: tabels: unknown key; expected title, source, tables"),
        ("[reasons]", "[reasons", "my.toml: Expected ']' at the end of a table"),
        ('how = "below"', "", "my.toml: trend `It falls`: how: missing"),
        ("{ metric", "{ metirc", "trend `It falls`: check 1: metirc: unknown key; expected "),
        ('scenario = "my/call", ', "", "trend `It falls`: check 1: scenario: missing"),
        ("[0, 1]", '"low"', "trend `It falls`: check 1: between: "),
        ("[0, 1]", "[0, 1], near = 2", "check 1: expected one of between, near, falling; got between, near"),
        (", between = [0, 1]", "", "check 1: expected one of between, near, falling; got none"),
        ("[0, 1]", "[1, 0]", "check 1: between: expected the smaller bound first; got 1 and 0"),
        ("[0, 1] }", "[0, 1], window_s = [0, 15] }", "window_s: expected whole tens of seconds; got 0 to 15"),
        ("[0, 1] }", "[0, 1], window_s = [20, 20] }", "expected whole tens of seconds; got 20 to 20"),
        ("[0, 1] }", "[0, 1], each = [] }", "check 1: each: expected a length of at least 1; got 0"),
        ("checks = [{ metric", "# [{ metric", "checks: expected either checks or `untestable`"),
        ("checks = [{ metric", "checks = 5 # [{ metric", "trend `It falls`: checks: "),
        ("checks = [{ metric", "checks = [] # [{ metric", "checks: expected either checks or `untestable`"),
        ("changes = [", "changes = [] # [", "ambiguity `Its unit`: changes: expected a length of at least 1"),
        ('fits = "first"', 'fits = "both"', "fits: unknown value `both`; expected `first`, `other`"),
        ('label = "rate"', 'lable = "rate"', "ambiguity `Its unit`: number 1: "),
        ("numbers = [{", "numbers = [] # [{", "`Its unit`: numbers: expected a length of at least 1"),
        ("[0, 1] }", '[0, 1], combine = "summ" }', "combine: unknown value `summ`; expected `mean`, `sum`"),
        ('"rate_kbps", scen', '"rate_kbsp", scen', "`rate_kbsp`\n  hint: did you mean `rate_kbps`?"),
        (",rate_kbps,", ",rate_kbsp,", "my.csv:2: metric: no metric `rate_kbsp`"),
        ("[0, 1] }", '[0, 1], pairs = ["500kbit/s"] }', "unknown value `500kbit/s`; expected 500 kbit/s\n"),
        ('form = "bars"', 'form = "bar"', "figure `5`: form: unknown value `bar`; expected `over time`, "),
        ('flow = "a->b"', 'flwo = "a->b"', "figure `5`: flwo: unknown key; expected number, title, "),
        ('flow = "a->b"', "", "figure `5`: lines.0.flow: missing"),
        ("[0, 1] }", "[0, 1], percent_of = 5 }", "percent_of: expected a table; got `5`"),
        ("\nI,0 ms", "\nII,0 ms", "my.csv:2: table: unknown value `II`; expected I\n  hint: "),
        (",host,", ",hots,", "my.csv:2: status: unknown value `hots`; expected unusable, host\n"),
        ("rate_kbps,10,", "rate_kbps,1O,", "my.csv:2: mean: should be a valid number"),
        (",host,", ",host,note,more", "my.csv:2: beyond the last column: unknown key"),
        (",10,,,host,", "", "my.csv:2: fewer columns than the first line has"),
        (",sd,", ",sdd,", "my.csv:2: sdd: unknown key; expected table, row"),
    ],
)
def test_an_error_in_a_paper_names_the_file_and_the_place(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert TOML.count(before) + CSV.count(before) == 1
    (tmp_path / "my.toml").write_text(TOML.replace(before, after))
    (tmp_path / "my.csv").write_text(CSV.replace(before, after))
    with pytest.raises(BadInput) as raised:
        read_paper("my", tmp_path)
    assert message in str(raised.value)


def test_every_published_file_belongs_to_a_paper() -> None:
    for kind in ("toml", "csv"):
        assert {file.stem for file in PUBLISHED.glob(f"*.{kind}")} == set(NAMES)
