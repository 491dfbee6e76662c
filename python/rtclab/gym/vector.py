"""``rtclab/Call-v0`` as a vector environment: many calls, stepped in the native module on several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rtclab.errors import BadInput
from rtclab.gym.batch import Batch, Flags, Floats, Reward
from rtclab.gym.episodes import Episode, Episodes, Vary, World
from rtclab.gym.single import chosen
from rtclab.processes import cores

Observations = NDArray[np.float32]


class CallVectorEnv(VectorEnv[Observations, Observations, NDArray[Any]]):
    """Many calls at once, each as in :class:`rtclab.gym.CallEnv`.

    The number of threads does not change the results.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: World = "first-call",
        *,
        vary: Vary | None = None,
        participant: str | None = None,
        observation: str = "bwe2024",
        action: str = "bps",
        reward: Reward = "gym",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        """Prepares the environment.

        Args:
            num_envs: number of calls.
            scenario, vary, participant, observation, action: as for :class:`rtclab.gym.CallEnv`.
            reward: as there. A function gets and returns a value for each call.
            autoreset_mode: when a call that is over begins anew: ``NEXT_STEP``, ``SAME_STEP`` or
                ``DISABLED``.
            threads: threads that step the calls; None for one on each core.
            render_mode: nothing is drawn; expected None.

        Raises:
            BadInput: a name is unknown, a scenario is invalid, or it has no such sender.
        """
        if render_mode is not None:
            raise BadInput(f"render_mode {render_mode!r}; expected None")
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = ", ".join(f"`{mode.value}`" for mode in AutoresetMode)
            raise BadInput(f"autoreset_mode `{autoreset_mode}`; expected {known}") from None
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
        self._episodes = Episodes(scenario, vary, participant)
        self._batch = Batch(
            num_envs,
            observation=observation,
            action=action,
            reward=reward,
            threads=cores() if threads is None else threads,
        )
        self.num_envs = num_envs
        self.single_observation_space = self._batch.observation_space
        self.single_action_space = self._batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._sources: list[np.random.Generator] = []
        self._over: Flags = np.ones(num_envs, dtype=np.bool_)

    @property
    def episodes(self) -> tuple[Episode | None, ...]:
        """The calls that run now; None before the first reset."""
        return tuple(self._batch.episodes)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begins other calls.

        Args:
            seed: the seed of the first call, whose successors the other calls have, or a list of seeds. As if
                each were reset in an environment of its own.
            options: ``reset_mask``, which calls are begun; ``repeat`` and ``scenario`` as for a single call,
                one number or one for each call.

        Raises:
            BadInput: there is no such option, scenario or repeat, a seed or a mask has another shape, or a
                call cannot be run.
        """
        options = dict(options or {})
        mask = self._mask(options.pop("reset_mask", None))
        self._seed(seed, mask)
        given = {name: self._each(name, values) for name, values in options.items()}
        self._begin(mask, given)
        return self._batch.look(), self._info(mask)

    def step(self, actions: Any) -> tuple[Observations, Floats, Flags, Flags, dict[str, Any]]:
        """Decides on the rate of each call, and runs it for 60 ms, or to its end.

        Raises:
            BadInput: the actions have another shape or are no rates, or a call is over and not reset.
        """
        before = self._over
        if not self._sources or (before.any() and self._mode is AutoresetMode.DISABLED):
            raise BadInput(
                f"call {int(np.argmax(before))} is over; expected a reset",
                hint="reset(options={'reset_mask': …}) begins some calls anew",
            )
        observations, rewards, over = self._batch.step(actions, ~before)
        outcome = self._batch.outcome()
        truncated = over & ~before
        everybody: Flags = np.ones(self.num_envs, dtype=np.bool_)
        info: dict[str, Any] = {}
        if self._mode is AutoresetMode.SAME_STEP and truncated.any():
            final = np.full(self.num_envs, None, dtype=object)
            for index in np.flatnonzero(truncated):
                final[index] = observations[index].copy()
            info = {"final_obs": final, "_final_obs": truncated.copy()}
            info |= {"final_info": self._info(truncated, outcome), "_final_info": truncated.copy()}
        begun = truncated if self._mode is AutoresetMode.SAME_STEP else before
        self._over = truncated
        if begun.any():
            self._begin(begun, {})
            observations = self._batch.look()
        return (
            observations,
            rewards,
            np.zeros(self.num_envs, np.bool_),
            truncated,
            info | self._info(everybody),
        )

    def _begin(self, mask: Flags, given: dict[str, list[Any]]) -> None:
        """Begins the calls of the mask, and notes that they are not over."""
        calls = {
            int(index): chosen(
                self._episodes, self._sources[index], {name: values[index] for name, values in given.items()}
            )
            for index in np.flatnonzero(mask)
        }
        self._batch.begin(calls)
        self._over = self._over & ~mask

    def _seed(self, seed: int | list[int | None] | None, mask: Flags) -> None:
        """Seeds the sources of the calls of the mask."""
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise BadInput(f"seed: {len(seeds)} values; expected {self.num_envs}")
        for index, own in enumerate(seeds):
            if index == len(self._sources):
                self._sources.append(seeding.np_random(own)[0])
            elif mask[index] and own is not None:
                self._sources[index] = seeding.np_random(own)[0]

    def _mask(self, given: Any) -> Flags:
        if given is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = np.asarray(given)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise BadInput(
                f"reset_mask of shape {mask.shape} and type {mask.dtype}; "
                f"expected ({self.num_envs},) and bool"
            )
        return mask

    def _each(self, name: str, values: Any) -> list[Any]:
        try:
            each: list[Any] = np.broadcast_to(np.asarray(values), (self.num_envs,)).tolist()
        except ValueError:
            raise BadInput(f"option `{name}`: {values!r}; expected one number or {self.num_envs}") from None
        return each

    def _info(self, mask: Flags, outcome: dict[str, Floats] | None = None) -> dict[str, Any]:
        """Scenario, repeat, and what became known in the step, of the calls of the mask; NaN if unknown."""
        episodes = self._batch.episodes
        names = np.array([one and one.scenario.name for one in episodes], dtype=object)
        repeats = np.array([-1 if one is None else one.repeat for one in episodes])
        columns = {"scenario": names, "repeat": repeats, **(outcome or self._batch.outcome())}
        masks = {f"_{name}": mask.copy() for name in columns}
        return columns | masks
