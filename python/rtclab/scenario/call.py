"""Calls and their topologies."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rtclab.errors import FieldError, FieldErrors
from rtclab.scenario.participant import CORE, Count
from rtclab.scenario.table import Table
from rtclab.scenario.units import Duration


class Call(Table):
    """A call. By default all participants take part, and the call lasts the whole run.

    - ``p2p``: each pair is connected directly, or through a TURN ``relay``; media flow in both directions.
    - ``sfu``: each participant sends to ``server``, which forwards to all others and makes its own feedback.
    - ``mcu``: ``server`` switches: it forwards media to all others, and their feedback, unchanged, to the
      sender.
    - ``mixing-mcu``: ``server`` decodes what it receives, composes the pictures of all others into one for
      each participant, encodes it, and mixes their sound. Everybody sends and receives one stream of video
      and one of audio.
    - ``star``: ``root`` sends to each of the others, who send no media.
    - ``hub-and-spoke``: each participant is connected with ``root``, which also forwards to the others.
    - ``tree``: ``root`` sends to the first ``fan_out`` (by default two) of the others, these send to the
      next ones, and so on. Each forwards the media that it receives.

    The same participants may be in several calls at once.
    """

    kind: Literal["p2p", "sfu", "mcu", "mixing-mcu", "star", "hub-and-spoke", "tree"] = "p2p"
    """Topology of the call."""
    participants: Annotated[list[str], Field(min_length=2)] = []
    """Participants of the call; by default everybody."""
    start: Duration = Duration(0)
    """Start of the call."""
    end: Duration | None = None
    """End of the call; by default the end of the run."""
    relay: str | None = None
    """TURN server that relays the media: ``core`` or a name from ``servers``; ``p2p`` only."""
    server: str | None = None
    """SFU or MCU: a name from ``servers`` or, by default, ``core``; ``sfu``, ``mcu`` and ``mixing-mcu``
    only."""
    servers: Annotated[dict[str, Annotated[list[str], Field(min_length=1)]], Field(min_length=2)] | None = (
        None
    )
    """Cascaded SFUs or MCUs instead of one ``server``: by name, the participants that are connected with it.
    The first one is connected with each of the others. ``sfu``, ``mcu`` and ``mixing-mcu`` only; simulated
    calls only."""
    root: str | None = None
    """Root of the call, by default the first participant; ``star``, ``hub-and-spoke`` and ``tree`` only."""
    fan_out: Count | None = None
    """Maximum number of participants that each one sends to, by default 2; ``tree`` only."""

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        errors = [
            FieldError(
                f"a call of kind `{self.kind}` has no {key}; expected kind {' or '.join(kinds)}", key=key
            )
            for key, kinds in _KEYS_OF_KINDS.items()
            if key in self.model_fields_set and getattr(self, key) is not None and self.kind not in kinds
        ]
        if self.server is not None and self.servers is not None:
            errors.append(
                FieldError(
                    f"cannot be combined with server = `{self.server}`; expected one of them", key="servers"
                )
            )
        if self.end is not None and self.end <= self.start:
            errors.append(FieldError(f"`{self.end}` is not after start = `{self.start}`", key="end"))
        if errors:
            raise FieldErrors(errors)
        return self

    @property
    def homes(self) -> dict[str, list[str]]:
        """The servers of the call, each with its participants; the first one is connected with all others."""
        if self.kind not in _SERVED:
            return {}
        return self.servers or {self.server or CORE: self.participants}


_SERVED = ["sfu", "mcu", "mixing-mcu"]
_KEYS_OF_KINDS = {
    "relay": ["p2p"],
    "server": _SERVED,
    "servers": _SERVED,
    "root": ["star", "hub-and-spoke", "tree"],
    "fan_out": ["tree"],
}
