"""Jansen et al. 2017: Chrome 52 to 57 under static and changing conditions, codecs, phones, wireless."""

from __future__ import annotations

from rtclab.reproduce.paper import Paper, published
from rtclab.reproduce.papers.jansen2017.codecs import CODECS
from rtclab.reproduce.papers.jansen2017.figures import FIGURES
from rtclab.reproduce.papers.jansen2017.measure import measure
from rtclab.reproduce.papers.jansen2017.names import ALSO
from rtclab.reproduce.papers.jansen2017.schedules import SCHEDULES
from rtclab.reproduce.papers.jansen2017.sharing import SHARING
from rtclab.reproduce.papers.jansen2017.static import STATIC
from rtclab.reproduce.papers.jansen2017.wireless import WIRELESS

TITLES = {
    "5": "Average call characteristics for different video codecs",
    "6": "Average call characteristics for different platforms",
    "7": "Baseline statistics of wired calls with differing round trips",
}

DIRECTIONS = {
    "NYC to Sydney": "nyc->sydney",
    "Sydney to NYC": "sydney->nyc",
    "NYC to Oregon": "nyc->oregon",
    "Oregon to NYC": "oregon->nyc",
}

VARIES = (
    "duration",
    "calls",
    "traffic.*",
    "servers.*",
    "participants.carol",
    "participants.dave",
    "participants.nyc",
    "participants.oregon.video.frame_rate",
    "participants.sydney.video.frame_rate",
    "participants.*.link.*.delay",
    "participants.tablet.link.both.wifi.fading",
    "participants.tablet.link.both.wifi.retry_limit",
    "bottlenecks.*.capacity*",
    "bottlenecks.*.queue",
    "bottlenecks.*.delay*",
    "bottlenecks.*.loss",
    "bottlenecks.*.loss.steps",
    "video.codec",
    "video.device",
    "video.width",
    "video.height",
)

PAPER = Paper(
    name="jansen2017",
    title="Performance evaluation of WebRTC-based video conferencing",
    source="B. Jansen, T. Goodwin, V. Gupta, F. Kuipers, G. Zussman, Performance Evaluation Review 2017",
    tables=published("jansen2017", TITLES),
    machines=DIRECTIONS,
    varies=VARIES,
    measure=measure,
    figures=FIGURES,
    also=ALSO,
    trends=[*STATIC, *SCHEDULES, *SHARING, *CODECS, *WIRELESS],
)
