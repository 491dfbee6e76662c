"""The class of scenarios: reads TOML, and gives the flows and the native JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from rtclab.errors import FieldErrors, ScenarioError
from rtclab.scenario import mixing, native, network
from rtclab.scenario.json_schema import json_schema
from rtclab.scenario.layers import Change
from rtclab.scenario.load import changed, load
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.own_control import OwnControl
from rtclab.scenario.topology import Flow


class Scenario(ScenarioTables):
    """One experiment, read from TOML; see ``Scenario.load``.

    Without ``calls`` there is one call of all participants. Without ``video`` or ``audio``, only participants
    with such a table of their own send it.
    """

    @model_validator(mode="after")
    def _mixes_something(self) -> Self:
        if errors := mixing.errors(self):
            raise FieldErrors(errors)
        return self

    @classmethod
    def load(
        cls,
        name_or_path: str | Path | Scenario,
        set: Sequence[str | Change] | Mapping[str, object] = (),
    ) -> Scenario:
        """Reads a scenario by the name that ``rtclab list`` shows, or from a TOML file.

        ``set`` changes fields before validation: ``["link.up.capacity=2 Mbit/s"]`` or a dict. A scenario
        that is loaded already can be changed in the same way.

        Raises:
            BadInput: there is no such scenario, or a change names something that does not exist.
            ScenarioError: the scenario is invalid. It names file, field, value and what was expected.
        """
        if isinstance(name_or_path, Scenario):
            loaded = changed(name_or_path.model_dump(mode="json"), name_or_path.name, set)
        else:
            loaded = load(name_or_path, set)
        try:
            return cls.read(loaded.data, loaded.origin)
        except ScenarioError as error:
            raise loaded.attributed(error) from None

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of scenario files, and of the profiles that they extend."""
        return json_schema(cls)

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
        """The congestion controls of the user's own that somebody sends with, each once."""
        return mixing.own_controls(self)

    def path_changes(self) -> list[tuple[int, str, int | None, float]]:
        """Time in ns, path, capacity in bit/s (None: unlimited) and delay in ms, at each change of a path."""
        return network.path_changes(self)

    def native(self, *, seed: int) -> dict[str, object]:
        """The simulator's configuration of one repeat as JSON values. Times are in ns, rates in bit/s."""
        return native.native_scenario(self, seed=seed)
