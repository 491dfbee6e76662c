"""The controls of an arena: texts such as ``nada,kappa=0.4``, and who takes part by default."""

from __future__ import annotations

from collections.abc import Sequence

from rtclab._native import CONGESTION_CONTROLS
from rtclab.arguments import items
from rtclab.errors import BadInput
from rtclab.replays.settings import ControlChoice
from rtclab.scenario import Scenario

HISTORICAL = ("rrtcc-2013", "gcc-2016", "dynamic-alpha", "fixed-alpha")
"""Controls of 2013 to 2016 that exist to reproduce papers. No browser of today has them, so they take part
only if they are named."""


def default_controls() -> list[str]:
    """All built-in controls without the historical ones."""
    return [name for name in CONGESTION_CONTROLS if name not in HISTORICAL]


def choices(texts: str | Sequence[str]) -> dict[str, ControlChoice]:
    """The controls by the text under which they appear, in the order given; without texts the default ones.

    Raises:
        BadInput: there is no such control, an option cannot be read, or a control is given twice.
    """
    found: dict[str, ControlChoice] = {}
    expected = "controls such as goog-cc or nada,kappa=0.4"
    for text in items("controls", texts, str, expected, may_be_empty=True) or default_controls():
        choice = ControlChoice.parse(text)
        if str(choice) in found:
            raise BadInput(f"controls: `{text}` is given twice; expected each control once")
        found[str(choice)] = choice
    return found


def with_control(scenario: Scenario, choice: ControlChoice, owner: str = "") -> Scenario:
    """The scenario with a control: everybody's, or the one of the participant ``owner``."""
    own = {"name": choice.name, "options": dict(choice.options)}
    if owner:
        return Scenario.load(scenario, {f"participants.{owner}.congestion_control": own})
    return Scenario.load(scenario, {f"congestion_control.{key}": value for key, value in own.items()})
