"""Suites: the cases of an arena. Four come with rtclab, and a TOML file makes one of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from rtclab.arenas.cases import Case
from rtclab.arenas.controls import with_control
from rtclab.arenas.random_calls import random_call
from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput, Problem, RtclabError, ScenarioError
from rtclab.replays.settings import ControlChoice
from rtclab.scenario import Change, Scenario, shipped
from rtclab.scenario.layers import parsed
from rtclab.scenario.load import shipped_or_in
from rtclab.scenario.table import Table, closest
from rtclab.scenario.trust import ReadFrom

RANDOM = "random"
SHIPPED = ("access", "rfc8867", "rfc8869")
"""The suites that are directories of shipped scenarios."""
NAMES = (*SHIPPED, RANDOM)
RANDOM_CASES = 20
FIRST_SEED = 1001
"""The seeds of the suite ``random`` begin here, above the ones with which the twin was made and tested."""
REPEATS: Mapping[str, int] = {"sim": 10, "live": 3}
"""Number of repeats by backend, unless the suite or the caller gives one."""
TCP = ("cubic", "bbr", "prague")
"""The controls of TCP that a call is paired with."""
PAIR: Mapping[str, Any] = {
    "name": "pair",
    "title": "Two flows at one bottleneck",
    "source": "RFC 8867, sections 5.4 and 5.6, for the network and the media; RFC 8868, section 3",
    "duration": "60 s",
    "video": {
        "width": 1280,
        "height": 720,
        "frame_rate": 30,
        "min_bitrate": "150 kbit/s",
        "start_bitrate": "150 kbit/s",
        "max_bitrate": "1500 kbit/s",
    },
    "audio": {"bitrate": "20 kbit/s"},
    "participants": {
        "sender-1": {},
        "receiver-1": {"video": False, "audio": False},
        "sender-2": {},
        "receiver-2": {"video": False, "audio": False},
    },
    "bottlenecks": {
        "forward": {
            "routes": ["sender-1->receiver-1", "sender-2->receiver-2"],
            "capacity": "2 Mbit/s",
            "delay": "50 ms",
            "queue": "300 ms",
        },
        "backward": {"routes": ["receiver-1->sender-1", "receiver-2->sender-2"], "delay": "50 ms"},
    },
}
"""The network of two flows that compete. Each could send three quarters of the capacity."""
FIRST, SECOND = "sender-1->receiver-1", "sender-2->receiver-2"
_BESIDE = "beside "


class _CaseTable(Table):
    """A case of a suite file."""

    scenario: str
    """The name of a shipped scenario, or a TOML file relative to the suite."""
    set: dict[str, Any] = {}
    """Fields to change, such as `{ "link.up.capacity" = "2 Mbit/s" }`."""
    uses: tuple[Literal["video", "voice", "screen", "l4s", "downloads"], ...] | None = None
    """Uses for which the case counts on the page; by default they follow from the scenario."""
    flows: tuple[str, ...] | None = Field(None, min_length=1)
    """Flows under test, such as `alice->bob`; by default they follow from the scenario."""


class _ArenaFile(Table):
    """A suite file."""

    title: str = ""
    """What the suite is about, on one line."""
    repeats: int | None = Field(None, ge=1)
    """Number of repeats of each case with each control."""
    duration: str | None = None
    """Duration of every case instead of its own."""
    pairings: bool = True
    """Whether each control also competes with each other control and with TCP at one bottleneck."""
    cases: dict[str, _CaseTable] = Field(min_length=1)
    """The cases by a name of your own."""


FIELDS: list[tuple[str, type[Table], type[Table]]] = [
    ("", _ArenaFile, Table),
    ("cases.NAME.", _CaseTable, Table),
]
"""For references: prefix of the fields, their table, and the table whose fields it shares."""


@dataclass(frozen=True)
class ArenaSuite:
    """The cases of an arena by name.

    Attributes:
        name: ``access``, ``rfc8867``, ``rfc8869``, ``random``, or the file.
        title: what it is about.
        cases: the cases.
        repeats: number of repeats, None for the usual one.
        pairings: whether controls also compete with each other and with TCP.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    repeats: int | None = None
    pairings: bool = True

    @property
    def stem(self) -> str:
        """The name without directories and ending, for directories."""
        return Path(self.name).stem


TITLES = {
    "access": "Access networks of homes and phones, queues that mark, and traffic beside the call",
    "rfc8867": "The test cases of RFC 8867",
    "rfc8869": "The test cases of RFC 8869: cells and Wi-Fi",
    RANDOM: f"{RANDOM_CASES} random networks from the distribution of the twin",
}


