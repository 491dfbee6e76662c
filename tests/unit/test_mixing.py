"""MCUs that mix, and cascades of SFUs and MCUs, in the simulator."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scenario_text import error, scenario

from rtclab import monitoring
from rtclab.backend.sim import CAPTURE, DESCRIPTIONS, SimBackend
from rtclab.metrics.delay import one_way_delay
from rtclab.metrics.host import cpu
from rtclab.metrics.media import frame_rate, picture_delay
from rtclab.metrics.rate import receiving_rate
from rtclab.metrics.setup import setup_time
from rtclab.scenario import Scenario
from rtclab.scenario.topology import connections
from rtclab.trace import Trace

EXACT = """
[audio]
[servers.box]
[congestion_control]
name = "fixed"
stack = "chrome-27"
[link]
up = { delay = "10 ms" }
down = { delay = "15 ms" }
"""
"""Nothing queues, and the pictures of the encoder of 2013 keep their size and rate at any bitrate."""
VIDEO = (
    'video={codec="vp8-2013", camera="steady", max_bitrate="500 kbit/s", min_bitrate="500 kbit/s", '
    'start_bitrate="500 kbit/s"}'
)
NO_VIDEO = "video=false"
MIXING = "\n[[calls]]\nkind = 'mixing-mcu'\nserver = 'box'\n"
SFU = "\n[[calls]]\nkind = 'sfu'\nserver = 'box'\n"
WAY_MS = 10 + 10
"""From a camera to the decoder of its server: the uplink, and 10 ms for rendering in the buffer of 2013."""
BACK_MS = 15 + 10
"""From the server's encoder to the screen."""
INTERVAL_MS = 1000 / 30


def people(*names: str) -> str:
    return "".join(f"[participants.{name}]\n" for name in names)


def simulate(tmp_path: Path, text: str, *changes: str) -> Trace:
    loaded = scenario(tmp_path, text, "duration=20 s", *changes)
    backend = SimBackend()
    backend.check(loaded)
    return backend.simulate(loaded, seed=1, repeat=0)


def media_kbps(trace: Trace, *flows: str) -> float:
    """Rate of the media packets sent in the flows, in kbit/s, in the last ten seconds."""
    late = pl.col("sent_ns") >= 10 * 10**9
    chosen = trace.table("packets").filter(pl.col("flow").is_in(flows), pl.col("kind").is_not_null(), late)
    return int(chosen["size_bytes"].sum()) * 8 / 10e3


# --- one MCU -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], ["carol"], ["carol", "dave"]])
def test_everybody_receives_one_stream_from_a_mixing_mcu_and_all_others_from_an_sfu(
    tmp_path: Path, others: list[str]
) -> None:
    names = ["alice", "bob", *others]
    count = len(names)
    mixed = simulate(tmp_path, EXACT + people(*others) + MIXING, NO_VIDEO)
    # An audio packet has 142 B: IP and UDP, RTP with two extensions, 20 ms of 32 kbit/s, SRTP tag.
    stream_kbps = 142 * 8 * 50 / 1e3
    assert media_kbps(mixed, "alice->box") == pytest.approx(stream_kbps, abs=0.2)
    for name in names:
        assert media_kbps(mixed, f"box->{name}") == pytest.approx(stream_kbps, abs=0.2)
    forwarded = simulate(tmp_path, EXACT + people(*others) + SFU, NO_VIDEO)
    pairs = [f"{sender}->{receiver}" for sender in names for receiver in names if sender != receiver]
    from_box = {
        name
        for name, flow in forwarded.manifest.flows.items()
        if name in pairs and flow.route[-2:] == ("box.up", f"{flow.receiver}.down")
    }
    assert from_box == set(pairs)
    # The uplink of the server: n streams against n (n - 1).
    assert media_kbps(forwarded, *pairs) == pytest.approx(
        count * (count - 1) * stream_kbps, abs=0.2 * count**2
    )
    assert set(mixed.manifest.flows) == {f"{name}->box" for name in names} | {
        f"box->{name}" for name in names
    }


