"""Says when the rates of a control of the user's own are so far off that their unit must be wrong."""

from __future__ import annotations

from rtclab.backend.sim_batch import own_name
from rtclab.scenario import Bitrate, Scenario
from rtclab.trace import Trace

FAR_ABOVE = 1000
"""A target that is always above the highest rate times this factor was probably converted twice."""


def note_on_targets(trace: Trace, scenario: Scenario) -> str:
    """A sentence on targets that encoders cannot follow in the whole repeat; empty if there are none.

    Below the lowest rate of the encoders a target changes nothing, and so does one far above the highest.
    """
    owned = {control.owner: control.label for control in scenario.owned_controls()}
    owners = {owner: label for owner, label in owned.items() if owner in scenario.participants}
    found: dict[str, list[str]] = {}
    for flow in trace.flows if owners else ():
        owner = own_name(trace.manifest.flows[flow].sender)
        if owner in owners and (wrong := _wrong(trace, flow, *_limits(scenario, owner))):
            found.setdefault(f"the target of {owners[owner]} was {wrong}", []).append(own_name(flow))
    texts = [f"on {', '.join(flows)}, {what}" for what, flows in found.items()]
    return "; ".join(texts) + (" (rates are in bit/s)" if texts else "")


def _limits(scenario: Scenario, owner: str) -> tuple[Bitrate, Bitrate]:
    """The lowest and the highest rate of the encoders of a participant."""
    video, audio = scenario.video_of(owner), scenario.audio_of(owner)
    if video is not None:
        return video.min_bitrate, video.max_bitrate
    return (audio.bitrate, audio.bitrate) if audio else (Bitrate(0), Bitrate(0))


def _wrong(trace: Trace, flow: str, least: Bitrate, most: Bitrate) -> str:
    """How the targets of a flow are wrong; empty if one is possible."""
    rows = trace.rows_of_flow("controller", flow)
    targets_bps = rows.filter(name="target_bps")["value"]
    lowest, highest = targets_bps.min(), targets_bps.max()
    if not isinstance(lowest, float) or not isinstance(highest, float) or not most.bps:
        return ""
    if highest < least.bps:
        return f"at most {_rate(highest)}, and the encoders send at least {least}"
    if lowest > FAR_ABOVE * most.bps:
        return f"at least {_rate(lowest)}, and the encoders send at most {most}"
    return ""


def _rate(bps: float) -> Bitrate:
    return Bitrate(round(bps))
