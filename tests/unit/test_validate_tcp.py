"""The simulator's TCP as it is compared with the kernel's: on a path that is as late as the emulator was."""

from __future__ import annotations

from rtclab.scenario.path import DelaySteps
from rtclab.validate.tcp import Condition, simulated

BBR = Condition(10_000_000, 50, 125_000, "bbr")


def test_an_acknowledgement_is_late_with_its_packet_and_with_itself() -> None:
    late_ms = [3.0 if 100 <= at_ms < 110 else 0.0 for at_ms in range(200)]
    delay = BBR.scenario(1, late_ms).link.down.delay
    assert isinstance(delay, DelaySteps)
    # It leaves when its packet arrives, and arrives 25 ms later: with lateness from 100 to 110 ms, those that
    # leave from 75 to 85 ms are late themselves, and those that leave from 100 to 110 ms are sent late.
    steps_ms = [(at.ns / 1e6, value.ns / 1e6) for at, value in delay.steps]
    assert steps_ms == [(0, 25), (75, 28), (85, 25), (100, 28), (110, 25)]


def test_bbr_keeps_what_late_acknowledgements_make_it_overestimate() -> None:
    on_time = simulated(BBR, 10)
    # Late by 0, 1 or 2 ms twice: what arrives over a round trip of 52.4 ms seems to come up to 8 % faster,
    # and probing sends as fast. That is more than the 1 % that BBR paces below, so the queue grows until the
    # window ends it: 2 * 65.5 kB * 1.08 and ten segments are 156 kB, of which 62.5 are under way.
    late_ms = [float(at_ms * 7919 // 10 % 3) for at_ms in range(10_000)]
    late = simulated(BBR, 10, late_ms)
    assert 2 * on_time.queue_bytes < late.queue_bytes < 94_000
