"""Environments of Gymnasium for learning congestion controls: the rate of one sender, decided every 60 ms.

Example:
    >>> import gymnasium
    >>> env = gymnasium.make("rtclab.gym:rtclab/Call-v0", scenario="first-call")
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

try:
    import gymnasium
except ImportError as error:
    raise ImportError(
        "rtclab.gym needs the Python module `gymnasium`\n  hint: pip install gymnasium", name=error.name
    ) from None

from rtclab.gym.batch import ACTIONS, FULL, MAX_RATE_BPS, MIN_RATE_BPS, OBSERVATIONS, OUTCOME, REWARDS, STEP_S
from rtclab.gym.episodes import Episode, Episodes
from rtclab.gym.single import CallEnv
from rtclab.gym.vector import CallVectorEnv

__all__ = [
    "ACTIONS",
    "FULL",
    "MAX_RATE_BPS",
    "MIN_RATE_BPS",
    "OBSERVATIONS",
    "OUTCOME",
    "REWARDS",
    "STEP_S",
    "CallEnv",
    "CallVectorEnv",
    "Episode",
    "Episodes",
]

gymnasium.register(
    "rtclab/Call-v0",
    entry_point="rtclab.gym.single:CallEnv",
    vector_entry_point="rtclab.gym.vector:CallVectorEnv",
)
