"""Benchmarks of whole commands: simulation, memory, pages, lateness of the emulated link, and a live call.

``make bench`` prints them after the Rust benchmarks. They are not pass or fail, and they get worse if the
machine is busy. With ``BASE=<commit>``, that commit is measured alternately with this tree, and the last
column is the median ratio of the pairs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROUNDS = 9
"""Processes per figure; the median is shown."""
MEETINGS = (3, 8, 20, 50)
"""People in the meetings whose measuring is compared with their simulation."""
FEWEST_RUNS = 3
WARM_S = 0.5
"""Fewest runs of a scenario in a process, and their least total CPU time in seconds. The fastest counts."""
WIDTHS = (48, 12, 20, 20, 12, 6)
"""Characters of each column."""
HERE = Path(__file__).resolve()
TREE = HERE.parents[1] / "python"

_PERSON = """
[participants.{name}]
"""
_MANY = """
name = "many"
duration = "{seconds} s"
record = "{record}"
[video]
width = 640
height = 480
frame_rate = 30
max_bitrate = "500 kbit/s"
[link]
up = {{ capacity = "100 Mbit/s", delay = "25 ms", queue = "300 ms" }}
down = {{ capacity = "100 Mbit/s", delay = "25 ms", queue = "300 ms" }}
"""
_BOTTLENECK = """
[bottlenecks.shared]
routes = ["*->*"]
capacity = "20 Mbit/s"
delay = "10 ms"
queue = "300 ms"
[traffic.download]
sender = "p0"
receiver = "p1"
"""
_SFU = """
[[calls]]
kind = "sfu"
"""

LIVE_CALL_S = 60
_LIVE_CALL = f"""
name = "live"
duration = "{LIVE_CALL_S} s"
[video]
max_bitrate = "600 kbit/s"
[participants.alice]
[participants.bob]
[link]
up = {{ capacity = "10 Mbit/s", queue = "300 ms", delay = "20 ms" }}
down = {{ capacity = "10 Mbit/s", queue = "300 ms", delay = "20 ms" }}
[traffic.there]
sender = "alice"
receiver = "bob"
protocol = "udp"
rate = "4.4 Mbit/s"
[traffic.back]
sender = "bob"
receiver = "alice"
protocol = "udp"
rate = "4.4 Mbit/s"
"""
"""A call of two that makes 5 Mbit/s each way together with constant-rate traffic."""


@dataclass(frozen=True)
class Figure:
    """One line of the table: a rate, cost or size measured from runs of a scenario."""

    name: str
    unit: str
    worker: str
    better: str = "higher"


FIGURES = [
    Figure("simulator, record = seconds", "simulated s/s", "seconds"),
    Figure("simulator, record = packets", "simulated s/s", "packets"),
    Figure("trace written / simulated, record = seconds", "CPU time / CPU time", "write-seconds", "lower"),
    Figure("trace written / simulated, record = packets", "CPU time / CPU time", "write-packets", "lower"),
    Figure("ten calls and TCP over one bottleneck", "simulated s/s", "bottleneck"),
    Figure("SFU of 32 / SFU of 4, per flow and second", "CPU time / CPU time", "sfu", "lower"),
    Figure("mesh of 32 / mesh of 4, per flow and second", "CPU time / CPU time", "mesh", "lower"),
    Figure("peak memory of a mesh of 32 over 20 s", "MB", "mesh-memory", "lower"),
    Figure("SFU call of 50 people, all sending video, 60 s", "simulated s/s", "sfu-50"),
    Figure("peak memory of this call", "MB", "sfu-50-memory", "lower"),
    Figure("peak memory of a 300 s call, record = packets", "MB", "long-memory", "lower"),
]
OWN = [
    Figure("environment of 64 calls, bwe2024", "steps/s", "environment"),
    Figure("mesh of 32 on two threads / on one", "speed / speed", "mesh-threads"),
    Figure("sweep of five fields on all cores", "simulated min/s", "sweep"),
    Figure("task of a sweep: all / simulating", "CPU time / CPU time", "sweep-task", "lower"),
    *(
        Figure(
            f"SFU call of {people}: the whole command / (1.5 x simulating + 1 s)",
            "CPU time / CPU time",
            f"meeting-{people}",
            "lower",
        )
        for people in MEETINGS
    ),
    Figure("task of a sweep: measuring a simulated minute", "ms of CPU time", "sweep-measuring", "lower"),
    Figure("control in Python / the same in Rust, scalars", "speed / speed", "python-control"),
    Figure("control in Python / the same in Rust, packets", "speed / speed", "python-control-packets"),
    Figure("control in Python / the same in Rust, on_sent", "speed / speed", "python-control-sent"),
]
"""Measured of this tree alone, as older commits have no threads, sweeps and environments."""


def main() -> None:
    """Prints all figures; figures of the emulator only if this machine can run live calls."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, help="checkout of another commit with its native module built")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(WORKERS[options.worker]()))
        return
    _print_row("figure", "median", "smallest … largest", "unit", *(["base", "ratio"] if options.base else []))
    for figure in FIGURES:
        _print_row(*_measured(figure, options.base))
    for figure in OWN:
        _print_row(*_measured(figure, None))
    for measure in (_pages, _emulator, _live_call):
        for name, value, unit in measure():
            _print_row(name, value, "", unit)