def test_a_mixing_mcu_has_its_own_congestion_control_and_each_receiver_its_own_rate(tmp_path: Path) -> None:
    narrow = "[participants.carol.link]\ndown = { capacity = '500 kbit/s', queue = '300 ms' }\n"
    trace = simulate(tmp_path, "[servers.box]\n" + narrow + MIXING, "duration=60 s")
    rates = {
        name: receiving_rate(trace.within((20, 60)), f"box->{name}") for name in ("alice", "bob", "carol")
    }
    # 1.7 Mbit/s of media and 3 to 6 % of headers, and what 500 kbit/s carry.
    assert 1700 < rates["alice"] < 1850
    assert 1700 < rates["bob"] < 1850
    assert 350 < rates["carol"] < 500
    # Nobody else is slowed down: alice and bob send at full rate too, unlike over a switching MCU.
    assert receiving_rate(trace.within((20, 60)), "alice->box") > 1700
    values = trace.table("controller").filter(flow="box->carol")
    assert values["participant"].unique().to_list() == ["box"]


CLOCK_MS = 70 / 3
"""From alice's first picture at the decoder to the next tick of the composition clock.

The clock begins with the handshake at the server, 10 ms after hers, with which her camera begins. So its
second tick is 10 + 33.3 ms after her first picture was taken, which is there after 20 ms.
"""


@pytest.mark.parametrize(
    ("decode_ms", "encode_ms", "until_composed_ms"),
    [
        (0, 0, CLOCK_MS),
        (0, 10, CLOCK_MS),
        # Decoding fits into the time in which the picture waits for the clock.
        (20, 10, CLOCK_MS),
        # It does not, so the picture is in the next composition. By then the same processor decodes the next
        # picture, for as much longer as the decoder was late.
        (25, 0, CLOCK_MS + INTERVAL_MS + 25 - CLOCK_MS),
        (25, 5, CLOCK_MS + INTERVAL_MS + 25 - CLOCK_MS),
    ],
)
def test_a_composed_picture_is_as_old_as_ways_decoder_clock_and_encoder_make_it(
    tmp_path: Path, decode_ms: float, encode_ms: float, until_composed_ms: float
) -> None:
    # 307,200 pixels at 307.2 / t Mpixel/s take t ms.
    encoder, decoder = (307.2 / ms if ms else 1e9 for ms in (encode_ms, decode_ms))
    host = f'{{encoder_capacity="{encoder:f} Mpixel/s", decoder_capacity="{decoder:f} Mpixel/s"}}'
    trace = simulate(
        tmp_path, EXACT + MIXING, VIDEO, f"servers.box.host={host}", "participants.bob.video=false"
    )
    assert picture_delay(trace.within((5, 15)), "alice->box") == pytest.approx(WAY_MS, abs=0.1)
    expected = WAY_MS + until_composed_ms + encode_ms + BACK_MS
    assert picture_delay(trace.within((5, 15)), "box->bob") == pytest.approx(expected, abs=0.1)
    assert frame_rate(trace.within((5, 15)), "box->bob") == pytest.approx(30, abs=0.1)
    # Packets are measured on each leg alone.
    assert one_way_delay(trace.within((5, 15)), "alice->box") == pytest.approx(10, abs=0.1)
    assert one_way_delay(trace.within((5, 15)), "box->bob") == pytest.approx(15, abs=0.1)
    # 30 pictures a second are decoded once and encoded once.
    assert cpu(trace.within((6, 16)), "box->bob") == pytest.approx(3 * (decode_ms + encode_ms), abs=0.2)
    # Alice receives pictures of nobody, and sound.
    assert trace.table("frames").filter(flow="box->alice").is_empty()
    assert media_kbps(trace, "box->alice") == pytest.approx(56.8, abs=0.2)


def test_pictures_are_composed_at_the_size_and_rate_of_the_server_and_shown_at_set_up(tmp_path: Path) -> None:
    size = "servers.box.video={width=320, height=240, frame_rate=10}"
    trace = simulate(tmp_path, EXACT + people("carol") + MIXING, VIDEO, size)
    for name in ("alice", "bob", "carol"):
        frames = trace.table("frames").filter(flow=f"box->{name}")
        assert frames.select("width", "height").unique().rows() == [(320, 240)]
        assert frame_rate(trace.within((5, 15)), f"box->{name}") == pytest.approx(10, abs=0.1)
        # Behind a composition clock of 100 ms at most.
        delay_ms = picture_delay(trace.within((5, 15)), f"box->{name}")
        assert WAY_MS + BACK_MS <= delay_ms <= WAY_MS + BACK_MS + 100
        # The first picture at the server, a wait for the clock, and the way back.
        longer_ms = setup_time(trace, f"box->{name}") - setup_time(trace, f"{name}->box")
        assert BACK_MS <= longer_ms <= BACK_MS + 100