def load_suite(name: str | Path, *, trust: bool = False) -> ArenaSuite:
    """A suite by its name, or from a TOML file.

    A file has the fields ``title``, ``repeats``, ``duration``, ``pairings``, and a table for each case::

        title = "Our customers"
        repeats = 5

        [cases.office]
        scenario = "first-call"
        set = { "link.up.capacity" = "2 Mbit/s" }

        [cases.train]
        scenario = "train.toml"
        uses = ["voice"]
        flows = ["alice->bob"]

    ``trust`` allows what files from outside of the current project name.

    Raises:
        BadInput: there is no such suite, or something in the file is invalid; it names file and field. Or
            strangers' files are not trusted.
    """
    text = str(name)
    if text in SHIPPED:
        found = [one for one in shipped() if one.startswith(f"{text}/")]
        known = tuple(Case(one.partition("/")[2], Scenario.load(one), one) for one in found)
        return ArenaSuite(text, TITLES[text], known)
    if text == RANDOM:
        seeds = range(FIRST_SEED, FIRST_SEED + RANDOM_CASES)
        return ArenaSuite(
            text, TITLES[text], tuple(Case(str(seed), random_call(seed, f"random-{seed}")) for seed in seeds)
        )
    if not text.endswith(".toml"):
        hint = closest(text, NAMES) or "or a TOML file with cases of your own"
        raise BadInput(f"suite: no suite `{text}`; expected {', '.join(NAMES)}", hint=hint)
    path = Path(name)
    if not path.is_file():
        raise BadInput(f"suite: no file `{text}`")
    suite = _ArenaFile.read(parsed(path, text), text)
    by = ReadFrom.of([path], trust=trust)
    cases = tuple(_case(text, path.parent, suite, name, entry, by) for name, entry in suite.cases.items())
    return ArenaSuite(text, suite.title or path.stem, cases, suite.repeats, suite.pairings)


def _case(
    origin: str, directory: Path, suite: _ArenaFile, name: str, entry: _CaseTable, by: ReadFrom
) -> Case:
    """A case of a file, which the simulator can run and in which something is under test."""
    field = f"cases.{name}"
    if name.startswith(_BESIDE):
        message = f"names of pairings begin with `{_BESIDE.strip()}`; expected another name"
        raise ScenarioError(origin, [Problem(field, message)])
    changes = [Change(key, value, "set") for key, value in entry.set.items()]
    changes += [] if suite.duration is None else [Change("duration", suite.duration, "duration")]
    try:
        where = shipped_or_in(directory, entry.scenario)
        scenario = Scenario.load(where, changes, by=by)
        backend_of("sim").check(scenario)
    except RtclabError as error:
        raise BadInput(f"{origin}: {field}: {error.message}", hint=error.hint) from None
    case = Case(name, scenario, "" if entry.set or suite.duration else str(where), entry.uses, entry.flows)
    people = scenario.participants
    sent = [flow for flow in scenario.flows() if flow.sender in people and case.most_bps(flow.sender)]
    known = [flow.name for flow in sent]
    for flow in entry.flows or ():
        if flow not in known:
            message = f"no flow of media `{flow}`; expected {', '.join(known) or 'a scenario with media'}"
            raise ScenarioError(origin, [Problem(f"{field}.flows", message, closest(flow, known))])
    if not case.tested:
        message = (
            f"`{entry.scenario}` has nothing to test: no participant sends media with the scenario's control"
        )
        raise ScenarioError(
            origin, [Problem(f"{field}.scenario", message, "expected a call with video or audio")]
        )
    return case


def label_of(case: str, control: str) -> str:
    """The label of the condition of a case with a control."""
    return f"{case} with {control}"


def beside(second: str) -> str:
    """The case in which a control competes with another control or with TCP, as results name it."""
    return f"{_BESIDE}{second}"


def pair(first: ControlChoice, second: ControlChoice | str) -> Scenario:
    """Two calls with different controls at one bottleneck, or a call beside TCP, whose control is a text."""
    data = dict(PAIR)
    if isinstance(second, str):
        people = PAIR["participants"]
        data["participants"] = {name: own for name, own in people.items() if name.endswith("1")}
        data["bottlenecks"] = {
            name: own | {"routes": [route for route in own["routes"] if route.endswith("1")]}
            for name, own in PAIR["bottlenecks"].items()
        }
        sender, receiver = FIRST.split("->")
        data["traffic"] = {"tcp": {"sender": sender, "receiver": receiver, "congestion_control": second}}
        return with_control(Scenario.read(data, "pair"), first)
    data["calls"] = [{"participants": flow.split("->")} for flow in (FIRST, SECOND)]
    both = with_control(Scenario.read(data, "pair"), first)
    return both if second == first else with_control(both, second, SECOND.split("->")[0])