def _print_row(*cells: str) -> None:
    """Prints one line of the table at once, because the next one may take minutes."""
    padded = [cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=False)]
    print("  ".join(padded).rstrip(), flush=True)


def _measured(figure: Figure, base: Path | None) -> list[str]:
    rounds = 3 if figure.worker.endswith(("memory", "-50")) else ROUNDS
    own, other = [], []
    for _ in range(rounds):
        own.append(_run_worker(TREE, figure.worker))
        if base is not None:
            other.append(_run_worker(base / "python", figure.worker))
    row = [figure.name, f"{statistics.median(own):.3g}", f"{min(own):.3g} … {max(own):.3g}", figure.unit]
    if base is not None:
        ratios = [a / b for a, b in zip(own, other, strict=True)]
        row += [f"{statistics.median(other):.3g}", f"{statistics.median(ratios):.2f}"]
    return row


def _run_worker(tree: Path, worker: str) -> float:
    """One figure of the rtclab in ``tree``, measured in a separate process."""
    command = [sys.executable, "-P", str(HERE), "--worker", worker]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def _cpu_s(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def _least_cpu_s(run: Callable[[], object]) -> float:
    """The least CPU time of a run, since disturbances only add to it.

    In a new process the first runs take many times as long, because the machine has to find memory for them.
    """
    begin = time.process_time()
    times: list[float] = []
    while len(times) < FEWEST_RUNS or time.process_time() < begin + WARM_S:
        times.append(_cpu_s(run))
    return min(times)


def _load(text: str) -> Any:
    from rtclab.scenario import Scenario

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text)
        return Scenario.load(file)


def _first_call(*changes: str) -> Any:
    from rtclab.scenario import Scenario

    return Scenario.load("first-call", changes)


def _many(people: int, call: str, seconds: int, more: str = "", record: str = "seconds") -> Any:
    names = "".join(_PERSON.format(name=f"p{number}") for number in range(people))
    return _load(_MANY.format(seconds=seconds, record=record) + names + call + more)


def _simulated(scenario: Any) -> float:
    """CPU time of simulating a scenario."""
    from rtclab import _native

    native = json.dumps(scenario.native(seed=1))
    return _least_cpu_s(lambda: _native.simulate(native))


def _rate(scenario: Any) -> float:
    return float(scenario.duration.ns / 1e9 / _simulated(scenario))


def _rate_once(scenario: Any) -> float:
    from rtclab import _native

    native = json.dumps(scenario.native(seed=1))
    return float(scenario.duration.ns / 1e9 / _cpu_s(lambda: _native.simulate(native)))


def _cost_per_flow(people: int, kind: str) -> float:
    scenario = _many(people, f'[[calls]]\nkind = "{kind}"\n', 10)
    return _simulated(scenario) / len(scenario.flows())


