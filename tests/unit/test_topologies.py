"""Calls over relays, forwarders and trees, and several at once, in the simulator."""

from __future__ import annotations

from math import isinf
from pathlib import Path

import polars as pl
import pytest
from scenario_text import scenario

from rtclab.backend.sim import SimBackend
from rtclab.metrics.registry import METRICS
from rtclab.metrics.setup import setup_ice
from rtclab.trace import Trace

AUDIO = """
[audio]
[congestion_control]
name = "fixed"
"""
AUDIO_BYTES = 28 + 28 + 80 + 10
"""Size of an audio packet: IP and UDP, RTP with three extensions, 20 ms of 32 kbit/s, SRTP tag."""
TWO_LEGS = """
[servers.turn]
[link]
up = { capacity = "1 Mbit/s", delay = "25 ms" }
down = { delay = "25 ms" }
"""


def simulate(tmp_path: Path, text: str, *changes: str) -> Trace:
    loaded = scenario(tmp_path, text, *changes)
    backend = SimBackend()
    backend.check(loaded)
    return backend.simulate(loaded, seed=1, repeat=0)


def audio(trace: Trace, flow: str) -> pl.DataFrame:
    return trace.table("packets").filter((pl.col("flow") == flow) & (pl.col("kind") == "audio"))


def test_a_relayed_packet_is_one_row_with_both_legs_and_the_channel_header(tmp_path: Path) -> None:
    only_audio = ("duration=5 s", "video=false")
    direct = simulate(tmp_path, TWO_LEGS + AUDIO, *only_audio)
    relayed = simulate(tmp_path, TWO_LEGS + AUDIO + "[[calls]]\nrelay = 'turn'", *only_audio)
    for trace, header_bytes in ((direct, 0), (relayed, 4)):
        packets = audio(trace, "alice->bob").drop_nulls("delivered_ns")
        assert packets["size_bytes"].unique().to_list() == [AUDIO_BYTES + header_bytes]
        assert packets["seq"].is_unique().all()
        # Two delays of 25 ms and one serialisation at 1 Mbit/s, 8 us a byte.
        delay_ns = packets["delivered_ns"] - packets["sent_ns"]
        assert delay_ns.min() == 50_000_000 + 8_000 * (AUDIO_BYTES + header_bytes)
    assert relayed.manifest.flows["alice->bob"].route == (
        "alice.up",
        "turn.down",
        "turn.up",
        "bob.down",
    )
    # Three exchanges of 148 B with the relay, 25 ms each way. A check waits at most 50 ms, after at most
    # 13 ms of work.
    exchanges_ms = 3 * (2 * 25 + 148 * 8e-3)
    longer_ms = setup_ice(relayed, "bob->alice") - setup_ice(direct, "bob->alice")
    assert exchanges_ms - 63 <= longer_ms <= exchanges_ms + 63


@pytest.mark.parametrize(("node", "path"), [("alice", "alice.up"), ("bob", "bob.down")])
def test_a_packet_lost_on_either_leg_names_the_path(tmp_path: Path, node: str, path: str) -> None:
    way = path.partition(".")[2]
    text = f"{AUDIO}\n[participants.{node}.link]\n{way} = {{ loss = '20 %' }}\n[[calls]]\nrelay = 'core'"
    trace = simulate(tmp_path, text, "duration=20 s", "video=false")
    packets = audio(trace, "alice->bob")
    dropped = packets.filter(pl.col("dropped_ns").is_not_null())
    assert dropped["drop_path"].unique().to_list() == [path]
    # 20 % of about 970 packets, within four standard deviations.
    assert 0.15 < dropped.height / packets.height < 0.25


def test_a_bottleneck_can_be_on_one_leg(tmp_path: Path) -> None:
    text = (
        "[servers.turn]\n[bottlenecks.pipe]\nroutes = ['*->turn']\ndelay = '7 ms'\n[[calls]]\nrelay = 'turn'"
    )
    trace = simulate(tmp_path, AUDIO + text, "duration=2 s", "video=false")
    packets = audio(trace, "alice->bob").drop_nulls("delivered_ns")
    assert (packets["delivered_ns"] - packets["sent_ns"]).unique().to_list() == [7_000_000]


