"""A scenario as everything above it knows it: read from TOML, and turned into flows and native JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtclab.errors import ScenarioError
from rtclab.scenario import native, network
from rtclab.scenario.json_schema import json_schema
from rtclab.scenario.layers import Change
from rtclab.scenario.load import changed, load
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.topology import Flow


class Scenario(ScenarioTables):
    """One experiment, read from TOML; see ``Scenario.load``.

    Without ``calls`` there is one call of all participants. Without ``video`` or ``audio`` nobody sends it.
    """

    @classmethod
    def load(
        cls,
        name_or_path: str | Path | Scenario,
        overrides: Sequence[str | Change] | Mapping[str, object] = (),
    ) -> Scenario:
        """Reads a scenario by the name that ``rtclab list`` shows, or from a TOML file.

        ``overrides`` change fields before validation: ``["link.up.capacity=2 Mbit/s"]`` or a dict. A scenario
        that is loaded already can be changed in the same way.

        Raises:
            ScenarioError: naming file, field, value and what was expected.
        """
        if isinstance(name_or_path, Scenario):
            loaded = changed(name_or_path.model_dump(mode="json"), name_or_path.name, overrides)
        else:
            loaded = load(name_or_path, overrides)
        try:
            return cls.read(loaded.data, loaded.origin)
        except ScenarioError as error:
            raise loaded.blamed(error) from None

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of scenarios as written in TOML, and of profiles that scenarios extend."""
        return json_schema(cls)

    def network(self) -> dict[str, object]:
        """The network as the native side reads it: nodes, paths and routes (docs/trace.md)."""
        return native.native_network(self)

    def flows(self) -> list[Flow]:
        """Every flow: what one participant sends another, or sends a forwarder, or gets from it."""
        return network.flows(self)

    def traffic_flows(self) -> list[Flow]:
        """Every flow of TCP beside the calls."""
        return network.traffic_flows(self)

    def path_changes(self) -> list[tuple[int, str, int | None, float]]:
        """Time in ns, path, capacity in bit/s (None: unlimited) and delay in ms, at each change of a path."""
        return network.path_changes(self)

    def native(self, *, seed: int) -> dict[str, object]:
        """Everything that the simulator needs for one repeat, as JSON values; times in ns, rates in bit/s."""
        return native.native_scenario(self, seed=seed)
