"""Whether this tree simulates the same bytes as another commit, for half a hundred configurations.

``make same-bytes BASE=COMMIT`` prints a line for each configuration that differs, with the first columns that
do, and ends with 1 if there is one. Together the configurations have every topology, stack, control, kind of
queue and path, cross traffic, and both levels of detail.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
TREE = HERE.parents[1]

BUNDLED = (
    "first-call",
    "tcp-vs-kernel",
    "examples/burst-loss",
    "examples/cascaded-mcu",
    "examples/loss-trace",
    "examples/mcu",
    "examples/mixing-mcu",
    "examples/mobile-3g",
    "examples/mobile-trace",
    "examples/nat-direct",
    "examples/nat-mesh",
    "examples/nat-relay-over-tcp",
    "examples/parallel-calls",
    "examples/relay",
    "examples/sfu",
    "examples/tree",
    "examples/wifi-adaptive-retries",
    "examples/wifi",
    "rfc8867/5.1",
    "sim-vs-live/500kbit",
    "sim-vs-live/loss",
)
LONGEST_NS = 120_000_000_000
"""Longer runs are cut off here."""
PAPERS = {"singh2013": 6, "abello2013": 4, "jansen2017": 6, "iqbal": 6}
"""Every how many-th condition of each paper is simulated."""

CONTROLS = (
    "goog-cc",
    "remb",
    "fixed",
    "rrtcc-2013",
    "gcc-2016",
    "dynamic-alpha",
    "fixed-alpha",
    "nada",
    "scream",
)

MESH = """
name = "mesh"
duration = "15 s"
[video]
[audio]
[participants.a]
[participants.b]
[participants.c]
join = "2 s"
leave = "11 s"
[link]
up = { capacity = "1.5 Mbit/s", delay = "20 ms", queue = "200 ms", loss = "1 %" }
down = { capacity = "2 Mbit/s", delay = "15 ms", queue = "20 packets", jitter = "2 ms" }
"""
TRAFFIC = """
name = "traffic"
duration = "20 s"
[video]
[audio]
[participants.a]
[participants.b]
[link]
up = { capacity = "3 Mbit/s", delay = "20 ms", queue = "100 packets" }
down = { capacity = "3 Mbit/s", delay = "20 ms", queue = "60000 B" }
[traffic.there]
sender = "a"
receiver = "b"
flows = 2
start = "3 s"
end = "15 s"
"""
MEETING = """
[video]
max_bitrate = "400 kbit/s"
[audio]
[link]
up = { capacity = "1 Mbit/s", delay = "20 ms", queue = "300 ms" }
down = { capacity = "3 Mbit/s", delay = "30 ms", queue = "300 ms", loss = "2 %" }
"""
SFU = """
[[calls]]
kind = "sfu"
"""
LATE = """
[participants.late]
join = "3 s"
leave = "6 s"
"""
"""Joins and leaves a meeting in which nodes have fallen into parts."""


def configurations() -> dict[str, tuple[str, list[str]]]:
    """By label a scenario, as a name or a text, and its changes."""
    found: dict[str, tuple[str, list[str]]] = {}
    for name in BUNDLED:
        found[name] = (name, ["record=packets"])
    for control in CONTROLS:
        text = MESH + f'[congestion_control]\nname = "{control}"\n'
        found[f"mesh, {control}"] = (text, ["record=packets"])
        found[f"first-call, {control}"] = (
            "first-call",
            [f"congestion_control.name={control}", "record=seconds"],
        )
    for algorithm in ("newreno", "cubic", "bbr"):
        text = TRAFFIC + f'congestion_control = "{algorithm}"\n'
        found[f"traffic, {algorithm}"] = (text, ["record=packets"])
    found["traffic, UDP"] = (TRAFFIC + 'protocol = "udp"\nrate = "2 Mbit/s"\n', ["record=packets"])
    found["SFU of eight"] = (_meeting(8, 12) + SFU, ["record=packets"])
    # Meetings of so many ends go in windows on one thread, too.
    found["SFU of fourteen"] = (_meeting(13, 8) + LATE + SFU, ["record=packets"])
    found["mesh of seventeen"] = (_meeting(16, 8) + LATE, ["record=packets"])
    return found


def _meeting(people: int, seconds: int) -> str:
    names = "".join(f"[participants.p{number}]\n" for number in range(people))
    return f'name = "meeting"\nduration = "{seconds} s"\n{names}{MEETING}'


def papers(every: dict[str, int]) -> dict[str, tuple[str, list[str]]]:
    """Conditions of the papers."""
    found: dict[str, tuple[str, list[str]]] = {}
    for paper, step in every.items():
        files = sorted((TREE / "papers").glob(f"rtclab_papers/**/{paper}/*.toml"))
        for file in [file for file in files if _runs(file.read_text())][::step]:
            found[f"{paper}/{file.stem}"] = (str(file), ["record=seconds"])
    return found


def _runs(text: str) -> bool:
    """Whether a file is a scenario, and not a profile that others extend."""
    return "\nname = " in f"\n{text}" and "\nprofile = true" not in f"\n{text}"


def digests(wanted: dict[str, tuple[str, list[str]]]) -> dict[str, dict[str, str]]:
    """By configuration a digest of each column, or the error under the name "error"."""
    found = {}
    for label, (scenario, changes) in wanted.items():
        try:
            found[label] = _digests(scenario, changes)
        except Exception as error:  # an older commit may refuse what a newer one allows
            found[label] = {"error": str(error)}
    return found


def _digests(text: str, changes: list[str]) -> dict[str, str]:
    from rtclab import _native
    from rtclab.scenario import Scenario

    with tempfile.TemporaryDirectory() as folder:
        scenario: str | Path = text
        if "\n" in text:
            scenario = Path(folder) / "scenario.toml"
            scenario.write_text(text)
        elif text.endswith(".toml"):
            scenario = Path(text)
        native = Scenario.load(scenario, changes).native(seed=7)
    native["duration_ns"] = min(int(str(native["duration_ns"])), LONGEST_NS)
    own = _columns(_native.simulate(json.dumps(native)))
    if "threads" in str(_native.simulate.__doc__):  # older commits have one thread
        on_two = _columns(_native.simulate(json.dumps(native), threads=2))
        if on_two != own:
            raise AssertionError("two threads simulate other bytes than one")
    tables, capture, descriptions = _native.simulate_captured(json.dumps(native))
    # Runs with a capture go event after event, others node after node where they can.
    captured = {f"captured {name}": digest for name, digest in _columns(tables).items()}
    return own | captured | {"capture": _digest_of(capture + descriptions.encode())}


def _columns(tables: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {
        f"{table}.{column}": _digest(values)
        for table, columns in tables.items()
        for column, values in columns.items()
    }


def _digest(values: Any) -> str:
    """A digest of a column. Text is compared as text, because its codes may differ."""
    if isinstance(values, tuple):
        codes, texts = values
        data = "\0".join(texts[code] if code < len(texts) else "\1" for code in codes.tolist()).encode()
    else:
        data = values.tobytes()
    return _digest_of(data)


def _digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def main() -> int:
    """Compares two trees; as a worker, prints the digests of the rtclab that it imports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, help="checkout of another commit with its native module built")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(digests(json.load(sys.stdin))))
        return 0
    wanted = configurations() | papers(PAPERS)
    trees = [TREE / "python", options.base / "python"]
    own, base = map(json.loads, _run_workers(trees, json.dumps(wanted)))
    different = [label for label in wanted if own[label] != base[label] or "error" in own[label]]
    for label in different:
        columns = own[label].keys() | base[label].keys()
        unequal = sorted(name for name in columns if own[label].get(name) != base[label].get(name))
        print(f"{label}: {', '.join(unequal[:6])}{' …' if len(unequal) > 6 else ''}")
        for tree, found in (("this tree", own), ("base", base)):
            if "error" in found[label]:
                print(f"  {tree}: {found[label]['error']}")
    print(f"{len(wanted) - len(different)} of {len(wanted)} configurations have the same bytes")
    return 1 if different else 0


def _run_workers(trees: list[Path], wanted: str) -> list[str]:
    """What a worker prints for each tree; both run at the same time."""

    def run(tree: Path) -> str:
        command = [sys.executable, "-P", str(HERE), "--worker"]
        environment = os.environ | {"PYTHONPATH": str(tree)}
        return subprocess.run(
            command, env=environment, input=wanted, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    with ThreadPoolExecutor() as pool:
        return list(pool.map(run, trees))


if __name__ == "__main__":
    sys.exit(main())
