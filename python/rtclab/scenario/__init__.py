"""What to run: scenarios in TOML, whose values have units and are validated before anything starts."""

from rtclab.scenario.call import Call
from rtclab.scenario.device import native_video
from rtclab.scenario.layers import Change
from rtclab.scenario.load import is_shipped, shipped
from rtclab.scenario.model import Bottleneck
from rtclab.scenario.network import route
from rtclab.scenario.participant import (
    CORE,
    INTERNET,
    Audio,
    Browser,
    CongestionControl,
    Host,
    Link,
    Participant,
    Video,
)
from rtclab.scenario.path import (
    BYTES_PER_OPPORTUNITY,
    DelayCourse,
    DelaySteps,
    GilbertElliott,
    LossSteps,
    PathSpec,
    read_mahimahi,
)
from rtclab.scenario.scenario import Scenario
from rtclab.scenario.table import Table, closest
from rtclab.scenario.topology import Flow, encoders
from rtclab.scenario.traffic import Objects, Traffic
from rtclab.scenario.units import Bitrate, Duration, PixelRate, Probability, QueueLimit, Ratio, Size
from rtclab.scenario.wifi import Fading, Radio, Wifi

__all__ = [
    "BYTES_PER_OPPORTUNITY",
    "CORE",
    "INTERNET",
    "Audio",
    "Bitrate",
    "Bottleneck",
    "Browser",
    "Call",
    "Change",
    "CongestionControl",
    "DelayCourse",
    "DelaySteps",
    "Duration",
    "Fading",
    "Flow",
    "GilbertElliott",
    "Host",
    "Link",
    "LossSteps",
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
    "Table",
    "Traffic",
    "Video",
    "Wifi",
    "closest",
    "encoders",
    "is_shipped",
    "native_video",
    "read_mahimahi",
    "route",
    "shipped",
]