def _threads_gain() -> float:
    """Wall-clock time of a mesh of 32 on one thread, divided by its time on two."""
    from rtclab import _native

    native = json.dumps(_many(32, "", 10).native(seed=1))

    def took(threads: int) -> float:
        begin = time.perf_counter()
        _native.simulate(native, threads=threads)
        return time.perf_counter() - begin

    return took(1) / took(2)


def _write_cost(record: str) -> float:
    """CPU time of converting and writing a trace, divided by the CPU time of simulating it."""
    from rtclab.backend.sim import SimBackend

    scenario = _first_call(f"record={record}")

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            SimBackend().run(scenario, seed=1, repeat=0, out=Path(folder) / "repeat-0")

    return _least_cpu_s(run) / _simulated(scenario) - 1


def _peak_mb(scenario: Any) -> float:
    """Peak memory of this process after it has simulated the scenario and written its trace."""
    from rtclab.backend.sim import SimBackend

    with tempfile.TemporaryDirectory() as folder:
        SimBackend().run(scenario, seed=1, repeat=0, out=Path(folder) / "repeat-0")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _pairs(count: int) -> str:
    return "".join(f'[[calls]]\nparticipants = ["p{2 * n}", "p{2 * n + 1}"]\n' for n in range(count))


def _swept() -> dict[str, object]:
    """Five fields of two values each: 32 points."""
    return {
        "congestion_control.name": ["goog-cc", "gcc-2016"],
        "link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"],
        "link.up.loss": ["0 %", "2 %"],
        "link.up.delay": ["5 ms", "50 ms"],
        "link.up.queue": ["100 ms", "300 ms"],
    }


def _sweep_rate() -> float:
    """Simulated minutes per second of wall clock."""
    import rtclab

    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        swept = rtclab.sweep("first-call", _swept(), repeats=16, out=folder, progress=False)
        return swept.planned / (time.perf_counter() - begin)


