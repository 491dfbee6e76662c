"""``rtclab/Call-v0``: one call."""

from __future__ import annotations

from math import isnan
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.gym.batch import Batch, Reward
from rtclab.gym.episodes import Episode, Episodes, Vary, World
from rtclab.trace import Trace

Observation = NDArray[np.float32]


class CallEnv(gymnasium.Env[Observation, Observation]):
    """A simulated call in which the rate of one sender is decided every 60 ms.

    All others in the scenario, their congestion controls and other traffic are as the scenario says. The call
    does not terminate; it is truncated at its end.
    """

    def __init__(
        self,
        scenario: World = "first-call",
        *,
        vary: Vary | None = None,
        participant: str | None = None,
        observation: str = "bwe2024",
        action: str = "bps",
        reward: Reward = "gym",
        render_mode: None = None,
    ) -> None:
        """Prepares the environment.

        Args:
            scenario: a name from ``rtclab list``, the path of a TOML file, a scenario, or a list, from which
                one is drawn for each episode; or a function that makes a scenario of a number.
            vary: fields of the scenario, with what is drawn in each episode: a range, drawn log-uniformly,
                such as ``"0.3..4 Mbit/s"``, whole numbers as ``"1..3"``, a list of values, or a ``Draw``.
            participant: whose sender is decided; None for the first that sends over one connection.
            observation: ``bwe2024``, ``alphartc4`` or ``full``; see docs/gym.md.
            action: ``bps``, a rate in bit/s, or ``unit``, 0 to 1 for 10 kbit/s to 8 Mbit/s on a logarithmic
                scale.
            reward: ``gym``, ``challenge21``, ``r3net``, ``onrl`` or ``aurora``, or a function; see
                docs/gym.md.
            render_mode: nothing is drawn; expected None.

        Raises:
            BadInput: a name is unknown, a scenario is invalid, or it has no such sender.
        """
        if render_mode is not None:
            raise BadInput(f"render_mode {render_mode!r}; expected None")
        self.metadata = {"render_modes": []}
        self._episodes = Episodes(scenario, vary, participant)
        self._batch = Batch(1, observation=observation, action=action, reward=reward, threads=1)
        self.observation_space = self._batch.observation_space
        self.action_space = self._batch.action_space
        self._over = True

    @property
    def episode(self) -> Episode:
        """The call that runs now.

        Raises:
            BadInput: there is none before the first reset.
        """
        episode = self._batch.episodes[0]
        if episode is None:
            raise BadInput("no call has begun; expected a reset")
        return episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins another call.

        ``options`` may have ``repeat``, the number of the repeat of the scenario, and ``scenario``, the index
        in the list of scenarios. With the same numbers, the call is the same; what is left out is drawn.

        Raises:
            BadInput: there is no such option, scenario or repeat, or the call cannot be run.
        """
        super().reset(seed=seed)
        self._batch.begin({0: chosen(self._episodes, self.np_random, options or {})})
        self._over = False
        return self._batch.look()[0], self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decides on the rate, and runs the call for 60 ms, or to its end.

        Raises:
            BadInput: the action has another shape or is no rate, or the call is over.
        """
        if self._over:
            raise BadInput("the call is over; expected a reset")
        try:
            action = np.asarray(action, dtype=np.float64)[np.newaxis]
        except (TypeError, ValueError):
            raise BadInput(f"action {action!r}; expected numbers") from None
        observations, rewards, over = self._batch.step(action, np.ones(1, dtype=np.bool_))
        self._over = bool(over[0])
        return observations[0], float(rewards[0]), False, self._over, self._info()

    def trace(self) -> Trace:
        """The trace of the call when it is over, with the detail ``seconds``, for all metrics of rtclab.

        The manifest has the scenario, whose control of the sender was not used.

        Raises:
            BadInput: the call is not over.
        """
        episode = self.episode
        if not self._over:
            raise BadInput("the call is not over; expected a trace after the step that truncates it")
        tables = self._batch.tables(0)
        return SimBackend().trace_of(tables, episode.scenario, seed=episode.seed, repeat=episode.repeat)

    def _info(self) -> dict[str, Any]:
        """Scenario, repeat, and what became known in the step; None for what is unknown."""
        episode = self.episode
        outcome = {name: float(values[0]) for name, values in self._batch.outcome().items()}
        known = {name: None if isnan(value) else value for name, value in outcome.items()}
        return {"scenario": episode.scenario.name, "repeat": episode.repeat, **known}


def chosen(episodes: Episodes, source: np.random.Generator, options: dict[str, Any]) -> Episode:
    """The episode that options of a reset name; what they leave out is drawn.

    Raises:
        BadInput: there is no such option, scenario or repeat.
    """
    if unknown := options.keys() - {"repeat", "scenario"}:
        raise BadInput(f"option `{min(unknown)}`; expected `repeat` or `scenario`")
    repeat, scenario = episodes.numbers(source)
    return episodes.episode(options.get("repeat", repeat), options.get("scenario", scenario))
