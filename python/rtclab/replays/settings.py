"""The congestion control of a replay, and the bounds of the rate, which a recording does not contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rtclab import _native, own_controls
from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROLS
from rtclab.errors import BadInput, FieldError
from rtclab.scenario.own_control import FORMS, OwnControl, parse_control
from rtclab.scenario.table import closest
from rtclab.scenario.toml_text import toml_text

AUDIO_BPS = 49_600
"""Rate that Chromium 156 adds for a call's audio: its largest probes are twice 1,749,600 bit/s."""


@dataclass(frozen=True)
class RateBounds:
    """Bounds on the rate of video in bit/s, by default Chromium's for one video of 640x480.

    A log does not contain them. The browser's first target is ``start``, with or without audio.
    """

    start: int = 300_000
    """Rate before any feedback."""
    min: int = 30_000
    """Lower bound."""
    max: int = 1_700_000
    """Maximum encoder bitrate; probes go up to twice the sum of this and the audio."""

    def native(self, *, audio: bool) -> tuple[int, int, int, int]:
        """Start, min, max and audio, for the native side. ``audio``: whether the recording has audio."""
        return self.start, self.min, self.max, AUDIO_BPS if audio else 0


@dataclass(frozen=True)
class ControlChoice:
    """A congestion control and its options; ``own`` is known for a control of the user's own."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    own: OwnControl | None = None

    @classmethod
    def parse(cls, text: str) -> ControlChoice:
        """The control in ``NAME`` or ``NAME,OPTION=VALUE,…``.

        Raises:
            BadInput: there is no such control, or a value is not a number.
        """
        table = parse_control(text)
        name, options = str(table["name"]), table.get("options", {})
        try:
            own = OwnControl.located(name)
        except FieldError as error:
            raise BadInput(error.message, hint=error.hint) from None
        if own is not None:
            return cls(own.text, options, replace(own, options=options))
        if name not in CONGESTION_CONTROLS:
            raise BadInput(
                f"no congestion control `{name}`; expected {', '.join(CONGESTION_CONTROLS)}, or {FORMS}",
                hint=closest(name, CONGESTION_CONTROLS) or "`rtclab list --controls` lists them",
            )
        for option, value in options.items():
            known = [known for control, known, *_ in CONGESTION_CONTROL_OPTIONS if control == name]
            if not isinstance(value, int | float):
                raise BadInput(
                    f"{name},{option}={toml_text(value)}: expected OPTION=NUMBER",
                    hint=f"options of {name}: {', '.join(known) or 'none'}",
                )
        return cls(name, {option: float(value) for option, value in options.items()})

    def __str__(self) -> str:
        name = self.name if self.own is None else self.own.label
        return ",".join([name, *(f"{option}={_short(value)}" for option, value in self.options.items())])

    def replayed(
        self, function: Literal["replay_log", "replay_arrivals"], *recording: Any, bounds: Any
    ) -> Any:
        """Calls a native function with a recording, this control and the bounds.

        Raises:
            ValueError: the recording, an option or the control is invalid.
            ControlFailed: a control of the user's own failed.
        """
        if self.own is None:
            return getattr(_native, function)(*recording, self.name, dict(self.options), bounds)
        return own_controls.call(function, [self.own], *recording, self.own.key, {}, bounds)


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else toml_text(value)
