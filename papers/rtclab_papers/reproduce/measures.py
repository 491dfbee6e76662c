"""The quantities that papers report, and how they are measured in a trace.

Most papers used a capture tool at the receiver. Their rates are IP bytes in samples of one second, and their
"±" is the standard deviation of these samples within a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab.experiment import Number
from rtclab.metrics import (
    METRICS,
    NO_SAMPLES,
    Array,
    Samples,
    arrivals,
    counter,
    delay,
    increase,
    mean_within_sd,
    media_flows,
    rate,
    samples_in_window,
)
from rtclab.trace import Trace
from rtclab_papers.reproduce import flow_relations, tools

Value = tuple[float | None, float | None]
"""Mean over a repeat and standard deviation of its one-second samples; None if not measured."""
Values = dict[str, dict[str, Value]]
"""Values of one repeat by name and flow."""

MEASURING = tuple(Path(__file__).with_name(f"{name}.py") for name in ("measures", "flow_relations", "tools"))
"""Source files, besides rtclab's own, that affect how a repeat is measured."""

RATE, DELAY, LOSS, OTHER = KINDS = ("rate", "delay", "loss", "other")
"""Kinds of quantities, which are counted separately."""
EQUATION = "equation"
"""Kind of a number that follows from an equation, without a simulation."""
WINDOW_S = 10
"""Length of the window of a value with the name ``name@begin``."""
MEDIA = "media"
"""Name of a value that every flow has: 1 for flows of media, 0 for other flows."""
OVER_USE = "over_use_percent"
MINUTE_S = 60
SOON_MS = 25.0
RECOVERY_S = (40.0, 60.0)
"""A call that recovers "after about 50 s" recovers in this time: 50 s, 20 % less or more."""


@dataclass(frozen=True)
class Measure:
    """How a quantity of a flow is measured.

    Attributes:
        kind: kind of quantity, for counting.
        label: label at the axis of a figure.
        value: computes the value over a repeat; by default the mean of the series, without deviation.
        series: computes the quantity over time.
        at: computes the value from a given second on; by default the mean of the series over the next 10 s.
        packets: whether every packet must be recorded.
        distribution: computes values and shares of a cumulative distribution over several repeats.
        is_share: whether the value of a repeat is 0 or 100 %, so that the mean is a share of all repeats.
    """

    kind: str = OTHER
    label: str = ""
    value: Callable[[Trace, str], float] | None = None
    series: Callable[[Trace, str], Samples] = lambda trace, flow: NO_SAMPLES
    at: Callable[[Trace, str, int], float] | None = None
    packets: bool = False
    distribution: Callable[[Sequence[Trace], str], tuple[Array, Array]] | None = None
    is_share: bool = False

    def over_repeat(self, trace: Trace, flow: str) -> Value:
        """The value over the repeat, and the standard deviation of its one-second samples."""
        samples = self.series(trace, flow)
        if self.value is None:
            return none_if_nan(samples.mean()), None
        return none_if_nan(self.value(trace, flow)), none_if_nan(mean_within_sd([samples]))

    def from_second(self, trace: Trace, flow: str, begin_s: int) -> Value:
        """The value from a given second on, without deviation."""
        if self.at is not None:
            return none_if_nan(self.at(trace, flow, begin_s)), None
        samples = trace.cached(_series, self, flow)
        chosen = (samples.at_s >= begin_s) & (samples.at_s < begin_s + WINDOW_S)
        return none_if_nan(float(samples.values[chosen].mean()) if chosen.any() else nan), None


def _series(trace: Trace, measure: Measure, flow: str) -> Samples:
    return measure.series(trace, flow)


def measure(trace: Trace, names: Iterable[str]) -> Values:
    """Measures values of every flow by name. ``name@20`` is the value from 20 s on; see :class:`Measure`."""
    return {name: {_own_name(flow): _value(trace, flow, name) for flow in trace.flows} for name in names}


def numbers(trace: Trace, names: Iterable[str]) -> Iterator[Number]:
    """Measures values as :func:`measure`, for experiments."""
    for name, of_flows in measure(trace, names).items():
        for flow, (value, deviation) in of_flows.items():
            if value is not None:
                yield Number(name, flow, value, deviation)


def _own_name(flow: str) -> str:
    """The name of a flow without the repeat that ``rtclab.simulate_together`` puts before it."""
    return flow.rpartition(":")[2]