def test_who_leaves_is_no_longer_shown_and_the_last_one_is_shown_nothing(tmp_path: Path) -> None:
    text = EXACT + "[participants.carol]\nleave = '6 s'\n" + MIXING
    trace = simulate(tmp_path, text, VIDEO, 'participants.bob.leave="12 s"')
    shown = trace.table("frames").filter(flow="box->alice")
    age_ms = (shown["rendered_ns"] - shown["captured_ns"]) / 1e6
    # If carol's last picture stayed, the mean age would grow to 3 s.
    assert age_ms.max() < WAY_MS + BACK_MS + INTERVAL_MS + 1  # type: ignore[operator]
    assert 11.9e9 < shown["rendered_ns"].max() < 12.1e9  # type: ignore[operator]
    assert (
        trace.table("packets").filter(pl.col("sent_ns") > 13e9, flow="box->alice", kind="audio").height > 300
    )


def test_a_mixed_call_is_the_same_twice_and_with_a_capture_which_has_every_stream(tmp_path: Path) -> None:
    loaded = scenario(tmp_path, people("carol") + "[audio]\n[servers.box]\n" + MIXING, "duration=5 s")
    plain, again = (SimBackend().simulate(loaded, seed=3, repeat=0) for _ in range(2))
    captured = SimBackend(capture=True).run(loaded, seed=3, repeat=0, out=tmp_path)
    for name in plain.tables:
        assert plain.table(name).equals(again.table(name)), name
        assert plain.table(name).equals(captured.table(name)), name
    seen = monitoring.monitor(tmp_path / CAPTURE, sdp=(tmp_path / DESCRIPTIONS).read_text())["streams"]
    kinds = seen.filter(direction="outbound").group_by("interface", "kind").len()
    # One video and one audio at each participant, and one of each from everybody at the server.
    for node, expected in (("alice", 1), ("bob", 1), ("carol", 1), ("box", 3)):
        counted = dict(kinds.filter(interface=node).select("kind", "len").iter_rows())
        assert (counted["video"], counted["audio"]) == (expected, expected), node


# --- cascades ----------------------------------------------------------------------------------------

CASCADE = """
[participants.carol]
[participants.dave]
[servers.hub]
link = { up = { delay = "3 ms" }, down = { delay = "4 ms" } }
[servers.east]
link = { up = { delay = "3 ms" }, down = { delay = "4 ms" } }
[servers.west]
link = { up = { delay = "3 ms" }, down = { delay = "4 ms" } }
"""
HOP_MS = 3 + 4
"""From one server to the next."""


def cascade(kind: str) -> str:
    servers = "{ hub = ['alice', 'bob'], east = ['carol'], west = ['dave'] }"
    return f"\n[[calls]]\nkind = '{kind}'\nservers = {servers}\n"


@pytest.mark.parametrize("kind", ["sfu", "mcu"])
def test_each_server_of_a_cascade_adds_the_way_to_the_next_one_exactly(tmp_path: Path, kind: str) -> None:
    trace = simulate(tmp_path, EXACT + CASCADE + cascade(kind), NO_VIDEO, "duration=5 s")
    hops = {"alice->bob": 0, "alice->carol": 1, "carol->alice": 1, "carol->dave": 2, "dave->carol": 2}
    for flow, count in hops.items():
        packets = trace.table("packets").filter(flow=flow, kind="audio").drop_nulls("delivered_ns")
        delay_ms = ((packets["delivered_ns"] - packets["sent_ns"]) / 1e6).unique().to_list()
        # The participant's uplink and the server's downlink, the servers, the last uplink and the downlink.
        assert delay_ms == [10 + 4 + count * HOP_MS + 3 + 15], flow
        assert packets.height > 200
    assert trace.manifest.flows["carol->dave"].route == (
        *("carol.up", "east.down", "east.up", "hub.down", "hub.up", "west.down", "west.up", "dave.down"),
    )


@pytest.mark.parametrize("kind", ["sfu", "mcu"])
def test_between_two_servers_each_stream_passes_once(tmp_path: Path, kind: str) -> None:
    trace = simulate(tmp_path, EXACT + CASCADE + cascade(kind), NO_VIDEO)
    # 56.8 kbit/s each: alice, bob and carol to the west; dave from there.
    for flow in ("alice->west", "bob->west", "carol->west", "dave->hub"):
        assert media_kbps(trace, flow) == pytest.approx(56.8, abs=0.2), flow
    assert media_kbps(trace, "west->hub", "hub->west") == 0


