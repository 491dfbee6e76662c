"""Trains a small congestion control for a minute, and says where it is better and worse than others.

The policy has 49 weights. It sees four numbers every 60 ms and changes the rate by -30 % to +5 %. CMA-ES (the
package ``cma``) looks for weights with which the reward of R3Net is high, on networks drawn at random. Then
the policy is compared with `fixed` and `goog-cc`, on other networks and also on networks of other kinds, with
the same network and seed for each control. The score of a call is R3Net's reward of its metrics.

    pip install gymnasium cma
    python examples/train-a-policy.py
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cma
import gymnasium
import numpy as np
import polars as pl
from numpy.typing import NDArray

import rtclab
from rtclab.gym import FULL, Episode, Episodes

Floats = NDArray[np.float64]

DURATION_S = 20
CALL = {"duration": f"{DURATION_S} s", "video.max_bitrate": "2500 kbit/s", "link.down.capacity": "20 Mbit/s"}
"""What differs from the scenario ``first-call`` everywhere."""

TRAINING: Mapping[str, Any] = {
    "link.up.capacity": "0.3..3 Mbit/s",
    "link.up.delay": "10..80 ms",
    "link.up.queue": "100..400 ms",
}
"""What is drawn for each network of the training."""

DOWNLOAD = {"traffic": {"download": {"sender": "alice", "receiver": "bob"}}}
HELD_OUT: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "as in training": ({}, {}),
    "slower, 100 to 250 kbit/s": ({}, {"link.up.capacity": "100..250 kbit/s"}),
    "faster, 4 to 8 Mbit/s": ({}, {"link.up.capacity": "4..8 Mbit/s"}),
    "longer, 120 to 300 ms one way": ({}, {"link.up.delay": "120..300 ms"}),
    "short queue, 20 to 50 ms": ({}, {"link.up.queue": "20..50 ms"}),
    "long queue, 1 to 3 s": ({}, {"link.up.queue": "1000..3000 ms"}),
    "random loss, 2 to 5 %": ({}, {"link.up.loss": "2..5 %"}),
    "beside a TCP download": (DOWNLOAD, {}),
}
"""Networks of the comparison: changes of the scenario, and what is drawn otherwise than in training."""

CONTROLS = ("policy", "fixed", "goog-cc")
METRICS = {"receiving_rate": "kbit/s", "one_way_delay": "ms", "packet_loss": "%", "frame_rate": "frame/s"}
NEAR = 0.15
"""A difference of scores below this counts as near. It is 150 ms of delay, or 1.5 % of loss."""

INPUTS, HIDDEN = 4, 8
WEIGHTS = INPUTS * HIDDEN + HIDDEN + HIDDEN + 1
START_BPS, MIN_BPS, MAX_BPS = 300e3, 50e3, 8e6
COLUMN = {name: index for index, name in enumerate(FULL)}


def decide(weights: Floats, seen: NDArray[np.float32]) -> Floats:
    """The rates in bit/s, from a row of weights and a row of the observation ``full`` for each call."""
    known = seen[:, COLUMN["delay_ms"]] >= 0
    target = np.clip(seen[:, COLUMN["target_bps"]], MIN_BPS, MAX_BPS)
    inputs = np.stack(
        [
            np.where(known, seen[:, COLUMN["queuing_delay_ms"]], 0) / 100,
            np.where(known, seen[:, COLUMN["loss"]], 0) * 10,
            np.log(np.maximum(seen[:, COLUMN["receiving_rate_bps"]], 1e3) / target) / 2,
            np.log(target / 1e6),
        ],
        axis=1,
    )
    first, bias, second, last = np.split(weights, np.cumsum([INPUTS * HIDDEN, HIDDEN, HIDDEN]), axis=1)
    hidden = np.tanh(np.einsum("ni,nih->nh", inputs, first.reshape(-1, INPUTS, HIDDEN)) + bias)
    change = 0.1 * ((hidden * second).sum(axis=1) + last[:, 0])
    # Until something is reported the rate stays.
    return np.clip(target * np.exp(np.where(known, np.clip(change, -0.3, 0.05), 0)), MIN_BPS, MAX_BPS)


def train(generations: int, networks: int, seed: int) -> Floats:
    """Weights that CMA-ES finds. A generation meets the same networks, which are new each time."""
    search = cma.CMAEvolutionStrategy(np.zeros(WEIGHTS), 0.5, {"seed": seed, "popsize": 16, "verbose": -9})
    members = search.popsize
    calls = gymnasium.make_vec(
        "rtclab.gym:rtclab/Call-v0",
        num_envs=members * networks,
        vectorization_mode="vector_entry_point",
        scenario=rtclab.Scenario.load("first-call", CALL),
        vary=TRAINING,
        observation="full",
        reward="r3net",
    )
    source = np.random.default_rng(seed)
    # Calls take up to a second to connect; a few steps less are the same for all.
    steps = int((DURATION_S - 2) / 0.06)
    for generation in range(generations):
        asked = search.ask()
        weights = np.repeat(np.array(asked), networks, axis=0)
        repeats = np.tile(source.integers(2**31, size=networks), members)
        seen, _ = calls.reset(options={"repeat": repeats})
        total = np.zeros(members * networks)
        for _ in range(steps):
            seen, rewards, _, _, _ = calls.step(decide(weights, seen)[:, None])
            total += rewards
        means = total.reshape(members, networks).mean(axis=1) / steps
        search.tell(asked, -means)
        if generation % 10 == 0 or generation + 1 == generations:
            print(f"generation {generation}: reward per step {means.mean():.3f}, best {means.max():.3f}")
    return np.asarray(search.result.xfavorite)


def of_policy(env: Any, weights: Floats, episode: Episode) -> rtclab.Trace:
    """The trace of a call whose sender the policy decides."""
    seen, _ = env.reset(options={"repeat": episode.repeat})
    over = False
    while not over:
        seen, _, _, over, _ = env.step(decide(weights[None], seen[None]))
    return env.trace()


def of_control(name: str, episode: Episode) -> rtclab.Trace:
    """The trace of the same call with a congestion control of rtclab at the sender."""
    changes = {f"participants.{episode.participant}.congestion_control": {"name": name}}
    return rtclab.simulate(rtclab.Scenario.load(episode.scenario, changes), episode.repeat)


def measured(trace: rtclab.Trace, flow: str) -> dict[str, float]:
    """The metrics of the sender's flow, and the score."""
    rows = trace.metrics().filter((pl.col("flow") == flow) & pl.col("metric").is_in(list(METRICS)))
    values = dict(rows.select("metric", "value").iter_rows())
    rate, delay, loss = (values[name] for name in ("receiving_rate", "one_way_delay", "packet_loss"))
    return values | {"score": 0.6 * math.log(4 * rate / 1e3 + 1) - delay / 1e3 - 10 * loss / 100}


