"""A tablet on Wi-Fi: section 6."""

from __future__ import annotations

from rtclab.reproduce.paper import Trend
from rtclab.reproduce.papers.jansen2017.names import PLACES, TO_TABLET, wireless
from rtclab.reproduce.papers.jansen2017.values import far_lower_by, of, ordered, percent_of
from rtclab.reproduce.trends import between, both

WIRELESS = [
    Trend(
        "Farther from the access point round trips and loss are larger",
        "6.1, figure 20",
        "far above near: round trip and loss, with all three legs",
        both(
            *[
                ordered(
                    of(wireless(place, "far"), what, TO_TABLET),
                    of(wireless(place, "near"), what, TO_TABLET),
                    unit=unit,
                )
                for place in PLACES
                for what, unit in (("rtt_ms", "ms"), ("packet_loss_pct", "%"))
            ]
        ),
    ),
    Trend(
        "Over the air the round trip jumps to two or three times what it was",
        "6.1, figure 18",
        "far, Oregon: peaks above 1.5 times the call's median are 1.6 to 3.6 times it on average (2 and 3 "
        "± 20 %)",
        between(1.6, 3.6, of(wireless("oregon", "far"), "rtt_spike", TO_TABLET)),
    ),
    Trend(
        "With Oregon frame rate and width fall by more than 25 % from near to far",
        "6.1, figure 20",
        "each lower by 25 to 75 %",
        both(
            between(25, 75, far_lower_by("oregon", "framerate_fps"), "%"),
            between(25, 75, far_lower_by("oregon", "width_px"), "%"),
        ),
        reason="the encoder model makes pictures smaller first and fewer only below 320x180, so that the "
        "width falls and the frame rate does not",
    ),
    Trend(
        "With the local node by about 10 %",
        "6.1, figure 20",
        "each lower by 5 to 15 %",
        both(
            between(5, 15, far_lower_by("local", "framerate_fps"), "%"),
            between(5, 15, far_lower_by("local", "width_px"), "%"),
        ),
        reason="as with Oregon; how much the channel fades is not published",
    ),
    Trend(
        "Without MAC retries the round trip is steady and more is lost",
        "6.2, figures 21 and 23",
        "far, Sydney: deviation of the round trip with limit 1 is 0 to 30 % of that with 15; loss of 3 "
        "to 15 % against 0 to 0.5 %",
        both(
            between(
                0,
                30,
                percent_of(
                    of(wireless("sydney", "far", "-retry-1"), "rtt_sd_ms", TO_TABLET),
                    of(wireless("sydney", "far", "-retry-15"), "rtt_sd_ms", TO_TABLET),
                ),
                "%",
            ),
            between(3, 15, of(wireless("sydney", "far", "-retry-1"), "packet_loss_pct", TO_TABLET), "%"),
            between(0, 0.5, of(wireless("sydney", "far", "-retry-15"), "packet_loss_pct", TO_TABLET), "%"),
        ),
    ),
    Trend(
        "Without MAC retries frame rate and width are lower",
        "6.2, figure 23",
        "far, Sydney: both with limit 1 below those with 15",
        both(
            *[
                ordered(
                    of(wireless("sydney", "far", "-retry-15"), what, TO_TABLET),
                    of(wireless("sydney", "far", "-retry-1"), what, TO_TABLET),
                    unit=unit,
                )
                for what, unit in (("framerate_fps", "1/s"), ("width_px", "pixels"))
            ]
        ),
    ),
]
