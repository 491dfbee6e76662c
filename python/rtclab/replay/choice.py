"""The congestion control of a replay, and the bounds that a recording does not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROLS
from rtclab.errors import BadInput

AUDIO_BPS = 48_000
"""Rate of Opus at 32 kbit/s with its headers: 50 packets of 40 bytes of headers per second."""


@dataclass(frozen=True)
class Bounds:
    """Bounds on the rate, in bit/s, for which Chromium's defaults for one 640x480 stream are assumed.

    A log does not tell them. libwebrtc's own replay starts at 300 kbit/s too.
    """

    start: int = 300_000
    """Rate before any feedback."""
    least: int = 30_000
    """Lower bound."""
    most: int = 1_700_000
    """What the encoders can use; probes go up to twice that."""
    audio: int = AUDIO_BPS
    """Rate of audio sent beside video, which the bounds of video do not include."""

    @property
    def native(self) -> tuple[int, int, int, int]:
        """Start, least, most and audio, as the native side takes them."""
        return self.start, self.least, self.most, self.audio


@dataclass(frozen=True)
class Choice:
    """A congestion control and its options."""

    name: str
    options: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, more: Mapping[str, float] | Sequence[str] = ()) -> Choice:
        """The control in ``NAME`` or ``NAME,OPTION=VALUE,…``, with further options.

        Raises:
            BadInput: there is no such control, or a value is not a number.
        """
        name, *parts = (part.strip() for part in text.split(","))
        if name not in CONGESTION_CONTROLS:
            raise BadInput(
                f"no congestion control `{name}`; expected {', '.join(CONGESTION_CONTROLS)}",
                hint="`rtclab list --controls` lists them",
            )
        options = dict(more) if isinstance(more, Mapping) else {}
        parts += [] if isinstance(more, Mapping) else list(more)
        for part in parts:
            option, _, value = part.partition("=")
            known = [known for control, known, *_ in CONGESTION_CONTROL_OPTIONS if control == name]
            try:
                options[option] = float(value)
            except ValueError:
                raise BadInput(
                    f"{name},{part}: expected OPTION=NUMBER", hint=f"options of {name}: {', '.join(known) or 'none'}"
                ) from None
        return cls(name, options)

    def __str__(self) -> str:
        return ",".join([self.name, *(f"{option}={value:g}" for option, value in self.options.items())])