def compare(weights: Floats, repeats: int) -> pl.DataFrame:
    """Metrics and score of every control in every call: networks, repeat, control, and a column for each."""
    rows = []
    for networks, (changes, drawn) in HELD_OUT.items():
        scenario = rtclab.Scenario.load("first-call", {**CALL, **changes})
        vary = {**TRAINING, **drawn}
        env = gymnasium.make("rtclab.gym:rtclab/Call-v0", scenario=scenario, vary=vary, observation="full")
        episodes = Episodes(scenario, vary)
        for repeat in range(repeats):
            episode = episodes.episode(repeat)
            traces = {name: of_control(name, episode) for name in CONTROLS if name != "policy"}
            traces["policy"] = of_policy(env.unwrapped, weights, episode)
            for name in CONTROLS:
                about = {"networks": networks, "repeat": repeat, "control": name}
                rows.append(about | measured(traces[name], episode.flow))
    return pl.DataFrame(rows)


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """By networks: mean scores, and the 95 % interval of the policy's score less goog-cc's in a call."""
    scores = rows.pivot(on="control", index=["networks", "repeat"], values="score").with_columns(
        difference=pl.col("policy") - pl.col("goog-cc")
    )
    half = 1.96 * pl.col("difference").std() / pl.len().sqrt()
    by = scores.group_by("networks", maintain_order=True).agg(
        *(pl.col(name).mean() for name in CONTROLS),
        low=pl.col("difference").mean() - half,
        high=pl.col("difference").mean() + half,
    )
    low, high = pl.col("low"), pl.col("high")
    verdict = (
        pl.when((low > -NEAR) & (high < NEAR))
        .then(pl.lit("near goog-cc"))
        .when(high < 0)
        .then(
            pl.when(pl.col("policy") < pl.col("fixed"))
            .then(pl.lit("worse than both"))
            .otherwise(pl.lit("worse than goog-cc"))
        )
        .when(low > 0)
        .then(pl.lit("better than goog-cc"))
        .otherwise(pl.lit("undecided"))
    )
    return by.with_columns(verdict=verdict)


def as_text(rows: pl.DataFrame) -> str:
    """A table as text, in the form of Markdown."""
    with pl.Config(
        tbl_formatting="MARKDOWN",
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=200,
        fmt_str_lengths=40,
        float_precision=2,
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
    ):
        return str(rows)


def main() -> None:
    """Trains, compares, prints both tables, and writes weights and rows to files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--networks", type=int, default=8, help="networks of a generation")
    parser.add_argument("--repeats", type=int, default=20, help="networks of each kind in the comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("policy"), help="directory for weights and rows")
    options = parser.parse_args()
    began = time.perf_counter()
    weights = train(options.generations, options.networks, options.seed)
    print(f"trained {WEIGHTS} weights in {time.perf_counter() - began:.0f} s")
    rows = compare(weights, options.repeats)
    options.out.mkdir(parents=True, exist_ok=True)
    np.save(options.out / "weights.npy", weights)
    rows.write_csv(options.out / "calls.csv", float_precision=4)
    print("score of R3Net; `low` and `high`: 95 % interval of the policy's score less goog-cc's")
    print(as_text(table(rows)))
    means = [pl.col(name).mean().alias(f"{name} [{unit}]") for name, unit in METRICS.items()]
    print(as_text(rows.group_by("networks", "control", maintain_order=True).agg(*means)))


if __name__ == "__main__":
    main()
