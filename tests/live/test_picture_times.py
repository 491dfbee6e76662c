"""Live calls whose pictures carry their time: the delay of pictures is what one sees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from live_tests import undisturbed, was_late
from parts import CALL

from rtclab.backend.live import LiveBackend
from rtclab.metrics import METRICS
from rtclab.metrics.accounts.waits import STAGES, mean_sound_waits_ms, waits_of
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*CALL)]

TEXT = """
name = "stamped"
duration = "30 s"
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
    """A call over a path with these delays in ms, and what its pages saw and heard."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).parent / "stamped", folder)
    file = folder / "call.toml"
    file.write_text(TEXT.format(folder=folder, there=there, back=back))
    scenario = Scenario.load(file, trust=True)
    backend, out = LiveBackend(), folder / "out"
    backend.check(scenario)
    out.mkdir()
    trace = backend.run(scenario, seed=1, repeat=0, out=out)
    lines = (folder / "shown.jsonl").read_text().splitlines()
    return trace, pl.DataFrame([json.loads(line) for line in lines], infer_schema_length=None)


@pytest.mark.parametrize(("there", "back"), [(60, 60), (10, 110), (110, 10)])
def test_the_delay_of_a_picture_is_that_of_the_time_in_it(tmp_path: Path, there: int, back: int) -> None:
    trace, seen = undisturbed(lambda: call(tmp_path / "call", there, back), lambda made: was_late(made[0]))
    for flow, name in (("alice->bob", "bob"), ("bob->alice", "alice")):
        frames = trace.rows_of_flow("frames", flow).rename({"rtp_timestamp": "timestamp"})
        both = frames.join(seen.filter(pl.col("delay").is_not_null(), name=name), on="timestamp")
        assert both.height > 50
        error_ms = (both["rendered_ns"] - both["captured_ns"]) / 1e6 - both["delay"]
        # Half of the difference of the two ways is 50 ms. Chromium knows when a picture was taken to some ms,
        # because it smooths the times that a camera gives.
        assert abs(float(error_ms.median())) < 20, error_ms.describe()  # type: ignore[arg-type]
        waits = waits_of(trace, flow)
        parts = [waits[f"{stage}_ns"].to_numpy() for stage in STAGES]
        assert (sum(parts) == (waits["rendered_ns"] - waits["captured_ns"]).to_numpy()).all()
        assert waits.height > 0.9 * frames.drop_nulls("captured_ns").height


def test_the_delay_of_sound_is_what_the_browser_says_of_the_sound_that_it_plays(tmp_path: Path) -> None:
    trace, seen = undisturbed(lambda: call(tmp_path / "call", 10, 110), lambda made: was_late(made[0]))
    for flow, name in (("alice->bob", "bob"), ("bob->alice", "alice")):
        waits_ms = mean_sound_waits_ms(trace, flow)
        known_ms = METRICS["sound_delay"].function(trace, flow)
        assert sum(waits_ms.values()) == pytest.approx(known_ms, abs=1e-6)
        # The browser counts from when a packet left, and so without its length.
        seen_ms = float(seen.filter(pl.col("sound").is_not_null(), name=name)["sound"].median())  # type: ignore[arg-type]
        assert known_ms - waits_ms["microphone"] == pytest.approx(seen_ms, abs=40)