def test_parallel_calls_of_one_pair_are_separate_flows(tmp_path: Path) -> None:
    text = "[[calls]]\nend = '8 s'\n[[calls]]\nstart = '4 s'"
    trace = simulate(tmp_path, AUDIO + text, "duration=10 s", "video=false")
    assert trace.flows == ["alice->bob", "bob->alice", "alice->bob#2", "bob->alice#2"]
    first, second = audio(trace, "alice->bob"), audio(trace, "alice->bob#2")
    # A packet every 20 ms to the end. Pages need 0.06 to 0.4 s for the set-up of the first call. For
    # the second one they are already at the signalling server, and need 0.04 s at least.
    assert 380 <= first.height <= 397
    assert 285 <= second.height <= 298
    assert first["sent_ns"].max() < 8e9
    assert second["sent_ns"].min() >= 4e9
    assert set(first["ssrc"]).isdisjoint(second["ssrc"])
    received = trace.table("inbound_rtp").group_by("flow").agg(pl.col("packetsReceived").max()).rows()
    assert dict(received)["alice->bob#2"] == pytest.approx(300, abs=55)


THREE = """
[participants.carol]
[servers.box]
[link]
up = { delay = "10 ms" }
down = { delay = "15 ms" }
"""
FIVE_S = ("duration=5 s", "video=false")


def delays_ms(trace: Trace, flow: str) -> list[float]:
    packets = audio(trace, flow).drop_nulls("delivered_ns")
    return ((packets["delivered_ns"] - packets["sent_ns"]) / 1e6).unique().to_list()


def media_packets(trace: Trace, *flows: str) -> int:
    chosen = (
        pl.col("flow").is_in(flows) & (pl.col("protocol") == "rtp") & pl.col("delivered_ns").is_not_null()
    )
    return trace.table("packets").filter(chosen).height


@pytest.mark.parametrize(("kind", "sizes"), [("sfu", (138, 144)), ("mcu", (AUDIO_BYTES, AUDIO_BYTES))])
def test_a_forwarded_packet_keeps_its_sending_time_and_number(
    tmp_path: Path, kind: str, sizes: tuple[int, int]
) -> None:
    trace = simulate(tmp_path, f"{AUDIO}{THREE}[[calls]]\nkind = '{kind}'\nserver = 'box'", *FIVE_S)
    up, down = audio(trace, "alice->box"), audio(trace, "alice->bob")
    assert delays_ms(trace, "alice->box") == [10]
    assert delays_ms(trace, "alice->bob") == [25]
    both = up.join(down, on=("ssrc", "seq", "rtp_timestamp", "sent_ns"))
    # Janus has shorter headers towards it, and behind it a longer tag.
    assert both.select("size_bytes", "size_bytes_right").unique().rows() == [sizes]
    # All packets that arrive after bob has connected are forwarded.
    assert both.height == down.height == pytest.approx(up.height, abs=40)


@pytest.mark.parametrize("people", [3, 4])
def test_the_downlink_of_an_sfu_carries_all_but_one_of_the_uplinks(tmp_path: Path, people: int) -> None:
    names = ["alice", "bob", "carol", "dave"][:people]
    others = "".join(f"[participants.{name}]\n" for name in names[2:])
    trace = simulate(tmp_path, AUDIO + others + "[[calls]]\nkind = 'sfu'", "duration=20 s", "video=false")
    up = media_packets(trace, "alice->core")
    down = media_packets(trace, *(f"{name}->alice" for name in names[1:]))
    # The constant rates are equal, less what is sent before a receiver has connected; jansen2017: 2.00, 2.95.
    # Alice may be connected some tenths of a second after the others.
    assert 0.98 * (people - 1) < down / up <= 1.02 * (people - 1)


