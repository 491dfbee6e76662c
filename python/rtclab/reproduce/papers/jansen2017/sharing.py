"""Calls beside calls and TCP, and several people: sections 4.3 and 4.4."""

from __future__ import annotations

from rtclab.reproduce.paper import Trend
from rtclab.reproduce.papers.jansen2017.names import FORWARD, TCP, mesh, sfu
from rtclab.reproduce.papers.jansen2017.values import (
    downlink,
    fairness,
    jain,
    near,
    of,
    ordered,
    over,
    ratio,
    uplink,
    used_by_calls,
)
from rtclab.reproduce.trends import between, both

SHARING = [
    Trend(
        "Three calls together use 78 % of 2000 kbit/s",
        "4.3, figure 12",
        "62 to 94 %, until the third call ends",
        near(78, used_by_calls, "%"),
    ),
    Trend(
        "Two calls share fairly: Jain's index is 0.98",
        "4.3, figure 12",
        "0.88 to 1 over 1:00 to 2:00",
        between(0.88, 1, fairness(("", "#2"), 60, 120)),
    ),
    Trend(
        "Three calls too: 0.94",
        "4.3, figure 12",
        "0.85 to 1 over 2:00 to 4:00",
        between(0.85, 1, fairness(("", "#2", "#3"), 120, 240)),
    ),
    Trend(
        "Two calls converge in almost a minute: the first yields to the second",
        "4.3, figure 12",
        "Jain's index of 1:40 to 2:00 between 0.88 and 1, and above that of 1:10 to 1:30",
        both(
            between(0.88, 1, fairness(("", "#2"), 100, 120)),
            ordered(fairness(("", "#2"), 100, 120), fairness(("", "#2"), 70, 90), unit=""),
        ),
    ),
    Trend(
        "Beside TCP a call keeps 1408 of 2000 kbit/s: it does not starve",
        "4.3, figure 13",
        "1126 to 1690 kbit/s over 1:00 to 11:00",
        near(1408, over(TCP, 60, 660, flows=FORWARD), "kbit/s"),
    ),
    Trend(
        "and TCP gets 451",
        "4.3, figure 13",
        "361 to 541 kbit/s",
        near(451, over(TCP, 60, 660, flows="download"), "kbit/s"),
        reason="the call has 1316, both together 1909 of 2000 kbit/s: the paper's two (1859) leave more "
        "unused. The share depends on the emulator's queue, which the paper does not give. With the gains of "
        "August 2016 it is 307 : 1481, so that this Chrome had those of May",
    ),
    Trend(
        "Jain's index of both is 0.79",
        "4.3",
        "0.63 to 0.95",
        near(0.79, jain(TCP, (FORWARD, "download"), 60, 660), ""),
    ),
    Trend(
        "Three in a mesh send 2.03 times what two send",
        "4.4, figure 14",
        "1.62 to 2.44",
        near(2.03, ratio(uplink(mesh(3)), uplink(mesh(2))), ""),
    ),
    Trend(
        "Four send 2.77 times as much",
        "4.4, figure 14",
        "2.2 to 3.3",
        near(2.77, ratio(uplink(mesh(4)), uplink(mesh(2))), ""),
    ),
    Trend(
        "Over an SFU three receive 2.00 times what they send",
        "4.4, figure 15",
        "1.6 to 2.4",
        near(2.00, ratio(downlink(sfu(3)), of(sfu(3), "rate_kbps", "alice->sfu")), ""),
    ),
    Trend(
        "and four 2.95 times",
        "4.4, figure 15",
        "2.36 to 3.54",
        near(2.95, ratio(downlink(sfu(4)), of(sfu(4), "rate_kbps", "alice->sfu")), ""),
    ),
    Trend(
        "Over an SFU a steady rate takes twice as long as in a mesh: 30 s and 15 s",
        "4.4, figures 14 and 15",
        "1.6 to 2.4 times as long, four people",
        near(2, ratio(of(sfu(4), "rise_s@0", "*->alice"), of(mesh(4), "rise_s@0", "*->alice")), ""),
        reason="the paper names no SFU. Ours gives feedback of its own on each leg, so that a rate rises "
        "as between two people; growth from 300 kbit/s without a start probe would take ln(2250 / "
        "300) / ln 1.08 = 26 s, which fits the 30 s",
    ),
]