def test_feedback_of_switching_mcus_reaches_the_sender_over_all_servers(tmp_path: Path) -> None:
    trace = simulate(tmp_path, EXACT + CASCADE + cascade("mcu"), VIDEO, "participants.dave.video=false")
    reports = trace.table("remote_inbound_rtp").filter(flow="carol->east", kind="video")
    trips_ms = (reports["roundTripTime"].drop_nulls() * 1e3).to_list()
    one_way_ms = {hops: 10 + 4 + hops * HOP_MS + 3 + 15 for hops in (1, 2)}
    # The last report of a second is from alice or bob, or from dave.
    assert trips_ms
    for trip_ms in trips_ms:
        assert min(abs(trip_ms - 2 * way) for way in one_way_ms.values()) < 1.1, trip_ms


def test_cascaded_mixing_mcus_exchange_one_composition_each_way(tmp_path: Path) -> None:
    trace = simulate(tmp_path, EXACT + CASCADE + cascade("mixing-mcu"), VIDEO)
    legs = {
        *(f"{name}->hub" for name in ("alice", "bob", "east", "west")),
        *(f"hub->{name}" for name in ("alice", "bob", "east", "west")),
        *("carol->east", "east->carol", "dave->west", "west->dave"),
    }
    assert set(trace.manifest.flows) == legs
    rates = {leg: media_kbps(trace, leg) for leg in legs}
    # Each leg has one stream of audio, and one of video: 500 kbit/s in 60 packets/s with 64 B of headers.
    assert rates == {leg: pytest.approx(587.5, abs=20) for leg in legs}
    # Carol is seen by dave over three servers. Each waits for a clock, and so do alice and bob over two.
    seen_ms = picture_delay(trace.within((5, 15)), "west->dave")
    carol_ms = WAY_MS + 4 + 2 * (HOP_MS + 10) + 3 + BACK_MS
    near_ms = WAY_MS + 4 + (HOP_MS + 10) + 3 + BACK_MS
    least_ms = (carol_ms + 2 * near_ms) / 3
    # If a composition came back to where it was made, the age of what it shows would have no bound.
    assert least_ms <= seen_ms <= least_ms + (3 + 2 + 2) / 3 * INTERVAL_MS
    ages = trace.table("frames").filter(pl.col("rendered_ns") > 5e9, flow="west->dave")
    assert ((ages["rendered_ns"] - ages["captured_ns"]) / 1e6).max() < least_ms + 3 * INTERVAL_MS


def test_without_a_cascade_the_connections_of_a_server_are_the_uplinks_and_then_the_copies(
    tmp_path: Path,
) -> None:
    joined = connections(scenario(tmp_path, "[participants.carol]\n[[calls]]\nkind = 'sfu'"))
    names = ["alice", "bob", "carol"]
    ups = [(name, "core", None) for name in names]
    downs = [
        ("core", receiver, names.index(sender))
        for sender in names
        for receiver in names
        if receiver != sender
    ]
    assert [(one.a, one.b, one.forwards) for one in joined] == ups + downs


# --- SFUs with a congestion control -----------------------------------------------------------------


SLOW = (
    "link={up={delay='20 ms'}, down={delay='20 ms'}}",
    *(f"video.{rate}_bitrate=1500 kbit/s" for rate in ("start", "max")),
    "participants.bob.video=false",
    'participants.bob.link={down={capacity="1 Mbit/s", delay="20 ms", queue="300 ms"}}',
)
"""Alice's camera sends 1.5 Mbit/s, and bob's downlink carries 1 Mbit/s."""


def test_an_sfu_with_a_congestion_control_knows_what_its_receiver_can_get(tmp_path: Path) -> None:
    """What arrives is the capacity of 1 Mbit/s. The control backs off to 85 % of it, and rises again."""
    server = "[servers.box]\ncongestion_control = { name = 'goog-cc' }\n"
    trace = simulate(tmp_path, server + SFU, *SLOW, "duration=60 s")
    reports = trace.table("candidate_pair").filter(
        (pl.col("participant") == "box") & (pl.col("flow") == "alice->bob") & (pl.col("at_ns") > 20 * 10**9)
    )
    estimates = reports["availableOutgoingBitrate"].to_list()
    assert len(estimates) == 40
    mean = sum(estimates) / len(estimates)
    assert 0.75e6 < mean < 1.1e6, mean