def _value(trace: Trace, flow: str, name: str) -> Value:
    name, _, begin = name.partition("@")
    wanted = MEASURES[name]
    return wanted.from_second(trace, flow, int(begin)) if begin else wanted.over_repeat(trace, flow)


def none_if_nan(value: float) -> float | None:
    """The value, or None if it is NaN, because JSON has no NaN."""
    return None if isnan(value) else value


def _is_media(trace: Trace, flow: str) -> float:
    """1 if the flow carries media between participants, even if nothing arrived; 0 otherwise.

    Other flows are legs to and from a server, flows with only feedback, and cross traffic.
    """
    about, people = trace.manifest.flows[flow], trace.manifest.participants
    is_seen = flow in media_flows(trace)
    return float(is_seen and about.sender in people and about.receiver in people)


def _first_call_share(trace: Trace, flow: str, begin_s: int = 30) -> float:
    """Receiving rate of the first of several calls in per cent of the mean of the others, in one minute."""
    return flow_relations.first_call_share(trace, flow, (begin_s, begin_s + MINUTE_S))


def _recovered_in_time(trace: Trace, flow: str) -> float:
    """100 if the first call starves and recovers within ``RECOVERY_S``, else 0; over repeats in per cent."""
    low, high = RECOVERY_S
    return 100.0 if low <= flow_relations.recovery_s(trace, flow) <= high else 0.0


def _established(trace: Trace, flow: str) -> float:
    """100 if the receiver ever shows a picture, else 0; the mean over repeats is in per cent."""
    return 0.0 if isnan(METRICS["setup_time"].function(trace, flow)) else 100.0


def _soon_there(trace: Trace, flow: str) -> float:
    """Share in per cent of the received packets whose one-way delay is less than ``SOON_MS``."""
    delay_ms, share = delay.one_way_delay_cdf([trace], flow)
    return 100 * float(np.interp(SOON_MS, delay_ms, share)) if delay_ms.size else nan


def _largest_delay(trace: Trace, flow: str) -> float:
    """Largest one-way delay of a packet in ms; NaN if none arrived."""
    delays_ms = delay.largest_delay_ms(trace, flow).values
    return float(delays_ms.max()) if delays_ms.size else nan


def _retransmitted(trace: Trace, flow: str) -> float:
    """Retransmitted packets for every 100 lost packets."""
    again = increase(counter(trace, "outbound_rtp", flow, "retransmittedPacketsSent"))
    sent = increase(counter(trace, "outbound_rtp", flow, "packetsSent"))
    lost = METRICS["packet_loss"].function(trace, flow) / 100 * sent
    return 100 * again / (lost or nan)


def _mean_freeze_s(trace: Trace, flow: str) -> float:
    """Mean length of a freeze in s; NaN if there is none."""
    total_s, count = (
        METRICS[name].function(trace, flow) for name in ("freeze_duration_w3c", "freeze_count_w3c")
    )
    return total_s / (count or nan)


def _deviation(series: Callable[[Trace, str], Samples]) -> Measure:
    """The standard deviation of one-second samples, over the repeat or over ten seconds."""

    def at(trace: Trace, flow: str, begin_s: int) -> float:
        samples = series(trace, flow)
        return samples_in_window(samples, (begin_s, begin_s + WINDOW_S)).deviation()

    return Measure(value=lambda trace, flow: series(trace, flow).deviation(), at=at)


def _over_use(trace: Trace, flow: str) -> float:
    """100 if over-use ever reduced the rate of the flow, else 0; the mean over repeats is in per cent.

    The trace has the decrease factor once a second, from the first decrease on. Only a first decrease in the
    last second is missed.
    """
    return 100.0 if flow in trace.cached(_flows_with_over_use) else 0.0


def _flows_with_over_use(trace: Trace) -> set[str]:
    return set(trace.table("controller").filter(pl.col("name") == "alpha")["flow"].unique())


def _metric(kind: str, label: str, name: str, **more: Any) -> Measure:
    """A measure that is one of rtclab's metrics."""
    metric = METRICS[name]
    return Measure(kind, label, metric.function, metric.samples or (lambda trace, flow: NO_SAMPLES), **more)


_KBPS, _RTT, _FPS, _LOST = "Rate (kbit/s)", "RTT (ms)", "Frames per second", "Packet loss (%)"

