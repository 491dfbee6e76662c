"""What to run: scenarios in TOML, whose values have units and are validated before anything starts."""

from rtclab.scenario.call import Call
from rtclab.scenario.layers import Change
from rtclab.scenario.load import shipped
from rtclab.scenario.model import Bottleneck
from rtclab.scenario.participant import (
    CORE,
    Audio,
    Browser,
    CongestionControl,
    Host,
    Link,
    Participant,
    Video,
)
from rtclab.scenario.path import PathSpec
from rtclab.scenario.scenario import Scenario
from rtclab.scenario.topology import Flow
from rtclab.scenario.traffic import Objects, Traffic
from rtclab.scenario.units import Bitrate, Duration, PixelRate, Probability, QueueLimit, Ratio, Size
from rtclab.scenario.wifi import Fading, Radio, Wifi

__all__ = [
    "CORE",
    "Audio",
    "Bitrate",
    "Bottleneck",
    "Browser",
    "Call",
    "Change",
    "CongestionControl",
    "Duration",
    "Fading",
    "Flow",
    "Host",
    "Link",
    "Objects",
    "Participant",
    "PathSpec",
    "PixelRate",
    "Probability",
    "QueueLimit",
    "Radio",
    "Ratio",
    "Scenario",
    "Size",
    "Traffic",
    "Video",
    "Wifi",
    "shipped",
]
