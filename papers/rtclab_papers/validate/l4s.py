"""What L4S buys a video call: the conditions of ``rtclab validate l4s``, live and simulated.

Every condition is the same call of two people over links that are alike, with goog-cc or SCReAM, behind one
of three queues, alone or beside a TCP connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rtclab.arenas import random_calls
from rtclab.experiment import Condition
from rtclab.metrics import METRICS, Difference, Summary, summarise, welch
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import LIVE, SIM, Key, Record, RowFile, run_both, samples

LIVE_REPEATS, SIMULATED_REPEATS = 3, 30

DURATION_S = 60
TCP_START = "5 s"
"""iperf3 sends its first data some five round trips later, which matters less once the call has started."""
DELAY = "20 ms"
FLOW = "alice->bob"
"""The direction that is looked at. The TCP connection has the same direction."""
VIDEO = random_calls.camera(1280, 720)

CONTROLS = {"goog-cc": "goog-cc", "scream": "SCReAM"}
"""The congestion controls of the call, and their names on the page."""
QUEUES: dict[str, tuple[str, Any]] = {
    "fifo": ("FIFO of 200 ms", "200 ms"),
    "fq_codel": ("FQ-CoDel", {"aqm": "fq_codel"}),
    "dualpi2": ("DualPI2", {"aqm": "dualpi2"}),
}
"""The queues: name on the page, and the key ``queue`` of the links."""
CASES: dict[str, tuple[str, Any, str]] = {
    "alone": ("alone, 2 Mbit/s", "2 Mbit/s", ""),
    "drop": (
        "alone, 2 Mbit/s that fall to 700 kbit/s from 20 to 35 s",
        {"steps": [["0 s", "2 Mbit/s"], ["20 s", "700 kbit/s"], ["35 s", "2 Mbit/s"]]},
        "",
    ),
    "cubic": ("beside CUBIC with ECN, 4 Mbit/s", "4 Mbit/s", "cubic"),
    "prague": ("beside Prague, 4 Mbit/s", "4 Mbit/s", "prague"),
}
"""The cases: name on the page, capacity of the links, and the TCP connection beside the call."""
ONLY_SIMULATED = ("prague",)
"""Cases that no stock kernel can run."""

MEASURED = (
    "receiving_rate",
    "queuing_delay_p50",
    "queuing_delay_p95",
    "rtt",
    "freeze_duration_w3c",
    "packet_loss",
    "ce_share",
)
"""The metrics of the call."""


@dataclass(frozen=True)
class Cell:
    """A condition: a case, a queue and a control, by their names in the tables above."""

    case: str
    queue: str
    control: str

    @property
    def name(self) -> str:
        """Name of the condition in the rows."""
        return f"{self.case}-{self.queue}-{self.control}"

    def scenario(self) -> Scenario:
        """The call."""
        title, capacity, tcp = CASES[self.case]
        queue = QUEUES[self.queue][1]
        data: dict[str, Any] = {
            "name": f"l4s-{self.name}",
            "title": f"{CONTROLS[self.control]} behind {QUEUES[self.queue][0]}, {title}",
            "duration": f"{DURATION_S} s",
            "congestion_control": {"name": self.control},
            "participants": {
                name: {"link": {"up": {"capacity": capacity, "delay": DELAY, "queue": queue}}}
                for name in FLOW.split("->")
            },
            "video": VIDEO,
            "audio": {"bitrate": "32 kbit/s"},
        }
        if tcp:
            sender, receiver = FLOW.split("->")
            flow = {"sender": sender, "receiver": receiver, "congestion_control": tcp, "start": TCP_START}
            data["traffic"] = {"tcp": flow | ({"ecn": True} if tcp == "cubic" else {})}
        return Scenario.read(data, self.name)


CELLS = tuple(Cell(case, queue, control) for case in CASES for queue in QUEUES for control in CONTROLS)
"""All conditions."""


def run(file: Path, folder: Path, *, run_live: bool, say: Callable[[str], None]) -> None:
    """Runs all conditions live and simulated, as far as they have no current rows; see :func:`run_both`."""
    simulated, live = (
        {cell.name: Condition(cell.scenario(), range(repeats), MEASURED) for cell in cells}
        for cells, repeats in (
            (CELLS, SIMULATED_REPEATS),
            ([cell for cell in CELLS if cell.case not in ONLY_SIMULATED], LIVE_REPEATS),
        )
    )
    run_both({LIVE: live, SIM: simulated}, RowFile(file), folder, run_live=run_live, say=say)


@dataclass(frozen=True)
class Repeats:
    """The kept repeats of all conditions."""

    records: Mapping[Key, Record]

    @cached_property
    def samples(self) -> dict[tuple[str, str, str, str], list[float]]:
        """The values by condition, backend, metric and flow."""
        return samples(self.records.values())

    def summary(self, cell: Cell, side: str, metric: str, flow: str = FLOW) -> Summary:
        """Mean and interval of a metric over the repeats of a condition on one backend."""
        return summarise(self.samples.get((cell.name, side, metric, flow), []), METRICS[metric].bounds)

    def tcp(self, cell: Cell, side: str) -> Summary:
        """Mean and interval of the rate of the TCP connection in kbit/s; its name has no arrow."""
        rate = (cell.name, side, "receiving_rate")
        others = (of for (*key, flow), of in self.samples.items() if (*key,) == rate and "->" not in flow)
        return summarise(next(others, []), METRICS["receiving_rate"].bounds)

    def difference(self, before: Cell, after: Cell, side: str, metric: str) -> Difference:
        """The mean of ``after`` minus the mean of ``before``."""
        return welch(self.summary(before, side, metric), self.summary(after, side, metric))


def read(file: Path) -> Repeats:
    """The repeats in a file of rows."""
    return Repeats(RowFile(file).read())