MEASURES = {
    "rate_kbps": _metric(RATE, _KBPS, "receiving_rate"),
    "sent_kbps": _metric(RATE, _KBPS, "sending_rate"),
    "sent_to_all_kbps": Measure(RATE, _KBPS, series=tools.sent_to_all_kbps),
    "media_rate_kbps": Measure(RATE, _KBPS, tools.rtp_rate, tools.rtp_kbps),
    "rtt_ms": _metric(DELAY, _RTT, "rtt"),
    "media_rtt_ms": Measure(DELAY, _RTT, tools.media_rtt, tools.media_rtt_ms),
    "owd_ms": _metric(DELAY, "One-way delay (ms)", "one_way_delay", distribution=delay.one_way_delay_cdf),
    "inter_arrival_ms": _metric(
        OTHER,
        "Inter-arrival time (ms)",
        "inter_arrival_time",
        packets=True,
        distribution=arrivals.inter_arrival_cdf,
    ),
    "packet_loss_pct": _metric(LOSS, _LOST, "packet_loss"),
    "residual_loss_pct": _metric(LOSS, "Residual loss (%)", "residual_loss"),
    # A capture at the receiver shows sequence numbers, but not what FEC recovered.
    "unseen_loss_pct": _metric(LOSS, "Residual loss (%)", "unseen_loss"),
    "framerate_fps": _metric(OTHER, _FPS, "frame_rate"),
    "width_px": Measure(OTHER, "Width (pixel)", series=tools.frame_widths),
    "height_px": _metric(OTHER, "Height (pixel)", "frame_height"),
    "setup_ms": _metric(OTHER, "Set-up time (ms)", "setup_time"),
    # Values that a page reads from getStats.
    "stats_rate_kbps": Measure(RATE, _KBPS, series=tools.stats_kbps),
    "stats_rtt_ms": Measure(DELAY, _RTT, series=delay.rtt_ms),
    "stats_loss_pct": Measure(LOSS, _LOST, series=tools.stats_loss),
    "stats_fps": Measure(OTHER, _FPS, series=tools.stats_fps),
    "rtt_sd_ms": Measure(value=tools.rtt_sd_ms),
    "rtt_spike": Measure(value=tools.rtt_spike),
    "rise_s": Measure(at=tools.rise_s),
    "reached_s": Measure(at=tools.reached_s),
    # Quantities of a single paper.
    "fec_share": _metric(OTHER, "FEC (%)", "fec_share", packets=True),
    "retransmission_share": _metric(OTHER, "Retransmissions (%)", "retransmission_share"),
    "retransmitted_pct": Measure(value=_retransmitted),
    "below_25ms_pct": Measure(value=_soon_there),
    "largest_owd_ms": Measure(value=_largest_delay),
    "delay_variation_ms": _metric(DELAY, "Delay variation (ms)", "delay_variation_p95"),
    "picture_delay_ms": _metric(DELAY, "Delay of pictures (ms)", "picture_delay"),
    "cpu": _metric(OTHER, "Processor load (%)", "cpu"),
    "owd_sd_ms": _deviation(delay.one_way_delay_ms),
    "rate_sd_kbps": _deviation(rate.received_kbps),
    "rate_delay_correlation": Measure(value=flow_relations.rate_and_delay),
    "delay_change_correlation": Measure(value=flow_relations.delay_and_change),
    "fps_rtt_correlation": Measure(value=flow_relations.frames_and_rtt),
    "calls_correlation": Measure(value=flow_relations.with_other_calls),
    "streams_apart_pct": Measure(value=flow_relations.streams_apart),
    "sides_apart_pct": Measure(value=flow_relations.sides_apart),
    "converges_s": Measure(at=flow_relations.converges_s),
    "dip_pct": Measure(at=flow_relations.dip),
    "first_call_share": Measure(value=_first_call_share, at=_first_call_share),
    "recovered_pct": Measure(value=_recovered_in_time, is_share=True),
    "established_pct": Measure(value=_established, is_share=True),
    "freezes": Measure(value=METRICS["freeze_count_w3c"].function),
    "freeze_s": Measure(value=_mean_freeze_s),
    OVER_USE: Measure(value=_over_use, is_share=True),
    MEDIA: Measure(value=_is_media),
}