def test_an_sfu_answers_requests_itself_and_its_subscribers_losses_do_not_slow_the_sender(
    tmp_path: Path,
) -> None:
    lossy = "[participants.carol.link]\ndown = { loss = '10 %', delay = '15 ms' }\n"
    trace = simulate(tmp_path, THREE + lossy + "[[calls]]\nkind = 'sfu'\nserver = 'box'", "duration=40 s")
    last = trace.table("inbound_rtp").group_by("flow").agg(pl.all().last())
    counts = {row["flow"]: row for row in last.iter_rows(named=True)}
    lost = counts["alice->carol"]
    share = lost["packetsLost"] / (lost["packetsReceived"] + lost["packetsLost"])
    assert 0.08 < share < 0.12
    assert lost["retransmittedPacketsReceived"] == pytest.approx(lost["packetsLost"], rel=0.15)
    assert counts["alice->box"]["packetsLost"] == counts["alice->bob"]["packetsLost"] == 0
    assert counts["alice->box"]["framesDecoded"] is None
    shown = trace.table("frames").group_by("flow").len()
    assert dict(shown.rows())["alice->carol"] > 20 * 30
    assert "alice->box" not in shown["flow"].to_list()
    sent = trace.table("packets").filter(pl.col("kind") == "rtx").group_by("flow").len()
    assert dict(sent.rows())["alice->carol"] > 200
    targets = trace.table("outbound_rtp").filter(pl.col("flow") == "alice->box")
    # There is no loss on alice's side, so she reaches the encoder's maximum.
    assert targets["targetBitrate"].tail(5).min() > 1_600_000


def test_a_switching_mcu_passes_every_receivers_feedback_to_the_sender(tmp_path: Path) -> None:
    lossy = "[participants.carol.link]\ndown = { loss = '20 %', delay = '15 ms' }\n"
    control = "[congestion_control]\nname = 'rrtcc-2013'\n[[calls]]\nkind = 'mcu'\nserver = 'box'\n"
    trace = simulate(tmp_path, THREE + lossy + control, "duration=60 s")
    reports = trace.table("remote_inbound_rtp").filter(pl.col("flow") == "alice->box")
    # The last report of each second is from bob, who loses nothing, or from carol, who loses every fifth.
    shares = reports["fractionLost"].to_list()
    assert min(shares) == 0
    assert 0.1 < max(shares) < 0.4
    # From alice to a receiver and back: 25 ms each way.
    assert reports["roundTripTime"].median() == pytest.approx(0.050, abs=0.001)
    rtcp = trace.table("packets").filter(pl.col("protocol") == "rtcp")
    passed = rtcp.filter(pl.col("flow") == "box->alice").height
    # Alice receives the reports of bob and carol about her stream; each also reports about the other's.
    told = rtcp.filter(pl.col("flow").is_in(["bob->box", "carol->box"])).height
    assert 0.3 < passed / told < 0.7
    assert "box" not in trace.table("inbound_rtp")["participant"].to_list()


def test_each_level_of_a_tree_adds_an_uplink_and_a_downlink(tmp_path: Path) -> None:
    names = ["carol", "dave", "erin"]
    others = "".join(f"[participants.{name}]\n" for name in names)
    link = "[link]\nup = { delay = '10 ms' }\ndown = { delay = '15 ms' }\n"
    trace = simulate(tmp_path, AUDIO + others + link + "[[calls]]\nkind = 'tree'", *FIVE_S)
    # alice to bob and carol; bob to dave and erin.
    for name, level in (("bob", 1), ("carol", 1), ("dave", 2), ("erin", 2)):
        assert delays_ms(trace, f"alice->{name}") == [25 * level]
    assert trace.manifest.flows["alice->dave"].route == ("alice.up", "bob.down", "bob.up", "dave.down")
    assert set(trace.table("packets").filter(pl.col("kind") == "audio")["flow"]) == {
        f"alice->{name}" for name in ("bob", *names)
    }


