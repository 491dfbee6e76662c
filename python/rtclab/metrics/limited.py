"""What limited the rate of a flow: the part of the time in which each limit of the account of limits held."""

from __future__ import annotations

from math import nan

from rtclab.metrics.accounts.limits import LIMITS, OWN, course_of
from rtclab.metrics.packets import were_recorded
from rtclab.metrics.registry import UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import once, span_ns
from rtclab.trace import Trace

_OF_PACKETS = bounded("from packets: a queue or losses that a control can have seen")
_KNOWN = sources(
    bounded("from the control's own values; from packets, for a control that has none"),
    bounded("from the RTC event log, and from packets without one"),
    _OF_PACKETS,
    _OF_PACKETS,
    UNKNOWN,
)


@once
def _shares(trace: Trace, flow: str) -> dict[str, float]:
    """The part of the time, 0 to 1, in which each limit held; empty without packets of media."""
    course = course_of(trace, flow) if were_recorded(trace) else None
    return {} if course is None else course.shares(span_ns(trace, flow))


def _add(limit: str, meaning: str) -> None:
    """Adds the metric of a limit's share."""

    def share(trace: Trace, flow: str) -> float:
        return 100 * _shares(trace, flow).get(limit, nan)

    share.__name__ = share.__qualname__ = OWN + limit
    share.__doc__ = f"""Part of the time (%) in which the flow's rate had this limit: {meaning}.

    The shares of all limits add up to 100 %. docs/why.md says how a limit is found, and the table `limits`
    when each one held. NaN without packets of media.
    """
    metric(
        unit="%",
        source="the account of limits, docs/why.md",
        bounds=(0, 100),
        known=_KNOWN,
        packets="always",
    )(share)


for _limit, _meaning in LIMITS.items():
    _add(_limit, _meaning)
