"""Scenarios: units, errors as sentences, and changes from the command line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from scenario_text import TWO_PEOPLE, error, scenario

from rtclab.errors import BadInput, FieldError, ScenarioError
from rtclab.scenario import (
    Bitrate,
    Duration,
    PathSpec,
    PixelRate,
    Probability,
    QueueLimit,
    Ratio,
    Scenario,
    shipped,
)
from rtclab.scenario.path import CapacityTrace, DelaySteps, GilbertElliott
from rtclab.scenario.units import Quantity, Size


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("1 bit/s", 1),
        ("300 kbit/s", 300_000),
        ("2.5 Mbit/s", 2_500_000),
        ("1Gbit/s", 10**9),
        (" 0 bit/s ", 0),
    ],
)
def test_rates_count_in_thousands(text: str, bps: int) -> None:
    assert Bitrate.parse(text).bps == bps


@pytest.mark.parametrize(
    ("text", "ns"),
    [("7 ns", 7), ("1.5 us", 1500), ("25 ms", 25_000_000), ("0.1 s", 10**8), ("2 min", 120 * 10**9)],
)
def test_times_are_held_in_nanoseconds(text: str, ns: int) -> None:
    assert Duration.parse(text).ns == ns


@pytest.mark.parametrize(
    ("text", "kind", "limit"),
    [
        ("300 ms", "time", 300_000_000),
        ("20 packets", "packets", 20),
        ("30000 B", "bytes", 30_000),
        ("30 kB", "bytes", 30_000),
    ],
)
def test_a_queue_limit_is_a_time_or_packets_or_bytes(text: str, kind: str, limit: int) -> None:
    assert QueueLimit.parse(text) == QueueLimit(kind, limit)


def test_a_ratio_is_written_in_per_cent_and_a_probability_also_as_a_number() -> None:
    assert Ratio.parse("2 %").value == 0.02
    assert Probability.parse("2 %").value == Probability.parse(0.02).value == 0.02


@pytest.mark.parametrize(
    "quantity",
    [
        Bitrate(1_700_000),
        Bitrate(1),
        Duration(0),
        Duration(90 * 10**9),
        Duration(1),
        Ratio(0.02),
        PixelRate(20_500_000),
        QueueLimit("bytes", 1500),
        QueueLimit("packets", 20),
        QueueLimit("time", 500_000),
        QueueLimit("time", 0),
    ],
)
def test_a_printed_quantity_reads_back_as_the_same_quantity(quantity: Any) -> None:
    assert type(quantity).parse(str(quantity)) == quantity


@pytest.mark.parametrize(
    ("kind", "text", "message", "hint"),
    [
        (
            Bitrate,
            "2.5 Mbps",
            "unknown rate unit in `2.5 Mbps`; expected bit/s, kbit/s, Mbit/s or Gbit/s",
            "write `2.5 Mbit/s`",
        ),
        (
            Bitrate,
            "1 furlong",
            "unknown rate unit in `1 furlong`; expected bit/s, kbit/s, Mbit/s or Gbit/s",
            "for example `1 Mbit/s`",
        ),
        (Duration, 25, "no unit in `25`; expected ns, us, ms, s or min", "write `25 ms` or `25 s`"),
        (Duration, "25 sec", "unknown time unit in `25 sec`; expected ns, us, ms, s or min", "write `25 s`"),
        (Duration, "-1 s", "`-1 s` is negative; expected a time of 0 or more", None),
        (Duration, "0.5 ns", "`0.5 ns` is not a whole multiple of 1 ns", None),
        # A capacity of 0 would be refused too.
        (
            Bitrate,
            0,
            "no unit in `0`; expected bit/s, kbit/s, Mbit/s or Gbit/s",
            "for example `1 Mbit/s`",
        ),
        (Ratio, 0.02, "no unit in `0.02`; expected %", "write `2 %`"),
        (Ratio, "101 %", "`101 %` is more than 100 %; expected 0 % to 100 %", None),
        (Probability, 1.5, "`1.5` is not a probability; expected 0 to 1, or 0 % to 100 %", None),
        (
            QueueLimit,
            "20 pkts",
            "unknown queue limit unit in `20 pkts`; expected ns, us, ms, s, packets, B, kB or MB",
            "write `20 packets`",
        ),
        (QueueLimit, "1.5 packets", "`1.5 packets` is not a whole multiple of one packet", None),
        # 10^15 bit/s, and 10^18 ns.
        (
            Bitrate,
            "1000001 Gbit/s",
            "`1000001 Gbit/s` is too large; expected at most 1000000 Gbit/s",
            None,
        ),
        (Duration, "1000000001 s", "`1000000001 s` is too large; expected at most 1000000000 s", None),
        (QueueLimit, "1000000001 s", "`1000000001 s` is too large; expected at most 1000000000 s", None),
        (Bitrate, True, "expected a rate such as `1 Mbit/s`; got `true`", None),
    ],
)
def test_a_wrong_quantity_says_what_was_expected(
    kind: Any, text: object, message: str, hint: str | None
) -> None:
    with pytest.raises(FieldError) as caught:
        kind.parse(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


MEANT = [
    # What other tools call these numbers, and the quantity.
    (Bitrate, "2.5", "2.5 Mbit/s"),
    (Bitrate, "800", "800 kbit/s"),
    (Bitrate, "49999", "49999 kbit/s"),
    (Bitrate, "64000", "64 kbit/s"),  # maxBitrate of WebRTC is in bit/s
    (Bitrate, "1000000", "1 Mbit/s"),
    (Bitrate, 1e6, "1 Mbit/s"),
    (Bitrate, "2.5 mbps", "2.5 Mbit/s"),
    (Duration, "25", "25 ms"),
    (Duration, "0.025", "25 ms"),
    (Duration, "20", "20 s"),
    (Duration, "3600", "3600 s"),
    (Duration, "25000", "25 s"),
    (Duration, "25000000", "25 ms"),  # Go and Rust print nanoseconds
    (Duration, "25000000", "25 s"),  # timestamps of libwebrtc are microseconds
    (Duration, "5 m", "5 min"),
    (PixelRate, "28", "28 Mpixel/s"),
    (PixelRate, 1280 * 720 * 30, "27648 kpixel/s"),
    (PixelRate, 1280 * 720 * 30 // 1000, "27648 kpixel/s"),
    (Ratio, "0.02", "2 %"),
    (Ratio, "2", "2 %"),
    (Probability, "0.02", "2 %"),
    (Size, "30", "30 kB"),
    (Size, "30000", "30 kB"),
    (Size, "1514", "1514 B"),
    (Size, "64 KiB", "64 kB"),
    (QueueLimit, "300", "300 ms"),
    (QueueLimit, "1000", "1000 packets"),  # `limit` of netem
    (QueueLimit, "30000", "30 kB"),
    (QueueLimit, "2 pkts", "2 packets"),
]


def offered(kind: type[Quantity], value: object) -> list[Any]:
    """The quantities that the hint says to write instead of a value."""
    with pytest.raises(FieldError) as refused:
        kind.parse(value)
    return [kind.parse(text) for text in re.findall("`(.*?)`", str(refused.value.hint))]


@pytest.mark.parametrize(("kind", "value", "meant"), MEANT)
def test_a_hint_offers_the_quantity_that_was_meant(kind: type[Quantity], value: object, meant: str) -> None:
    assert kind.parse(meant) in offered(kind, value)


def test_hints_of_every_kind_of_quantity_are_tried() -> None:
    kinds, known = [Quantity], set()
    while kinds:
        below = kinds.pop().__subclasses__()
        kinds, known = kinds + below, known | set(below)
    assert known == {kind for kind, *_ in MEANT}


@pytest.mark.parametrize(
    "kind", list(dict.fromkeys(kind for kind, *_ in MEANT)), ids=lambda kind: kind.__name__
)
def test_every_hint_can_be_written(kind: type[Quantity]) -> None:
    for number in ("0", "0.5", "3", "150", "70000", "1000000000"):
        for unit in ("", *(unit for unit in kind.spellings if unit not in kind.units), "furlong"):
            assert offered(kind, f"{number} {unit}")


@pytest.mark.parametrize("rate", ["2 MB/s", "2 MBps", "2 kB/s"])
def test_bytes_per_second_are_not_taken_for_bits(rate: str) -> None:
    assert offered(Bitrate, rate) == [Bitrate.parse(Bitrate.example)]


def test_an_error_names_file_field_and_value_and_its_hint_is_on_a_separate_line(tmp_path: Path) -> None:
    assert error(tmp_path, '[link]\nup = { capacity = "2.5 Mbps" }') == (
        "my.toml: link.up.capacity: unknown rate unit in `2.5 Mbps`; "
        "expected bit/s, kbit/s, Mbit/s or Gbit/s\n"
        "  hint: write `2.5 Mbit/s`"
    )


def test_an_unknown_key_names_the_closest_known_one(tmp_path: Path) -> None:
    assert error(tmp_path, '[link]\nup = { capcity = "1 Mbit/s" }') == (
        "my.toml: link.up.capcity: unknown key; "
        "expected capacity, queue, delay, jitter, loss, loss_position, tick, clock, wifi or ecn\n"
        "  hint: did you mean `capacity`?"
    )


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = '[link]\nup = { capacity = "1", delay = 3 }\n[audio]\nframe = "x"'
    fields = [line.split(": ")[1] for line in error(tmp_path, text).splitlines() if "hint" not in line]
    assert sorted(fields) == ["audio.frame", "link.up.capacity", "link.up.delay"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('record = "packet"', "record: unknown value `packet`; expected `packets` or `seconds`"),
        ("repeats = 0", "repeats: should be greater than or equal to 1; got `0`"),
        ('repeats = "3"', "repeats: should be a valid integer; got `3`"),
        ('duration = "0 s"', "duration: must be positive; got `0 s`"),
        ('name = "My Call"', "name: `My Call` cannot name a run directory"),
        ("link = 3", "link: expected a table; got `3`"),
        ("[participants.core]", "participants.core: `core` cannot be used as a name"),
        ("[participants.Carol]", "participants.Carol: `Carol` cannot be used as a name"),
        (
            '[[calls]]\nstart = "5 s"\n[participants.carol]\nleave = "4 s"',
            "calls.0.participants: alice and carol are never present at the same time",
        ),
        (
            '[[calls]]\nparticipants = ["alice", "bobby"]',
            "calls.0.participants: unknown participant `bobby`\n  hint: did you mean `bob`?",
        ),
        (
            '[[calls]]\nparticipants = ["alice", "alice"]',
            "calls.0.participants: alice is named more than once",
        ),
        (
            '[[calls]]\nkind = "ring"',
            "calls.0.kind: unknown value `ring`; expected `p2p`, `sfu`, `mcu`, `mixing-mcu`, "
            "`star`, `hub-and-spoke` or `tree`",
        ),
        ('[[calls]]\nrelay = "turn"', "calls.0.relay: no server `turn`; expected one of `core`"),
        (
            '[[calls]]\nkind = "sfu"\nrelay = "core"',
            "calls.0.relay: a call of kind `sfu` has no relay; expected kind p2p",
        ),
        ('[[calls]]\nkind = "star"\nroot = "eve"', "calls.0.root: `eve` is not in this call"),
        ('[[calls]]\nstart = "2 s"\nend = "2 s"', "calls.0.end: `2 s` is not after start = `2 s`"),
        ('[[calls]]\nstart = "60 s"', "calls.0.start: `60 s` is not before duration = `60 s`"),
        ("[servers.alice]", "servers.alice: `alice` is already a participant"),
        (
            '[link]\nup = { delay = "1 ms" }\nboth = { delay = "1 ms" }',
            "link.both: cannot be combined with up and down",
        ),
        ('[link]\nup = { queue = "1 s" }', "link.up.queue: a queue of `1 s` without capacity never fills"),
        (
            '[link]\nup = { capacity = "0 bit/s" }',
            "link.up.capacity: a constant capacity of 0 bit/s lets nothing through",
        ),
        (
            '[link]\nup = { capacity = { steps = [["0 s", "1 Mbit/s"], ["0 s", "2 Mbit/s"]] } }',
            "link.up.capacity.steps.1: `0 s` is not after `0 s`; expected ascending times",
        ),
        (
            "[link.up.delay]\nramp = 'linear'\nfrom = '1 ms'\nto = '2 ms'\nstart = '3 s'\nend = '3 s'",
            "link.up.delay.end: `3 s` is not after start = `3 s`",
        ),
        (
            '[link]\nup = { delay = { points = [["0 s", "0 ms", "exponential"], ["1 s", "5 ms"]] } }',
            "link.up.delay.points.0: an exponential change cannot begin or end at zero delay",
        ),
        (
            '[link]\nup = { loss = { steps = [["1 s", "1 %"], ["0 s", "2 %"]] } }',
            "link.up.loss.steps.1: `0 s` is not after `1 s`; expected ascending times",
        ),
        (
            "[participants.alice.video]\ncodec = 'h265'",
            "participants.alice.video.codec: unknown value `h265`",
        ),
        (
            '[link]\nup = { wifi = {}, capacity = "1 Mbit/s" }',
            "link.up.wifi: cannot be combined with capacity",
        ),
        (
            "[link]\nup = { wifi = { retry_limit = 3 } }",
            "link.up.wifi.retry_limit: unknown key; expected fading or max_attempts\n"
            "  hint: it is called `max_attempts`",
        ),
        (
            '[traffic.tcp]\nsender = "alice"\nreceiver = "bob"\nstop = "9 s"',
            "traffic.tcp.stop: unknown key; expected sender, receiver, protocol, congestion_control, ecn, "
            "rate, packet_size, flows, start, end or objects\n  hint: it is called `end`",
        ),
        (
            '[traffic.tcp]\nsender = "alice"\nreceiver = "bob"\nstart = "9 s"\nend = "9 s"',
            "traffic.tcp.end: `9 s` is not after start = `9 s`",
        ),
        (
            '[link]\nup = { capacity = "infinite" }',
            "link.up.capacity: cannot read `infinite`; expected a rate, a table or `unlimited`",
        ),
        (
            '[link]\nup = { queue = "none" }',
            "link.up.queue: cannot read `none`; expected a queue limit, a table or `unlimited`",
        ),
        ('[link]\nup = { ecn = "drop" }', "link.up.ecn: unknown value `drop`; expected `keep`, `bleach` or"),
        (
            '[link]\nup = { capacity = "1 Mbit/s", queue = { aqm = "codl" } }',
            "link.up.queue.aqm: unknown value `codl`; expected `droptail`, `codel`, `fq_codel`, `pie`, "
            "`step` or `dualpi2`\n  hint: did you mean `codel`?",
        ),
        (
            '[link]\nup = { capacity = "1 Mbit/s", queue = { limit = "9 ms" } }',
            "link.up.queue.aqm: missing; expected `droptail`, `codel`,",
        ),
        (
            '[link]\nup = { queue = { aqm = "step" } }',
            "link.up.queue: a queue with `step` needs a capacity: without one no packet ever waits",
        ),
        *(
            (
                f'[link]\nup = {{ capacity = "1 Mbit/s", queue = {{ aqm = "{parameters} }} }}',
                f"link.up.queue.{message}",
            )
            for parameters, message in (
                (
                    'pie", targt = "15 ms"',
                    "targt: unknown key; expected aqm, limit, target, update, alpha, beta, max_burst, ecn or "
                    "mark_below\n  hint: did you mean `target`?",
                ),
                ('pie", threshold = "1 ms"', "threshold: unknown key; expected aqm, limit, target,"),
                ('codel", interval = "0 ms"', "interval: must be positive; got `0 s`"),
                ('codel", target = 5', "target: no unit in `5`; expected ns, us, ms, s or min"),
                ('codel", ecn = "yes"', "ecn: expected true or false; got `yes`"),
                ('fq_codel", quantum = "255 B"', "quantum: `255 B` is too small; expected 256 B or more"),
                (
                    'codel", target = "101 ms"',
                    "target: `101 ms` is above interval = `100 ms`\n"
                    "  hint: a target is 5 to 10 % of the interval (RFC 8289, section 3.2)",
                ),
                ('pie", alpha = -0.1', "alpha: should be greater than or equal to 0; got `-0.1`"),
                ('pie", beta = 1001', "beta: should be less than or equal to 1000; got `1001`"),
                ('fq_codel", flows = 65537', "flows: should be less than or equal to 65536; got `65537`"),
                ('fq_codel", drop_batch = 0', "drop_batch: should be greater than or equal to 1; got `0`"),
                ('pie", update = "0 s"', "update: must be positive; got `0 s`"),
                ('pie", mark_below = 1.5', "mark_below: `1.5` is not a probability; expected 0 to 1"),
                ('dualpi2", coupling = 256', "coupling: should be less than or equal to 255; got `256`"),
                ('dualpi2", c_share = "101 %"', "c_share: `101 %` is more than 100 %"),
                (
                    'dualpi2", step_min = "2 ms"',
                    "step_max: `1.2 ms` is below step_min = `2 ms`\n"
                    "  hint: make both equal to mark every packet above one threshold",
                ),
                (
                    'dualpi2", limit = "0 B"',
                    "limit: a queue of `0 B` holds no packet while another one is being sent\n"
                    "  hint: leave out the limit for the usual one; the smallest is `1 packets`",
                ),
            )
        ),
        ('[link]\nup = { clock = "off" }', "link.up.clock: cannot read `off`; expected a table or `none`"),
        (
            '[link]\nup = { loss = { mean = "75.1 %", burst = 3 } }',
            "link.up.loss.mean: `75.1 %` cannot be lost in bursts of 3 packets, since a received packet "
            "separates two bursts; expected at most 75 %, or longer bursts",
        ),
        (
            '[link]\nup = { loss = { mean = "100 %", burst = 1000 } }',
            "link.up.loss.mean: `100 %` cannot be lost in bursts of 1000 packets",
        ),
        ('[link]\nup = { loss = { mean = "1 %", burst = 0.9 } }', "link.up.loss.burst: should be greater"),
        ('[link]\nup = { loss = { mean = "1 %" } }', "link.up.loss.burst: missing"),
        ("[link]\nup = { wifi = { max_attempts = 0 } }", "link.up.wifi.max_attempts: should be greater"),
        ('[link]\nup = { wifi = { fading = "close" } }', "link.up.wifi.fading: unknown value `close`"),
        ('[link]\nup = { tick = "0 s" }', "link.up.tick: must be positive; got `0 s`"),
        (
            '[link]\nup = { loss_position = "pipe" }',
            "link.up.loss_position: unknown value `pipe`; expected `wire` or `queue`",
        ),
        ('[link]\nup = { delay = { ramp = "linear" } }', "link.up.delay.from: missing"),
        ("[link]\nup = { loss = { p = 0.1 } }", "link.up.loss.r: missing"),
        ('[link]\nup = { capacity = { trace = "a.txt" } }', "link.up.capacity.trace: cannot read `a.txt`"),
        (
            '[bottlenecks.hall]\nroutes = ["alice->eve"]',
            "bottlenecks.hall.routes.0: cannot read `alice->eve`",
        ),
        (
            "[participants.alice.video]\nmin_bitrate = '2 Mbit/s'",
            "participants.alice.video.min_bitrate: `2 Mbit/s` is above max_bitrate = `1.7 Mbit/s`",
        ),
        (
            "[participants.alice.video]\nmax_bitrate = '200 kbit/s'\nstart_bitrate = '201 kbit/s'",
            "participants.alice.video.start_bitrate: `201 kbit/s` is not between "
            "min_bitrate = `30 kbit/s` and max_bitrate = `200 kbit/s`",
        ),
        *(
            (
                f'[link]\nup = {{ capacity = "1 Mbit/s", queue = "{nothing}" }}',
                f"link.up.queue: a queue of `{printed}` holds no packet while another one is being sent\n",
            )
            for nothing, printed in (("0 ms", "0 s"), ("0 packets", "0 packets"), ("0 kB", "0 B"))
        ),
        (
            '[link]\nup = { delay = { points = [["0 s", "1 ms", "cubic"], ["1 s", "2 ms"]] } }',
            "link.up.delay.points.0.2: unknown value `cubic`; expected `linear` or `exponential`",
        ),
        (
            '[link]\nup = { delay = { points = [["0 s", "1 ms"], ["1 s"]] } }',
            "link.up.delay.points.1.1: missing",
        ),
        (
            '[link]\nup = { delay = { points = [["0 s", "1 ms"], "1 s"] } }',
            "link.up.delay.points.1: expected an array; got `1 s`",
        ),
        (
            '[link]\nup = { capacity = { steps = [["0 s"]] } }',
            "link.up.capacity.steps.0.1: missing",
        ),
        (
            '[link]\nup = { capacity = { steps = [["0 s", "1 bit/s", 3]] } }',
            "link.up.capacity.steps.0: expected a length of at most 2; got 3",
        ),
    ],
)
def test_invalid_values_are_refused_with_their_field(tmp_path: Path, text: str, message: str) -> None:
    key = text.split(" =")[0]
    base = "\n".join(line for line in TWO_PEOPLE.splitlines() if not line.startswith(f"{key} ="))
    if text.startswith("["):
        text, base = base + "\n" + text, ""
    assert error(tmp_path, base, base=text + "\n").startswith(f"my.toml: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            'link.up.capacity={step=[["0 s", "1 Mbit/s"]]}',
            "link.up.capacity: expected a table with steps or trace, or a plain value; got ",
        ),
        ("link.up.capacity={steps=[]}", "link.up.capacity.steps: expected a length of at least 1; got 0"),
        ("participants=3", "participants: expected a table; got `3`"),
        ('link.up.jitter={sd="1 ms",reorder="yes"}', "link.up.jitter.reorder: expected true or false; got"),
        ("video.width=16384", "video.width: should be less than or equal to 16383"),
        (
            'audio={frame="1 ms"}',
            "audio.frame: `1 ms` is not a valid frame length; expected 2.5 ms to 120 ms",
        ),
        ("video=true", "video: expected a table; got `true`\n  hint: valid keys: width, height, frame_rate"),
        (
            'audio=[1, {bitrate="x", frame=false}]',
            'audio: expected a table; got `[1, {bitrate = "x", frame = false}]`',
        ),
    ],
)
def test_errors_use_the_words_of_toml(tmp_path: Path, change: str, message: str) -> None:
    assert error(tmp_path, "", change).startswith(f"--set: {message}")


def test_a_call_in_which_nobody_sends_is_refused(tmp_path: Path) -> None:
    assert error(tmp_path, "", "video=false").startswith("my.toml: participants: nobody sends anything")


def test_broken_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    message = error(tmp_path, base="name = \n")
    assert message.startswith("my.toml: not TOML: ")
    assert "line 1" in message


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert scenario(tmp_path, base=f"\ufeff{TWO_PEOPLE}").name == "two"


@pytest.mark.parametrize(
    ("text", "bitrates"),
    [
        ("", ("30 kbit/s", "300 kbit/s", "1.7 Mbit/s")),
        ("max_bitrate = '200 kbit/s'", ("30 kbit/s", "200 kbit/s", "200 kbit/s")),
        ("max_bitrate = '20 kbit/s'", ("20 kbit/s", "20 kbit/s", "20 kbit/s")),
        ("min_bitrate = '1 Mbit/s'", ("1 Mbit/s", "1 Mbit/s", "1.7 Mbit/s")),
    ],
)
def test_default_bitrates_are_moved_within_those_given(
    tmp_path: Path, text: str, bitrates: tuple[str, str, str]
) -> None:
    video = scenario(tmp_path, text).video
    assert video is not None
    assert tuple(map(str, (video.min_bitrate, video.start_bitrate, video.max_bitrate))) == bitrates


def test_a_default_that_depends_on_a_wrong_bitrate_is_not_a_second_error(tmp_path: Path) -> None:
    assert error(tmp_path, "max_bitrate = '200'\nmin_bitrate = '3 bps'") == (
        "my.toml: video.max_bitrate: no unit in `200`; expected bit/s, kbit/s, Mbit/s or Gbit/s\n"
        "  hint: write `200 kbit/s`\n"
        "my.toml: video.min_bitrate: unknown rate unit in `3 bps`; expected bit/s, kbit/s, Mbit/s or Gbit/s\n"
        "  hint: write `3 bit/s`"
    )


def test_an_unknown_scenario_names_the_closest_one() -> None:
    with pytest.raises(BadInput, match=r"no scenario `firs-call`.*\n  hint: did you mean `first-call`\?"):
        Scenario.load("firs-call")


def test_changes_reach_any_field_and_need_no_quotes(tmp_path: Path) -> None:
    changed = scenario(
        tmp_path,
        "",
        "duration=20s",
        "repeats=3",
        "link.up.capacity=2 Mbit/s",
        "participants.bob.video.max_bitrate=1 Mbit/s",
        "calls.0.kind=p2p",
        "record='seconds'",
    )
    assert (changed.duration, changed.repeats, changed.record) == (Duration(20 * 10**9), 3, "seconds")
    assert changed.link.up.capacity == Bitrate(2_000_000)
    bob, alice = changed.video_of("bob"), changed.video_of("alice")
    assert bob is not None
    assert alice is not None
    assert (bob.max_bitrate.bps, alice.max_bitrate.bps) == (1_000_000, 1_700_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("duration", "--set: cannot read `duration`; expected path.to.field=value"),
        ("=3", "--set: cannot read `=3`; expected path.to.field=value"),
        ("link..up=3", "--set: cannot read `link..up=3`; expected path.to.field=value"),
        ("duration.x=3", "--set: duration.x: duration is `60 s`, not a table"),
        ("calls.1.kind=p2p", "--set: calls.1.kind: no element `1` in calls; expected 0, the only one\n"),
        ("calls.one=p2p", "--set: calls.one: no element `one` in calls; expected 0, the only one\n"),
        ("linkk.up.delay=1 ms", "--set: linkk: unknown key; expected name, title"),
        ("foo=1", "--set: foo: unknown key; expected name, title"),
        ("participants.bob.join=61s", "my.toml: calls.0.participants: only alice joins before the end"),
        ("calls.0.end=0 s", "--set: calls.0.end: `0 s` is not after start = `0 s`"),
    ],
)
@pytest.mark.parametrize("text", ["", "[[calls]]"], ids=["calls left out", "calls written"])
def test_a_change_of_something_that_does_not_exist_is_refused(
    tmp_path: Path, text: str, change: str, message: str
) -> None:
    assert f"{error(tmp_path, text, change)}\n".startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "participants.carol.video=false",
            "--set: participants.carol.video: no `carol` in participants; expected `alice` or `bob`\n"
            "  hint: add a new one in a TOML file",
        ),
        (
            "participants.alise={}",
            "--set: participants.alise: no `alise` in participants; expected `alice` or `bob`\n"
            "  hint: did you mean `alice`?",
        ),
        (
            "servers.turn.link.up.delay=1 ms",
            "--set: servers.turn.link.up.delay: no `turn` in servers; it is empty\n"
            "  hint: add a new one in a TOML file",
        ),
    ],
)
def test_a_change_adds_nobody(tmp_path: Path, change: str, message: str) -> None:
    assert error(tmp_path, "", change) == message


def test_a_wrong_value_that_participants_inherit_is_reported_once(tmp_path: Path) -> None:
    own_link = '[participants.carol.link]\nup = { delay = "1 ms" }'
    assert error(tmp_path, own_link, "link.up.tick=0 s") == (
        "--set: link.up.tick: must be positive; got `0 s`\n  hint: write `none` for exact times"
    )


def test_a_change_in_python_is_named_as_a_change() -> None:
    with pytest.raises(BadInput, match=r"^set: duration: no unit in `20`"):
        Scenario.load("first-call", {"duration": 20})


def test_a_trace_is_looked_for_beside_the_file_that_names_it_and_by_a_change_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory, time_ms in (("profile", 1), ("here", 2)):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "a.txt").write_text(f"{time_ms}\n")
    (tmp_path / "profile" / "base.toml").write_text(
        TWO_PEOPLE.replace('name = "two"', "") + '[link]\nup = { capacity = { trace = "a.txt" } }'
    )
    (tmp_path / "my.toml").write_text('extends = "profile/base"\nname = "my"')
    monkeypatch.chdir(tmp_path / "here")

    def opportunities_ms(*changes: str) -> list[int]:
        capacity = Scenario.load(tmp_path / "my.toml", changes).link.up.capacity
        assert isinstance(capacity, CapacityTrace)
        assert (capacity.trace, type(capacity.trace)) == ("a.txt", str)
        return capacity.opportunities_ms

    assert opportunities_ms() == [1]
    assert opportunities_ms('link.up.capacity={trace="a.txt"}') == [2]
    assert opportunities_ms('link.up={capacity={trace="a.txt"}}') == [2]
    assert opportunities_ms("link.up.capacity.trace=a.txt") == [2]


def test_a_path_on_the_command_line_is_equal_to_one_in_a_scenario() -> None:
    assert PathSpec.parse("capacity 1 Mbit/s, delay 25 ms, queue 300 ms, loss 2 %") == PathSpec(
        capacity=Bitrate(10**6),
        delay=Duration(25 * 10**6),
        queue=QueueLimit("time", 3 * 10**8),
        loss=Ratio(0.02),
    )
    assert PathSpec.parse("") == PathSpec()
    tables = 'delay {steps = [["0 s", "5 ms"], ["9 s", "7 ms"]]}, loss {p = 0.01, r = 0.3}, jitter 1 ms'
    assert PathSpec.parse(tables) == PathSpec(
        delay=DelaySteps(
            steps=[(Duration(0), Duration(5 * 10**6)), (Duration(9 * 10**9), Duration(7 * 10**6))]
        ),
        loss=GilbertElliott(p=Probability(0.01), r=Probability(0.3)),
        jitter=Duration(10**6),
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{aqm = dualpi2}", '{ aqm = "dualpi2" }'),
        ("{aqm=codel,target=5 ms}", '{ aqm = "codel", target = "5 ms" }'),
        (
            "{aqm fq_codel, limit 100 packets, ecn false}",
            '{ aqm = "fq_codel", limit = "100 packets", ecn = false }',
        ),
        ('{aqm = "pie", mark_below = 0.2, alpha = 0.5}', '{ aqm = "pie", mark_below = "20 %", alpha = 0.5 }'),
    ],
)
def test_text_in_a_table_on_the_command_line_needs_no_quotes(tmp_path: Path, text: str, written: str) -> None:
    path = PathSpec.parse(f"capacity 20 Mbit/s, queue {text}, delay 5 ms")
    link = '[link.up]\ncapacity = "20 Mbit/s"\ndelay = "5 ms"\n'
    assert path == scenario(tmp_path, f"{link}queue = {written}").link.up
    assert path == scenario(tmp_path, link, f"link.up.queue={text}").link.up


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "capcity 1 Mbit/s",
            "--up: capcity: unknown key; "
            "expected capacity, queue, delay, jitter, loss, loss_position, tick, clock, wifi or ecn\n"
            "  hint: did you mean `capacity`?",
        ),
        (
            "delay 25",
            "--up: delay: no unit in `25`; expected ns, us, ms, s or min\n  hint: write `25 ms` or `25 s`",
        ),
        ("delay 1 ms, delay 2 ms", "--up: delay: given twice"),
        (
            "capacity 1 Mbit/s, queue {aqm = codel, target}",
            "--up: queue: cannot read `{aqm = codel, target}` as a table\n"
            "  hint: for example `loss {mean = 2 %, burst = 3}`",
        ),
        (
            "queue {aqm = codel}",
            "--up: queue: a queue with `codel` needs a capacity: without one no packet ever waits\n"
            "  hint: add capacity, for example `1 Mbit/s`, or set the queue to `unlimited`",
        ),
        (
            "loss {p = 0.01, r = 2}",
            "--up: loss.r: `2` is not a probability; expected 0 to 1, or 0 % to 100 %",
        ),
    ],
)
def test_a_wrong_path_on_the_command_line_names_its_option(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        PathSpec.parse(text, origin="--up")
    assert str(caught.value) == message


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_scenario_is_the_same_after_it_was_written_as_toml(name: str) -> None:
    scenario = Scenario.load(name)
    assert Scenario.read(tomllib.loads(scenario.to_toml()), name) == scenario
    assert "\n" not in repr(scenario)


def test_a_text_with_any_sign_is_written_as_toml() -> None:
    title = 'a "quote", a \\ and a \x7f, \n line, ü'
    scenario = Scenario.load("first-call", {"title": title})
    assert Scenario.read(tomllib.loads(scenario.to_toml()), "text").title == title


def test_a_scenario_shows_who_calls_how_and_over_what() -> None:
    assert repr(Scenario.load("first-call")) == (
        "Scenario('first-call': alice, bob; p2p; 60 s; "
        "up and down capacity 1 Mbit/s, delay 25 ms, queue 300 ms)"
    )