def test_a_star_is_one_way_and_a_hub_forwards_everybody(tmp_path: Path) -> None:
    star = simulate(tmp_path, f"{AUDIO}{THREE}[[calls]]\nkind = 'star'\nroot = 'bob'", *FIVE_S)
    carrying = star.table("packets").filter(pl.col("kind") == "audio")["flow"].unique()
    assert set(carrying) == {"bob->alice", "bob->carol"}
    hub = simulate(tmp_path, f"{AUDIO}{THREE}[[calls]]\nkind = 'hub-and-spoke'\nroot = 'bob'", *FIVE_S)
    delays = {flow: delays_ms(hub, flow) for flow in hub.manifest.flows}
    direct = ["alice->bob", "bob->alice", "bob->carol", "carol->bob"]
    assert delays == {flow: [25] for flow in direct} | {"alice->carol": [50], "carol->alice": [50]}


def no_nan(trace: Trace) -> None:
    """No table has a NaN, and no metric is infinite. A metric's NaN means that it could not be measured."""
    for name in trace.tables:
        for column in trace.table(name).select(pl.selectors.float()).iter_columns():
            assert not column.is_nan().any(), (name, column.name)
    for metric in METRICS.values():
        if metric.scope == "flow":
            flows = trace.flows[:20]
            values = [metric.function(trace, flow) for flow in flows]
            assert not any(isinf(value) for value in values), metric.name


OUTAGE = 'up = { capacity = { steps = [["0 s", "1 Mbit/s"], ["5 s", "0 bit/s"], ["12 s", "1 Mbit/s"]] } }'


@pytest.mark.parametrize(
    "text",
    [
        "[participants.carol]\njoin = '60 min'",
        "[participants.alice.link]\n" + OUTAGE,
        "[participants.alice.link]\nup = { loss = '100 %' }",
        "[participants.bob.link]\nup = { loss = { steps = [['0 s', '0 %'], ['8 s', '100 %']] } }",
        "[participants.alice.link]\nup = { loss = '100 %' }\n[servers.box]\n[[calls]]\nrelay = 'box'",
        "[participants.carol]\njoin = '60 min'\n[[calls]]\nkind = 'sfu'",
        "[participants.carol]\njoin = '6 s'\nleave = '9 s'\n[[calls]]\nkind = 'sfu'",
        "[participants.carol.link]\n" + OUTAGE + "\n[[calls]]\nkind = 'mcu'",
        "[participants.carol.link]\ndown = { loss = '100 %' }\n[[calls]]\nkind = 'tree'\nfan_out = 1",
    ],
)
def test_a_run_under_bad_conditions_ends_and_its_tables_have_no_nan(tmp_path: Path, text: str) -> None:
    trace = simulate(tmp_path, text, "duration=20 s")
    no_nan(trace)
    seconds = trace.table("flow_seconds")
    assert seconds.group_by("flow").len()["len"].unique().to_list() == [20]
    if "join = '60 min'" in text:
        of_carol = seconds.filter(pl.col("flow").str.contains("carol"))
        assert of_carol.height > 0
        assert of_carol["sent_packets"].sum() == 0


@pytest.mark.parametrize("kind", ["p2p", "sfu", "mcu", "tree"])
def test_fifty_people_call_to_the_end(tmp_path: Path, kind: str) -> None:
    people = "".join(f"[participants.p{number}]\n" for number in range(48))
    trace = simulate(tmp_path, f"{people}{AUDIO}[[calls]]\nkind = '{kind}'", *FIVE_S, "record=seconds")
    no_nan(trace)
    seconds = trace.table("flow_seconds")
    assert seconds["at_ns"].max() == 4 * 10**9
    media = seconds.filter(pl.col("delivered_packets") >= 40)
    # 50 packets a second in each flow that carries media: 50 * 49 flows, and 50 uplinks.
    expected = {"p2p": 2450, "sfu": 2500, "mcu": 2500, "tree": 49}
    assert media["flow"].n_unique() == pytest.approx(expected[kind], abs=50)
