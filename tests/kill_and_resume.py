"""Kills an experiment at random moments, resumes it, and compares its rows with those of an undisturbed one.

    python tests/kill_and_resume.py                    # a sweep and a simulated run, 20 kills each
    python tests/kill_and_resume.py --backend live     # a live run
    python tests/kill_and_resume.py reproduce --kills 5

Each trial starts the command in a new directory and kills its process (SIGKILL) at a random moment, and so up
to three times when it is resumed. Once it has ended by itself, every repeat must be there once, with the
values of the undisturbed one. Live calls differ from each other, so of them only the repeats are compared.
Prints a row for each trial; the exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.experiment import Results, stores

RTCLAB = [sys.executable, "-m", "rtclab"]
KEYS = ["condition", "repeat", "metric", "flow"]


@dataclass(frozen=True)
class Kind:
    """A command, how to resume it, and what it leaves.

    Attributes:
        begin: arguments of the command, for a directory.
        resume: arguments that continue it.
        rows: what is compared with the undisturbed one.
    """

    begin: Callable[[Path], list[str]]
    resume: Callable[[Path], list[str]]
    rows: Callable[[Path], pl.DataFrame]


def values(place: Path) -> pl.DataFrame:
    """The values of the only results in a directory."""
    results = only_results(place)
    outcomes = results.outcomes()
    rows = results.metrics()
    assert rows.select(KEYS).is_duplicated().sum() == 0, "a value is there twice"
    assert outcomes.select("condition", "repeat").is_duplicated().sum() == 0, "a repeat is there twice"
    if results.drawn_over_time:
        assert len(results.traces) == results.finished, "a trace is missing"
        assert all(trace.table("flow_seconds").height > 0 for trace in results.traces)
    return rows


def repeats(place: Path) -> pl.DataFrame:
    """The repeats of the only results in a directory, which have values."""
    values(place)
    return only_results(place).outcomes().select("condition", "repeat", "seed", "status")


def only_results(place: Path) -> Results:
    (path,) = stores(place)
    return Results(path)


def reproduced(place: Path) -> pl.DataFrame:
    """The page and the numbers of a reproduction, and the values of its experiment."""
    files = sorted(file for kind in ("json", "html") for file in place.rglob(f"*.{kind}"))
    found = [(file.relative_to(place).as_posix(), file.read_text()) for file in files]
    # Flows and measures are in the order in which they became known.
    found.append(("values", values(place).sort(KEYS).write_csv()))
    return pl.DataFrame(found, schema=["file", "text"], orient="row")


def of_experiment(command: list[str], rows: Callable[[Path], pl.DataFrame] = values) -> Kind:
    def resume(place: Path) -> list[str]:
        # Killed before there was a store, it begins again.
        known = stores(place)
        again = [command[0], "--resume", str(known[0])] if known else command
        return [*again, "--out", str(place), "--no-report"]

    return Kind(lambda place: [*command, "--out", str(place), "--no-report"], resume, rows)


SWEEP = ["sweep", "first-call", "--vary", "link.up.loss=0..5 % x4", "--repeats", "25", "--duration", "20s"]
RUN = ["run", "first-call", "--repeats", "30", "--duration", "20s"]
LIVE = ["run", "first-call", "--repeats", "3", "--duration", "8s", "--backend", "live"]


def again(place: Path) -> list[str]:
    return ["reproduce", "jansen2017", "--repeats", "1", "--out", str(place)]


def kinds(backend: str, what: list[str]) -> dict[str, Kind]:
    """What was asked for, or else all that the backend can do."""
    if backend == "live":
        return {"live run": of_experiment(LIVE, repeats)}
    known = {"sweep": of_experiment(SWEEP), "run": of_experiment(RUN)}
    if "reproduce" in what:
        known["reproduce"] = Kind(again, again, reproduced)
    return {name: kind for name, kind in known.items() if name in what}


def run(arguments: list[str], kill_after_s: float | None) -> bool:
    """Runs a command, and kills it after a time; returns whether it ended by itself."""
    process = subprocess.Popen([*RTCLAB, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = process.communicate(timeout=kill_after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{said.decode()}")
    return True


def trial(kind: Kind, place: Path, took_s: float, chance: random.Random) -> tuple[list[float], pl.DataFrame]:
    """Begins, kills and resumes until nothing is left; returns the moments of the kills, and the rows."""
    moments, arguments = [], kind.begin(place)
    while True:
        moment = chance.uniform(0.02, 0.98) * took_s
        # After three kills it may end.
        if run(arguments, moment if len(moments) < 3 else None):
            return moments, kind.rows(place)
        moments.append(moment)
        arguments = kind.resume(place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*", help="sweep, run, reproduce; by default the first two")
    parser.add_argument("--backend", choices=["sim", "live"], default="sim")
    parser.add_argument("--kills", type=int, default=20, help="number of kills of each")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments")
    asked = parser.parse_args()
    asked.what = asked.what or ["sweep", "run"]
    if asked.backend == "live":
        ready = subprocess.run([*RTCLAB, "doctor"], capture_output=True, text=True, check=False)
        if ready.returncode:
            print(f"skipped: this machine cannot make live calls\n{ready.stdout}")
            return 0
    papers = [*RTCLAB, "reproduce", "--papers"]
    if "reproduce" in asked.what and subprocess.run(papers, capture_output=True, check=False).returncode:
        print("skipped: there is no command `rtclab reproduce`")
        asked.what.remove("reproduce")
    chance, different = random.Random(asked.seed), 0
    print(f"{'what':10} {'trial':>5} {'killed after (s)':30} {'rows':>6}  same")
    for name, kind in kinds(asked.backend, asked.what).items():
        with tempfile.TemporaryDirectory(prefix="rtclab-kill-") as directory:
            whole = Path(directory) / "whole"
            begun = time.monotonic()
            run(kind.begin(whole), None)
            took_s = time.monotonic() - begun
            expected = kind.rows(whole)
            print(f"{name:10} {'-':>5} {f'not: it took {took_s:.1f} s':30} {expected.height:6}")
            number = kills = 0
            while kills < asked.kills:
                place = Path(directory) / str(number)
                moments, rows = trial(kind, place, took_s, chance)
                number, kills = number + 1, kills + len(moments)
                same = rows.equals(expected)
                different += not same
                told = ", ".join(f"{moment:.1f}" for moment in moments)
                print(f"{name:10} {number:5} {told or 'ended before':30} {rows.height:6}  {same}", flush=True)
                shutil.rmtree(place)
    print(f"{different} of the trials differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
