"""Codecs and phones: section 5."""

from __future__ import annotations

from rtclab.reproduce.paper import Trend
from rtclab.reproduce.papers.jansen2017.names import codec, platform
from rtclab.reproduce.papers.jansen2017.values import near, of, over, percent_of, ratio
from rtclab.reproduce.trends import between, both

CODECS = [
    Trend(
        "H.264 is affected most by little capacity and by latency",
        "5.1, table 5",
        "its rate is 64 to 96 % of VP8's (1154 / 1440 = 80 %)",
        near(80, percent_of(of(codec("h264"), "rate_kbps"), of(codec("vp8"), "rate_kbps")), "%"),
        reason="in the encoder model H.264 gets as much rate as VP8; what its hardware or OpenH264 did "
        "with less than it was given the paper leaves open, too",
    ),
    Trend(
        "H.264 keeps the full picture and comes down to 1 per second around 2:30",
        "5.1, figure 16",
        "width of 1275 to 1280 pixels; from 2:20 to 2:50 0 to 5 pictures per second",
        both(
            between(1275, 1280, of(codec("h264"), "width_px"), "pixels"),
            between(0, 5, over(codec("h264"), 140, 170, what="fps"), "1/s"),
        ),
        reason="one picture a second of 1280x720 is 28 kbit/s, the least that is ever sent; our rate at "
        "2:30 is 250 to 700 kbit/s, as that of the other codecs",
    ),
    Trend(
        "Under congestion VP9 has larger pictures than VP8",
        "5.1, figure 16",
        "minutes 1 and 2: 105 to 200 % of VP8's width",
        between(
            105,
            200,
            percent_of(over(codec("vp9"), 60, 180, what="width"), over(codec("vp8"), 60, 180, what="width")),
            "%",
        ),
    ),
    Trend(
        "Afterwards VP8 returns to the full picture and VP9 does not",
        "5.1, figure 16",
        "end of minute 3: VP8 at 1150 to 1280 pixels, VP9 at 320 to 1024",
        both(
            between(1150, 1280, over(codec("vp8"), 220, 240, what="width"), "pixels"),
            between(320, 1024, over(codec("vp9"), 220, 240, what="width"), "pixels"),
        ),
    ),
    Trend(
        "Phones send 1750 kbit/s where desktops send 2500",
        "5.2, figure 17",
        "from 0:40 to 1:00, each ± 20 %",
        both(
            *(near(1750, over(platform(phone), 40, 60), "kbit/s") for phone in ("ios", "android")),
            near(2500, over(platform("chrome"), 40, 60), "kbit/s"),
        ),
    ),
    Trend(
        "Phones take longer to their maximum than desktops: 20 s and 10 s",
        "5.2, figure 17",
        "1.6 to 2.4 times as long",
        near(2, ratio(of(platform("android"), "rise_s@0"), of(platform("chrome"), "rise_s@0")), ""),
        reason="without a start probe it is 22 s, ln(1600 / 300) / ln 1.08, and with one 1 to 5 s. A "
        "phone's first pictures are two to three packets, fewer than a probe takes, so that it is "
        "found in half of our calls; in the paper's it was not. For desktops see figure 6",
    ),
    Trend(
        "On phones round trips are much longer",
        "5.2, table 6",
        "iOS and Android each 110 to 150 % of Chrome's (119 and 125 % in the table)",
        both(
            *[
                between(
                    110, 150, percent_of(of(platform(name), "rtt_ms"), of(platform("chrome"), "rtt_ms")), "%"
                )
                for name in ("ios", "android")
            ]
        ),
        reason="the schedule sets the same round trips for all; a good channel adds a millisecond or two to "
        "them, and what else delays packets on a phone is not in the model",
    ),
]
