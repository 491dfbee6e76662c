"""One call of each kind: the metrics that have a value are those that the registry says its source knows."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from known_metrics import registered, said_to_be_known, with_values
from scenario_text import TWO_PEOPLE, scenario

import rtclab
from rtclab import Trace
from rtclab.backend.sim import SimBackend
from rtclab.experiment import essential
from rtclab.importers.logs import open_log
from rtclab.metrics import METRICS, SOURCES, essentials
from rtclab.scenario import Scenario
from rtclab.trace import Repeat

LOGS = Path(__file__).parent / "event_logs"
SCENARIO = """
name = "all"
duration = "46 s"
[participants.alice]
[participants.bob]
[video]
[audio]
[link.both]
capacity = "1 Mbit/s"
delay = "25 ms"
queue = "200 ms"
loss = "2 %"
[host]
encoder_capacity = "1000 Mpixel/s"
[traffic.upload]
sender = "alice"
receiver = "bob"
start = "2 s"
"""
"""Everything of which there is a metric: video, audio, FEC, losses, TCP and a processor.

Rates in windows of 20 s are compared in the second half of the time without a change, 22 s here."""


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A simulated call, with a capture."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "all.toml").write_text(SCENARIO)
    return rtclab.run(folder / "all.toml", repeats=1, capture=True, out=folder).traces[0]


def dump_of(call: Trace) -> dict[str, Any]:
    """What webrtc-internals would have written about the call at alice, counters of repairs left out."""
    stats: dict[str, Any] = {}
    for table, kind in (
        ("outbound_rtp", "outbound-rtp"),
        ("inbound_rtp", "inbound-rtp"),
        ("remote_inbound_rtp", "remote-inbound-rtp"),
    ):
        own = call.table(table).filter(participant="alice").drop("participant", "flow")
        # Browsers do not know the last one.
        own = own.drop("packetsRepaired", "totalSoundDelay", strict=False)
        if table == "remote_inbound_rtp":  # a browser leaves out what no report has told it yet
            own = own.drop_nulls("roundTripTime")
        for row in own.iter_rows(named=True):
            at_ms = row.pop("at_ns") / 1e6 + 1.7e12
            for name, value in (row | {"type": kind, "timestamp": at_ms}).items():
                key = f"{kind}{row['ssrc']}-{name}"
                series = stats.setdefault(key, {"statsType": kind, "values": []})
                series["values"].append(value)
    known = {key: series for key, series in stats.items() if None not in series["values"]}
    for series in known.values():
        series["values"] = json.dumps(series["values"])
    states = [
        ("createOffer", "", 0),
        ("signalingstatechange", "stable", 40),
        ("iceconnectionstatechange", "connected", 100),
        ("connectionstatechange", "connected", 180),
    ]
    updates = [{"type": name, "value": f'"{of}"', "timestamp": 1.7e12 + at} for name, of, at in states]
    return {"PeerConnections": {"1-1": {"updateLog": updates, "stats": known}}, "UserAgent": "Chrome/156"}


def traces_of(source: str, call: Trace, folder: Path) -> list[Trace]:
    """The call as a source sees it. The event logs are of another call, without audio."""
    if source == "simulated":
        return [call]
    if source == "capture":
        sdp = (call.path / "capture.sdp").read_text()
        return [Trace.from_pcap(call.path / "capture.pcapng", sdp=sdp)]
    if source == "event log":
        logs = sorted(LOGS.iterdir())
        made = [open_log(logs[0]), open_log(*logs)]
    else:
        (folder / "dump.txt").write_text(json.dumps(dump_of(call)))
        made = [open_log(folder / "dump.txt")]
    return [Trace.in_memory(one.tables, one.manifest) for one in made]


NOT_HERE = {
    # The call has no ECN-capable packets and no fall of the capacity, and FEC in RED cannot be told apart.
    "simulated": {"ce_share", "recovery_time"},
    "capture": {"ce_share", "fec_share"},
}
"""Metrics that a source knows only under a condition that the call does not meet."""


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "live"])
def test_a_source_has_values_of_exactly_the_metrics_that_it_is_said_to_know(
    source: str, call: Trace, tmp_path: Path
) -> None:
    expected = said_to_be_known(source) - NOT_HERE.get(source, set())
    assert with_values(traces_of(source, call, tmp_path)) == expected


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "live"])
def test_only_who_planned_the_calls_knows_the_share_of_those_that_failed(
    source: str, call: Trace, tmp_path: Path
) -> None:
    traces = traces_of(source, call, tmp_path)
    repeats = [Repeat(index, seed=0, status="finished") for index in range(len(traces))]
    metric = METRICS["call_failures"]
    share = metric.function(SimpleNamespace(repeats=repeats, traces=traces))
    assert metric.known is not None
    assert isnan(share) == (metric.known[source].certainty == "not")


def test_every_metric_says_how_each_source_knows_it() -> None:
    for name, metric in registered().items():
        assert metric.known is not None, name
        assert tuple(metric.known) == SOURCES, name
        bounded = [one for one in metric.known.values() if one.certainty == "within bounds"]
        assert all(one.note for one in bounded), f"{name} names no bounds"


def test_the_first_table_of_a_source_shows_the_nearest_of_what_it_knows() -> None:
    def first(source: str) -> list[str]:
        return essentials(said_to_be_known(source))[:4]

    assert first("simulated") == ["receiving_rate", "utilisation", "rtt", "queuing_delay_p95"]
    assert first("capture") == ["receiving_rate", "delay_variation_p95", "packet_loss"]
    assert first("event log") == ["receiving_rate", "delay_variation_p95", "packet_loss"]
    assert first("dump") == ["stats_receiving_rate", "stats_sending_rate", "rtt", "unseen_loss"]


def test_essential_rows_are_those_with_values() -> None:
    names = ["receiving_rate", "stats_receiving_rate", "rtt", "goodput", "packet_loss"]
    rows = pl.DataFrame({"metric": names, "mean": [None, 240.0, 80.0, 200.0, None]})
    assert essential(rows)["metric"].to_list() == ["stats_receiving_rate", "rtt"]
    assert all(name in METRICS for name in names)


PASSED_ON = ["alice.up", "bob.down"]
"""The paths of limited capacity between alice and bob in ``examples/relay`` and ``examples/sfu``."""


# Behind Janus, packets of video have 8 B more of extensions and 6 B more of a tag than towards it.
@pytest.mark.parametrize(
    ("name", "mbps", "added"), [("examples/relay", (1, 4), 0), ("examples/sfu", (3, 6), 14)]
)
def test_what_is_not_queuing_of_a_packet_passed_on_is_serialisation_and_propagation_of_both_legs(
    name: str, mbps: tuple[int, int], added: int
) -> None:
    made = SimBackend().simulate(Scenario.load(name, ["duration=5 s"]), seed=1, repeat=0)
    assert set(PASSED_ON) <= set(made.manifest.flows["alice->bob"].route)
    copies = made.table("packets").filter(flow="alice->bob", kind="video").drop_nulls("queued_ns")
    rest_ns = copies["delivered_ns"] - copies["sent_ns"] - copies["queued_ns"]
    # 25 ms on each access link, and 8 bits of each byte at each rate; rounded up to a nanosecond.
    first, second = mbps
    sizes = copies["size_bytes"]
    expected_ns = 50e6 + (sizes - added) * 8e3 / first + sizes * 8e3 / second
    assert copies.height > 200
    assert copies["queued_ns"].max() > 1e6
    assert (rest_ns - expected_ns).is_between(-1, 4).all()


def test_an_idle_link_has_no_queuing_delay_but_a_variation_of_the_delay(tmp_path: Path) -> None:
    # Sound alone: one packet of some 150 B every 20 ms takes 1.2 ms at 1 Mbit/s, a STUN message less.
    text = "[audio]\n[link.both]\ncapacity = '1 Mbit/s'\ndelay = '25 ms'\n"
    quiet = scenario(tmp_path, text, "duration=5 s", base=TWO_PEOPLE.replace("[video]", ""))
    made = SimBackend().simulate(quiet, seed=1, repeat=0)
    for window in (None, (2.0, 4.0)):
        assert METRICS["queuing_delay_p50"].function(made.within(window), "alice->bob") == 0
        # Now and then sound waits for a message of RTCP or STUN, which is no longer than sound.
        assert METRICS["queuing_delay_p95"].function(made.within(window), "alice->bob") < 1.2
        assert METRICS["delay_variation_p50"].function(made.within(window), "alice->bob") > 0.2
