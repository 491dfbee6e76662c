"""The congestion control of a replay, and the bounds of the rate, which a recording does not contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROLS
from rtclab.errors import BadInput

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
class Choice:
    """A congestion control and its options."""

    name: str
    options: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Choice:
        """The control in ``NAME`` or ``NAME,OPTION=VALUE,…``.

        Raises:
            BadInput: there is no such control, or a value is not a number.
        """
        name, *parts = (part.strip() for part in text.split(","))
        if name not in CONGESTION_CONTROLS:
            raise BadInput(
                f"no congestion control `{name}`; expected {', '.join(CONGESTION_CONTROLS)}",
                hint="`rtclab list --controls` lists them",
            )
        options: dict[str, float] = {}
        for part in parts:
            option, _, value = part.partition("=")
            known = [known for control, known, *_ in CONGESTION_CONTROL_OPTIONS if control == name]
            try:
                options[option] = float(value)
            except ValueError:
                raise BadInput(
                    f"{name},{part}: expected OPTION=NUMBER",
                    hint=f"options of {name}: {', '.join(known) or 'none'}",
                ) from None
        return cls(name, options)

    def __str__(self) -> str:
        return ",".join([self.name, *(f"{option}={value:g}" for option, value in self.options.items())])