def test_an_sfu_without_one_forwards_at_once_and_reports_nothing(tmp_path: Path) -> None:
    trace = simulate(tmp_path, "[servers.box]\n" + SFU, *SLOW, "duration=60 s")
    of_box = trace.table("candidate_pair").filter(pl.col("participant") == "box")
    assert set(of_box["flow"]) == {"box->alice", "box->bob"}
    sent = trace.table("packets").filter((pl.col("flow") == "alice->bob") & (pl.col("kind") == "video"))
    # Alice's 1.5 Mbit/s, and up to a tenth for headers.
    kbps = sent.filter(pl.col("sent_ns") > 20 * 10**9)["size_bytes"].sum() * 8 / 40 / 1000
    assert 1_400 < kbps < 1_650, kbps


# --- misuse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[calls]]\nkind = 'mixing-mcu'\nserver = 'box'",
            "calls.0.server: no server `box`; expected one of `core`",
        ),
        (
            "[servers.box]\nhost = { encoder_capacity = '1 Mpixel/s' }\n" + SFU,
            "servers.box.host: box mixes nothing; expected a call of kind `mixing-mcu` with this server",
        ),
        (
            "[servers.box]\ncongestion_control = { name = 'goog-cc' }\n" + SFU.replace("sfu", "mcu"),
            "servers.box.congestion_control: box sends no media; expected a call of kind `sfu` or "
            "`mixing-mcu` with this server",
        ),
        (
            "[servers.box]\naudio = { bitrate = '16 kbit/s' }\n" + MIXING,
            "servers.box.audio: nobody sends audio to box; expected a participant who does",
        ),
        (
            "[participants.carol]\nvideo = false\n[participants.dave]\nvideo = false\n"
            "[[calls]]\nkind = 'mixing-mcu'\nparticipants = ['carol', 'dave']",
            "calls.0.participants: nobody in this call sends video or audio; expected a participant who does",
        ),
        (
            "[servers.box]\nvideo = { width = 0 }\n" + MIXING,
            "servers.box.video.width: should be greater than or equal to 1; got `0`",
        ),
        (
            "[[calls]]\nservers = { core = ['alice'], box = ['bob'] }",
            "calls.0.servers: a call of kind `p2p` has no servers; expected kind sfu or mcu or mixing-mcu",
        ),
        (
            "[servers.box]\n" + SFU + "servers = { core = ['alice'], box = ['bob'] }",
            "calls.0.servers: cannot be combined with server",
        ),
        (
            "[[calls]]\nkind = 'sfu'\nservers = { core = ['alice', 'bob'] }",
            "calls.0.servers: expected a length of at least 2; got 1",
        ),
        (
            "[[calls]]\nkind = 'sfu'\nservers = { core = ['alice'], west = ['bob'] }",
            "calls.0.servers: no server `west`; expected one of `core`",
        ),
        (
            "[servers.box]\nvideo = false\naudio = false\n[[calls]]\nkind = 'mixing-mcu'\nserver = 'box'",
            "servers.box.video: box has neither video nor audio; expected one of them, which it mixes",
        ),
        (
            "[servers.box]\n[[calls]]\nkind = 'mcu'\nservers = { core = ['alice'], box = ['eve', 'bob'] }",
            "calls.0.servers: `eve` is not in this call",
        ),
        (
            "[servers.box]\n[[calls]]\nkind = 'mcu'\nservers = { core = ['alice', 'bob'], box = ['bob'] }",
            "calls.0.servers: bob is listed 2 times; expected once, at one server",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(tmp_path: Path, text: str, said: str) -> None:
    assert said in error(tmp_path, text).splitlines()[0]


# --- shipped scenarios -------------------------------------------------------------------------------


def test_over_an_ocean_goes_one_composition_each_way() -> None:
    loaded = Scenario.load("examples/cascaded-mcu", ["duration=20 s"])
    trace = SimBackend().simulate(loaded, seed=1, repeat=0)
    crossing = {flow for flow, about in trace.manifest.flows.items() if "ocean" in about.route}
    assert crossing == {"europe->america", "america->europe"}
    # Audio, and video of 1.7 Mbit/s with 3 to 6 % of headers.
    assert all(1750 < media_kbps(trace, flow) < 1900 for flow in crossing)
    assert not trace.manifest.not_connected
