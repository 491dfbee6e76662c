"""How the machine, rather than the network, disturbed a live call."""

from __future__ import annotations

import pytest
from synthetic_run import trace

from rtclab.experiment import disturbances
from rtclab.experiment.disturbance import SLOWEST_ENCODER_MS
from rtclab.trace import Lateness


def video_report(reason: str, encode_s: float) -> dict[str, object]:
    """A report of alice on 100 encoded frames."""
    return {
        "at_ns": 10**9,
        "participant": "alice",
        "ssrc": 1,
        "kind": "video",
        "framesEncoded": 100,
        "totalEncodeTime": encode_s,
        "qualityLimitationReason": reason,
    }


@pytest.mark.parametrize(
    ("p99_ns", "reason", "encode_s", "said"),
    [
        (4_000_000, "bandwidth", 0.3, []),
        (6_000_000, "none", 0.3, ["emulator 6.0 ms late (p99)"]),
        (1, "cpu", 0.3, ["the processor limited the video of alice"]),
        (1, "none", 100 * (SLOWEST_ENCODER_MS + 1) / 1e3, ["alice took 26 ms to encode a frame"]),
    ],
)
def test_a_call_is_disturbed_by_a_late_emulator_a_slow_encoder_or_a_processor_at_its_limit(
    p99_ns: int, reason: str, encode_s: float, said: list[str]
) -> None:
    one = trace(outbound_rtp=[video_report(reason, encode_s)])
    late = Lateness(p50_ns=1, p99_ns=p99_ns, max_ns=p99_ns, bound_ns=5_000_000, over_bound_ratio=0.0)
    one.manifest = one.manifest.model_copy(update={"lateness": late})
    assert list(disturbances(one)) == said


@pytest.mark.parametrize(
    ("limit", "said"), [(30.0, []), (None, ["the processor limited the video of alice"])]
)
def test_a_processor_that_the_scenario_limits_does_not_disturb(limit: float | None, said: list[str]) -> None:
    load = {"at_ns": 10**9, "participant": "alice", "cpu_percent": 30.0, "cpu_limit_percent": limit}
    one = trace(outbound_rtp=[video_report("cpu", 0.3)], host=[load])
    assert disturbances(one) == said
