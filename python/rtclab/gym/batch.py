"""Several calls at once: checks actions, and has the native module begin and step the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from rtclab import _native
from rtclab.errors import BadInput
from rtclab.gym.episodes import Episode

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Reward = str | Callable[[Mapping[str, Floats]], Any]
"""A name of :data:`REWARDS`, or a function from the columns of :data:`OUTCOME`, each with a value for each
call, to the reward of each call."""

STEP_S = 0.06
"""Time between two decisions in s."""

MIN_RATE_BPS, MAX_RATE_BPS = 10e3, 8e6
"""Rates in bit/s that the actions 0 and 1 mean, and the bounds of the action space in bit/s."""

LARGEST = 1e12
"""No action, and no number in an observation, is larger. Gymnasium asks for spaces with bounds."""

OBSERVATIONS = {"bwe2024": 150, "alphartc4": 4, "full": len(_native.ENVIRONMENT_FULL)}
"""How many numbers each observation has."""

FULL: tuple[str, ...] = tuple(_native.ENVIRONMENT_FULL)
"""The numbers of the observation ``full`` in their order; the suffix is the unit."""

OUTCOME: tuple[str, ...] = tuple(_native.ENVIRONMENT_OUTCOME)
"""What becomes known in a step; the suffix is the unit.

It is in ``info``, and a reward of one's own is made of it.
"""

ACTIONS = ("bps", "unit")
"""What an action is: a rate in bit/s, or a number from 0 to 1 on the logarithmic scale of AlphaRTC."""

REWARDS = ("gym", "challenge21", "r3net", "onrl", "aurora")
"""Rewards that have a name."""


class Batch:
    """Several calls, each with one sender whose rate is decided.

    Attributes:
        observation_space: what is seen of one call, in float32.
        action_space: what is decided for one call, in float32.
        episodes: the episode of each call; None before it has begun.
    """

    def __init__(self, count: int, *, observation: str, action: str, reward: Reward, threads: int) -> None:
        """Makes room for some calls.

        Raises:
            BadInput: there is no such observation, action or reward, or ``count`` or ``threads`` is
                below 1.
        """
        _known("observation", observation, tuple(OBSERVATIONS))
        _known("action", action, ACTIONS)
        if not callable(reward):
            _known("reward", reward, REWARDS)
        for name, value in (("num_envs", count), ("threads", threads)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} is {value!r}; expected a whole number from 1 on")
        self.count = count
        self.episodes: list[Episode | None] = [None] * count
        self._action = action
        self._reward = reward if callable(reward) else None
        named = None if callable(reward) else reward
        self._native = _native.Environments(count, observation, named, threads)
        least, most = (0.0, 1.0) if observation == "alphartc4" else (-LARGEST, LARGEST)
        self.observation_space: Space[Any] = Box(least, most, (OBSERVATIONS[observation],), np.float32)
        low, high = (0.0, 1.0) if action == "unit" else (MIN_RATE_BPS, MAX_RATE_BPS)
        self.action_space: Space[Any] = Box(low, high, (1,), np.float32)
        self._outcome: Floats = np.full((count, len(OUTCOME)), np.nan)

    def begin(self, episodes: Mapping[int, Episode]) -> None:
        """Begins calls anew, by their index, and runs each until its first decision.

        Raises:
            BadInput: a call cannot be run, such as when nobody connects.
        """
        made = [(index, one.native(), one.flow) for index, one in episodes.items()]
        try:
            self._native.begin(made)
        except ValueError as error:
            named = {f"call {index}": one for index, one in episodes.items()}
            episode = named.get(str(error).partition(":")[0])
            where = "" if episode is None else f"scenario {episode.scenario.name}, repeat {episode.repeat}, "
            raise BadInput(f"{where}{error}") from None
        for index, episode in episodes.items():
            self.episodes[index] = episode

    def look(self) -> NDArray[np.float32]:
        """The current observation of each call, float32, of shape (calls, numbers)."""
        observations, _, _, self._outcome = self._native.look()
        return observations

    def step(self, actions: Any, active: Flags) -> tuple[NDArray[np.float32], Floats, Flags]:
        """Decides for the active calls and runs them until their next decisions.

        Returns observations (float32, a row for each call), rewards, and which calls are over.

        Raises:
            BadInput: the actions have another shape, an active one is no rate, an active call is over, or a
                reward is no finite number.
        """
        rates = self._rates(actions, active)
        try:
            observations, rewards, over, self._outcome = self._native.step(rates, active)
        except ValueError as error:
            raise BadInput(str(error)) from None
        if self._reward is not None:
            rewards = self._own_rewards(self._reward, active)
        return observations, np.where(active, rewards, 0.0), over

    def outcome(self) -> dict[str, Floats]:
        """What became known in the last step: name -> a value for each call, NaN if unknown."""
        return {name: self._outcome[:, index].copy() for index, name in enumerate(OUTCOME)}

    def tables(self, call: int) -> Mapping[str, Mapping[str, Any]]:
        """The native tables of a call so far."""
        return self._native.tables(call)

    def _rates(self, actions: Any, active: Flags) -> Floats:
        try:
            values = np.asarray(actions, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"action {actions!r}; expected numbers") from None
        if values.shape != (self.count, 1):
            raise BadInput(
                f"action of shape {values.shape[1:] if self.count == 1 else values.shape}; "
                f"expected {(1,) if self.count == 1 else (self.count, 1)}"
            )
        values = values[:, 0]
        is_unit = self._action == "unit"
        top, expected = (1.0, "0 to 1") if is_unit else (LARGEST, f"a rate of 0 to {LARGEST:g} bit/s")
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(active & ~((values >= 0) & (values <= top)))
        if wrong.size:
            of = f" of call {wrong[0]}" if self.count > 1 else ""
            raise BadInput(f"action {values[wrong[0]]:g}{of}; expected {expected}")
        values = np.where(active, values, 0.0)
        if is_unit:
            return MIN_RATE_BPS * (MAX_RATE_BPS / MIN_RATE_BPS) ** values
        return values

    def _own_rewards(self, reward: Callable[[Mapping[str, Floats]], Any], active: Flags) -> Floats:
        rewards = np.asarray(reward(self.outcome()), dtype=np.float64)
        if rewards.shape != (self.count,):
            raise BadInput(f"reward: the function returned shape {rewards.shape}; expected {(self.count,)}")
        wrong = np.flatnonzero(active & ~np.isfinite(rewards))
        if wrong.size:
            raise BadInput(
                f"reward: the function returned {rewards[wrong[0]]:g} for call {wrong[0]}; "
                "expected a finite number",
                hint="delays and loss are NaN until the first report; np.nan_to_num makes them 0",
            )
        return rewards


def _known(what: str, name: object, known: Sequence[str]) -> None:
    if name not in known:
        expected = ", ".join(f"`{one}`" for one in known)
        raise BadInput(f"{what} `{name}`; expected {expected}")
