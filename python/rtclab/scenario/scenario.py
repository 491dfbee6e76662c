"""The class of scenarios: reads TOML, and gives the flows and the native JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import PrivateAttr, model_validator

from rtclab.errors import FieldErrors, ScenarioError
from rtclab.scenario import mixing, native, network
from rtclab.scenario.json_schema import json_schema
from rtclab.scenario.load import Changes, as_changes, changed, load
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.own_control import OwnControl
from rtclab.scenario.path import PathSpec
from rtclab.scenario.toml_text import toml_document, toml_text
from rtclab.scenario.topology import Flow
from rtclab.scenario.trust import CALLER, ReadFrom, powers


class Scenario(ScenarioTables):
    """One experiment, read from TOML; see ``Scenario.load``.

    Without ``calls`` there is one call of all participants. Without ``video`` or ``audio``, only participants
    with such a table of their own send it.
    """

    _read_from: ReadFrom = PrivateAttr(default=CALLER)

    @model_validator(mode="after")
    def _mixes_something(self) -> Self:
        if errors := mixing.errors(self):
            raise FieldErrors(errors)
        return self

    @classmethod
    def load(
        cls,
        name_or_path: str | Path | Scenario,
        set: Changes = (),
        *,
        trust: bool = False,
        by: ReadFrom = CALLER,
    ) -> Scenario:
        """Reads a scenario by the name that ``rtclab list`` shows, or from a TOML file.

        ``set`` changes fields before validation: ``["link.up.capacity=2 Mbit/s"]`` or a dict. A scenario
        that is loaded already can be changed in the same way.

        Reading runs nothing. A file from outside of the current project that names programs or Python code to
        run needs ``trust=True`` to be run; fields that ``set`` changes do not. ``by`` says where the name and
        the changes come from if the caller read them somewhere, such as in a suite.

        Raises:
            BadInput: there is no such scenario, or a change names something that does not exist.
            ScenarioError: the scenario is invalid. It names file, field, value and what was expected.
        """
        if isinstance(name_or_path, Scenario):
            loaded = changed(name_or_path.model_dump(mode="json"), name_or_path.name, set)
            read_from = name_or_path.read_from
        else:
            loaded = load(name_or_path, set)
            read_from = ReadFrom.of(loaded.files)
        if not by.strangers:
            read_from = read_from.naming(change.field for change in as_changes(set))
        read_from = read_from.beside(by).beside(ReadFrom(trusted=trust))
        try:
            return cls.read(loaded.data, loaded.origin, read_from)
        except ScenarioError as error:
            raise loaded.attributed(error) from None

    @classmethod
    def read(cls, data: object, origin: str, read_from: ReadFrom = CALLER) -> Self:
        """Validates ``data``, which come from ``read_from``. Errors begin with ``origin``.

        Raises:
            ScenarioError: the data are invalid. It lists every problem found.
        """
        made = super().read(data, origin)
        made._read_from = read_from
        return made

    @property
    def read_from(self) -> ReadFrom:
        """The strangers' files that it was read from, and whether they are trusted."""
        return self._read_from

    def check_trusted(self, *, live: bool = False) -> None:
        """Checks, before anything runs, that the user trusts what the scenario would do in such calls.

        Raises:
            BadInput: it was read from outside of the current project, and would run programs or Python code,
                open files as pages, or use the network. The message lists it.
        """
        self._read_from.check(self.powers(live=live))

    def powers(self, *, live: bool) -> list[str]:
        """What strangers wrote into it that needs trust, as ``field: value``."""
        return powers(self, self._read_from, live=live)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of scenario files, and of the profiles that they extend."""
        return json_schema(cls)

    def __repr__(self) -> str:
        """One line: the name, who takes part, the topology, the duration and the access link."""
        who = ", ".join(self.participants)
        kinds = ", ".join(dict.fromkeys(call.kind for call in self.calls))
        up, down = _in_words(self.link.up), _in_words(self.link.down)
        ways = {"up and down": up} if up == down else {"up": up, "down": down}
        network = (f"{way} {words}" for way, words in ways.items() if words)
        parts = [who, kinds, str(self.duration), *network]
        return f"Scenario({self.name!r}: {'; '.join(filter(None, parts))})"

    __str__ = __repr__

    def to_toml(self) -> str:
        """The scenario as the text of a TOML file, without fields that were left to their defaults.

        Example:
            >>> scenario = rtclab.Scenario.load("first-call", {"duration": "10 s"})
            >>> rtclab.Scenario.read(tomllib.loads(scenario.to_toml()), "text") == scenario
            True
        """
        return toml_document(self.model_dump(mode="json", exclude_unset=True))

    def differences(self, other: Scenario) -> list[str]:
        """The fields in which two scenarios differ; of a table, such as ``video``, only its name."""
        own, its = self.model_dump(mode="json"), other.model_dump(mode="json")
        return [name for name in own if own[name] != its[name]]

    def network(self) -> dict[str, object]:
        """The network as the native side reads it: nodes, paths and routes (docs/trace.md)."""
        return native.native_network(self)

    def flows(self) -> list[Flow]:
        """Every flow of the calls: between participants, to forwarders and from forwarders."""
        return network.flows(self)

    def feedback_flows(self) -> list[str]:
        """The names of the flows of calls that carry feedback alone, because nobody sends media over them."""
        return network.feedback_flows(self)

    def traffic_flows(self) -> list[Flow]:
        """Every flow of cross traffic, without acknowledgements."""
        return network.traffic_flows(self)

    def own_controls(self) -> list[OwnControl]:
        """The congestion controls of the user's own that somebody sends with, each once. They may be run.

        Raises:
            BadInput: strangers named one, and the user does not trust them.
        """
        self.check_trusted()
        return mixing.own_controls(self)

    def owned_controls(self) -> list[OwnControl]:
        """The controls of :meth:`own_controls`, one for each sender, with the same errors."""
        self.check_trusted()
        return mixing.owned_controls(self)

    def path_changes(self) -> list[tuple[int, str, int | None, float]]:
        """Time in ns, path, capacity in bit/s (None: unlimited) and delay in ms, at each change of a path."""
        return network.path_changes(self)

    def native(self, *, seed: int) -> dict[str, object]:
        """The simulator's configuration of one repeat as JSON values. Times are in ns, rates in bit/s."""
        return native.native_scenario(self, seed=seed)


def _in_words(path: PathSpec | None) -> str:
    """The most important fields of a path that are not as by default: ``capacity 1 Mbit/s, delay 25 ms``."""
    known = {} if path is None else path.model_dump(mode="json", exclude_defaults=True)
    names = ("capacity", "delay", "queue", "loss")
    return ", ".join(f"{name} {toml_text(known[name])}" for name in names if name in known)