def _sweep_task() -> tuple[float, float, int]:
    """CPU time in s of a whole task and of simulating its repeats alone, and how many these are."""
    from rtclab import _native
    from rtclab.experiment import Experiment
    from rtclab.experiment.work import run_task, tasks_of

    experiment = Experiment("first-call", vary=_swept(), repeats=100)
    items = [(condition, repeat) for condition in range(len(experiment.conditions)) for repeat in range(100)]
    tasks = list(tasks_of(experiment.conditions, items, experiment.about))
    first = sum(task.size for task in tasks[: len(tasks) // 2])
    task = tasks[len(tasks) // 2]
    scenarios = [
        (experiment.conditions.scenario(condition), repeat)
        for condition, repeat in items[first : first + task.size]
    ]
    configs = [json.dumps(scenario.native(seed=scenario.seed_of(repeat))) for scenario, repeat in scenarios]
    whole = min(_cpu_s(lambda: run_task(task.text)) for _ in range(3))
    simulating = min(_cpu_s(lambda: [_native.simulate(config) for config in configs]) for _ in range(3))
    return whole, simulating, len(configs)


def _environment_steps() -> float:
    """Steps of calls per second of wall clock, on all cores."""
    import numpy as np

    from rtclab.gym import CallVectorEnv

    calls = CallVectorEnv(64)
    calls.reset(seed=1)
    actions = np.full((calls.num_envs, 1), 800e3)
    begin, steps = time.perf_counter(), 900
    for _ in range(steps):
        calls.step(actions)
    return calls.num_envs * steps / (time.perf_counter() - begin)


def _sweep_overhead() -> float:
    whole, simulating, _ = _sweep_task()
    return whole / simulating


def _sweep_measuring_ms() -> float:
    whole, simulating, repeats = _sweep_task()
    return 1e3 * (whole - simulating) / repeats


_CONTROL = """
class Control:
    def __init__(self, bounds):
        self.rate, self.seen = bounds.max + bounds.audio, 0.0
    def on_timeout(self, now, sender):
        return self.rate
    def on_feedback(self, now, feedback):
        {feedback}
        return self.rate
    {more}
"""
_SCALARS = "self.seen += (feedback.queuing_delay or 0.0) + (feedback.loss or 0.0)"
_PACKETS = "self.seen += min([p.received - p.sent for p in feedback.packets if p.received], default=0.0)"
_ON_SENT = "def on_sent(self, now, packet): self.seen += packet.size"


def _python_control(feedback: str = _SCALARS, more: str = "") -> float:
    """Speed of a call whose controls in Python send at one rate, against the control that does so in Rust."""
    from rtclab import _native, own_controls

    took = []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "control.py"
        file.write_text(_CONTROL.format(feedback=feedback, more=more))
        for control in ("fixed", f"{file}:Control"):
            scenario = _first_call("record=seconds", f"congestion_control.name={control}")
            config, own = json.dumps(scenario.native(seed=1)), scenario.owned_controls()

            def run(config: str = config, own: Any = own) -> object:
                return _native.simulate(config, 1, own_controls.factories(own, 1) or None)

            took.append(_least_cpu_s(run))
    return took[0] / took[1]


def _meeting_cost(people: int) -> float:
    """What ``rtclab run`` of a meeting of 30 s costs, against 1.5 times its simulation and a second."""
    from rtclab.backend.sim import SimBackend

    scenario = _many(people, _SFU, 30, record="packets")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        simulating_s = _cpu_s(lambda: SimBackend().run(scenario, seed=1, repeat=0, out=out))
        file = out / "meeting.toml"
        file.write_text(scenario.to_toml())
        command = [sys.executable, "-m", "rtclab", "run", str(file), "--repeats", "1", "--out", directory]
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
    children_s = after.children_user + after.children_system
    whole_s = children_s - before.children_user - before.children_system
    return whole_s / (1.5 * simulating_s + 1)


WORKERS: dict[str, Callable[[], float]] = {
    "seconds": lambda: _rate(_first_call("record=seconds")),
    "packets": lambda: _rate(_first_call("record=packets")),
    "write-seconds": lambda: _write_cost("seconds"),
    "write-packets": lambda: _write_cost("packets"),
    "bottleneck": lambda: _rate(_many(20, _pairs(10), 30, _BOTTLENECK)),
    "sfu": lambda: _cost_per_flow(32, "sfu") / _cost_per_flow(4, "sfu"),
    "mesh": lambda: _cost_per_flow(32, "p2p") / _cost_per_flow(4, "p2p"),
    "mesh-memory": lambda: _peak_mb(_many(32, "", 20)),
    "sfu-50": lambda: _rate_once(_many(50, _SFU, 60)),
    "sfu-50-memory": lambda: _peak_mb(_many(50, _SFU, 60)),
    "mesh-threads": _threads_gain,
    "long-memory": lambda: _peak_mb(_first_call("duration=300 s")),
    "python-control": _python_control,
    "python-control-packets": lambda: _python_control(_PACKETS),
    "python-control-sent": lambda: _python_control(_SCALARS, _ON_SENT),
    "environment": _environment_steps,
    "sweep": _sweep_rate,
    "sweep-task": _sweep_overhead,
    "sweep-measuring": _sweep_measuring_ms,
    **{f"meeting-{people}": partial(_meeting_cost, people) for people in MEETINGS},
}
"""How each figure is measured. Those of :data:`FIGURES` only use functions that older commits have too."""


def _pages() -> list[tuple[str, str, str]]:
    """Size of each page of the gallery, and how long Chromium takes to open it."""
    from rtclab.backend.live.browsers.launch_options import find_chromium

    sys.path.insert(0, str(HERE.parents[1] / "docs" / "_ext"))
    gallery = importlib.import_module("gallery")
    text = (HERE.parents[1] / "docs" / "gallery.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        gallery.follow(text, Path(folder))
        pages = {one.title.lower(): Path(folder) / one.file for one in gallery.examples_of(text)}
        rows = [
            (f"page of {title}", f"{page.stat().st_size / 1e6:.2f}", "MB") for title, page in pages.items()
        ]
        if find_chromium() is None or shutil.which("chromedriver") is None:
            return [*rows, ("opening pages", "not measured: no chromium with chromedriver", "")]
        opened_s = _opening_s(list(pages.values()))
    return rows + [
        (f"opening the page of {title}", f"{took_s:.2f}", "s")
        for title, took_s in zip(pages, opened_s, strict=True)
    ]


def _opening_s(pages: list[Path]) -> list[float]:
    """The median time in s from opening each page in Chromium until it has loaded."""
    from selenium import webdriver

    from rtclab.backend.live.browsers.launch_options import find_chromium

    options = webdriver.ChromeOptions()
    options.binary_location = find_chromium() or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    took_ms = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    with webdriver.Chrome(options=options, service=service) as browser:
        found = []
        for page in pages:
            rounds = []
            for _ in range(ROUNDS):
                browser.get(page.as_uri())
                rounds.append(browser.execute_script(took_ms) / 1000)
            found.append(statistics.median(rounds))
    return found


def _emulator() -> list[tuple[str, str, str]]:
    from rtclab.errors import RtclabError

    try:
        from tools.emulator import bench_emulator

        figures = bench_emulator()
        disciplines = {aqm: bench_emulator(aqm=aqm) for aqm in ("fq_codel", "dualpi2")}
    except (ImportError, RtclabError) as error:
        return [("emulator", f"not measured: {error}", "")]
    except TypeError:  # an older commit has no disciplines
        disciplines = {}
    link = "emulator at 100 Mbit/s"
    delays = {"median": "p50", "99th percentile": "p99", "largest": "max"}
    rows = [(f"{link}: delivered rate off by", f"{100 * figures['delivered_rate_error']:.3f}", "%")]
    for name, key in delays.items():
        rows.append((f"{link}: added delay, {name}", f"{figures[f'added_delay_{key}_ms']:.3f}", "ms"))
    for aqm, own in disciplines.items():
        p99 = f"{own['added_delay_p99_ms']:.3f}"
        rows.append((f"{link}, {aqm}: added delay, 99th percentile", p99, "ms"))
    return rows


def _live_call() -> list[tuple[str, str, str]]:
    """Time of the whole command of a live call, and the CPU time of the emulator's threads meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "live.toml"
        file.write_text(_LIVE_CALL)
        options = ["--backend", "live", "--repeats", "1", "--no-report", "--out", folder]
        began_s = time.monotonic()
        command = [sys.executable, "-m", "rtclab", "run", str(file), *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            readings = []
            while process.poll() is None:
                readings.append((time.monotonic(), _emulator_threads_s(process.pid)))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
            took_s = time.monotonic() - began_s
            assert process.stderr is not None
            said = process.stderr.read().decode().strip()
        if process.returncode:
            return [("live call", f"not measured: {said}", "")]
    known = [(at_s, cpu_s) for at_s, cpu_s in readings if cpu_s]
    (first_s, first), (last_s, last) = known[0], known[-1]
    rows = [(f"live call of {LIVE_CALL_S} s: whole command", f"{took_s:.1f}", "s")]
    for name in sorted(last):
        share = (last[name] - first.get(name, 0.0)) / (last_s - first_s)
        rows.append((f"emulator at 2 x 5 Mbit/s: thread {name}", f"{100 * share:.1f}", "% of a core"))
    return rows


def _emulator_threads_s(pid: int) -> dict[str, float]:
    """CPU time so far of the emulator's threads in the descendants of a process, by name."""
    import psutil

    found: dict[str, float] = {}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    for process in psutil.Process(pid).children(recursive=True):
        for thread in Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                name = (thread / "comm").read_text().strip()
                times = (thread / "stat").read_text().rpartition(")")[2].split()[11:13]
            except OSError:
                continue  # it has ended
            if name.startswith("rtclab-"):
                found[name] = tick_s * sum(map(int, times))
    return found


if __name__ == "__main__":
    main()
