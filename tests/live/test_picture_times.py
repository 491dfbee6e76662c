"""Live calls whose pictures carry the time at which they were made: the delay of pictures is what one sees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from live_tests import undisturbed, was_late
from parts import CALL

from rtclab.backend.live import LiveBackend
from rtclab.metrics.accounts.waits import STAGES, waits_of
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*CALL)]

TEXT = """
name = "stamped"
duration = "20 s"
[app]
command = "python3 {folder}/server.py"
port = 3000
[participants.alice]
page = "http://app:3000/call.html?name=alice"
steps = [{{ click = "#join" }}]
[participants.alice.link]
up = {{ delay = "{there} ms", capacity = "5 Mbit/s" }}
down = {{ delay = "{back} ms", capacity = "5 Mbit/s" }}
[participants.bob]
page = "http://app:3000/call.html?name=bob"
steps = [{{ click = "#join" }}]
[participants.bob.link]
up = {{ delay = "0 ms", capacity = "5 Mbit/s" }}
down = {{ delay = "0 ms", capacity = "5 Mbit/s" }}
"""


def call(folder: Path, there: int, back: int) -> tuple[Trace, pl.DataFrame]:
    """A call over a path with these delays in ms, and its pictures as seen beside those in the trace."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).parent / "stamped", folder)
    file = folder / "call.toml"
    file.write_text(TEXT.format(folder=folder, there=there, back=back))
    scenario = Scenario.load(file, trust=True)
    backend, out = LiveBackend(), folder / "out"
    backend.check(scenario)
    out.mkdir()
    trace = backend.run(scenario, seed=1, repeat=0, out=out)
    seen = pl.DataFrame([json.loads(line) for line in (folder / "shown.jsonl").read_text().splitlines()])
    return trace, seen


@pytest.mark.parametrize(("there", "back"), [(60, 60), (10, 110), (110, 10)])
def test_the_delay_of_a_picture_is_that_of_the_time_in_it(tmp_path: Path, there: int, back: int) -> None:
    trace, seen = undisturbed(lambda: call(tmp_path / "call", there, back), lambda made: was_late(made[0]))
    for flow, name in (("alice->bob", "bob"), ("bob->alice", "alice")):
        frames = trace.table("frames").filter(pl.col("flow") == flow).rename({"rtp_timestamp": "timestamp"})
        both = frames.join(seen.filter(name=name), on="timestamp")
        assert both.height > 50
        known_ms = (both["rendered_ns"] - both["captured_ns"]).to_numpy() / 1e6
        error_ms = known_ms - both["delay"].to_numpy()
        print(flow, there, back, "error", np.round(np.quantile(error_ms, [0.05, 0.5, 0.95]), 2), "browser",
              round(float(np.median(both["browser"].to_numpy() - both["delay"].to_numpy())), 2), both.height)  # fmt: skip
        # A fault of half the difference of the two ways would be 50 ms.
        assert abs(np.median(error_ms)) < 15
        waits = waits_of(trace, flow)
        print({stage: round(waits[f"{stage}_ns"].mean() / 1e6, 2) for stage in STAGES})
        whole = sum((waits[f"{stage}_ns"] for stage in STAGES), start=pl.zeros(waits.height, eager=True))
        assert (whole == waits["rendered_ns"] - waits["captured_ns"]).all()
        assert waits.height > 0.9 * frames.filter(pl.col("captured_ns").is_not_null()).height
