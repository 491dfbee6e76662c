"""Counts instructions and cache misses of simulations, and compares them with limits: ``make instructions``.

Valgrind counts instructions one by one and simulates caches of the sizes below, so a figure is the same on a
busy machine, and on any processor of its kind. Only the event loop is counted. ``tools/cases`` has the
simulations, and ``tools/instructions.toml`` the limits. A figure that is further from its limit than the
margin, above or below, needs a new limit with a reason.

With ``--base COMMIT``, the same simulations run with the simulator of that commit too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = Path("tools") / "cases"
SUPPORT = Path("crates") / "rtclab-core" / "tests" / "support" / "mod.rs"
"""The configurations that cases share with tests."""
LIMITS = Path(__file__).with_suffix(".toml")
PROGRAM = "rtclab-cases"
CALLGRIND = (
    "--tool=callgrind",
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=49152,12,64",
    "--LL=2097152,16,64",
    f"--toggle-collect={PROGRAM.replace('-', '_')}::counted",
)
"""Caches by size, ways and bytes of a line. The last level stands for the L2 of a core."""
SUMS = {
    "instructions": ("Ir",),
    "d1_misses": ("D1mr", "D1mw"),
    "ll_misses": ("ILmr", "DLmr", "DLmw"),
}
"""The figures, and the events of Callgrind that each sums up."""
MARGINS = {"instructions": 0.03, "d1_misses": 0.15, "ll_misses": 0.15}
"""How far a figure may be from its limit, relative to it."""
WIDTHS = (26, 16, 20, 20, 20)
"""Characters of each column but the last."""

Figures = dict[str, float]
"""By the names of :data:`SUMS`, per unit of work."""


@dataclass(frozen=True)
class Count:
    """What a case took, and how much work it was.

    ``beyond`` names the case whose events are not part of this work, ``None`` if all are.
    """

    events: dict[str, int]
    unit: str
    units: float
    beyond: str | None = None


@dataclass(frozen=True)
class Limits:
    """The limits, and the compiler and kind of machine that they hold for."""

    rustc: str
    host: str
    cases: dict[str, Figures]


def read_limits(text: str) -> Limits:
    """The limits of a file.

    Raises:
        ValueError: a case has no reason, or a figure of an unknown name.
    """
    read = tomllib.loads(text)
    cases = {}
    for name, limit in read["cases"].items():
        if not limit.pop("reason", ""):
            raise ValueError(f"{name}: no reason")
        if unknown := limit.keys() - SUMS.keys():
            raise ValueError(f"{name}: unknown figures {sorted(unknown)}; expected some of {', '.join(SUMS)}")
        cases[name] = limit
    return Limits(read["rustc"], read["host"], cases)


def read_totals(text: str) -> dict[str, int]:
    """The total of each event in a file of Callgrind."""
    lines = dict(
        line.split(": ", 1) for line in text.splitlines() if line.startswith(("events: ", "totals: "))
    )
    return dict(zip(lines["events"].split(), map(int, lines["totals"].split()), strict=True))


def figures_of(count: Count, counts: dict[str, Count]) -> Figures:
    """What a unit of work took."""
    less = counts[count.beyond].events if count.beyond else {}
    return {
        figure: sum(count.events[event] - less.get(event, 0) for event in events) / count.units
        for figure, events in SUMS.items()
    }


def faults(figures: Figures, limits: Figures) -> list[str]:
    """What is wrong with the figures of a case. A figure without a limit is never wrong."""
    found = []
    for name, limit in limits.items():
        off = figures[name] / limit - 1
        if off > MARGINS[name]:
            found.append(f"{name} {off:.1%} above the limit")
        if off < -MARGINS[name]:
            found.append(f"{name} {-off:.1%} below: lower the limit to {figures[name]:.4g}")
    return found


def rustc() -> tuple[str, str]:
    """The release and the host of this machine's compiler."""
    said = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    fields = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    return fields["release"], fields["host"]


def not_compared(limits: Limits) -> str | None:
    """Why this machine's figures cannot be compared with the limits, ``None`` if they can."""
    release, host = rustc()
    if (release, host) == (limits.rustc, limits.host):
        return None
    return (
        f"not compared: the limits are for rustc {limits.rustc} on {limits.host}, this is {release} on {host}"
    )


def build(tree: Path, *options: str) -> Path:
    """Builds the program in a source tree with the release profile."""
    target = tree / "target"
    # With the native module's features, so that the simulator is the one that is built for it.
    same = ["-p", "rtclab-python", "--features", "pyo3/extension-module"]
    only = ["-p", PROGRAM, "--bin", PROGRAM, "--target-dir", str(target)]
    subprocess.run(["cargo", "build", "--quiet", "--release", *options, *same, *only], cwd=tree, check=True)
    return target / "release" / PROGRAM


def build_base(commit: str) -> Path:
    """Builds the program with this tree's cases and the simulator of another commit."""
    command = ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]
    digest = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    tree = ROOT / "target" / "instructions" / digest
    tree.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", digest], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    shutil.copytree(ROOT / CASES, tree / CASES, dirs_exist_ok=True)
    shutil.copy2(ROOT / SUPPORT, tree / SUPPORT)
    manifest = tree / "Cargo.toml"
    text = manifest.read_text()
    if str(CASES) not in text:
        manifest.write_text(text.replace("members = [", f'members = ["{CASES}", ', 1))
    return build(tree)


def names_of(program: Path) -> list[str]:
    """The names of the program's cases."""
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def count(program: Path, case: str) -> Count:
    """Runs a case. Neither the environment nor the directory has a part in its figures."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "callgrind.out"
        valgrind = shutil.which("valgrind") or "valgrind"
        command = [valgrind, *CALLGRIND, f"--callgrind-out-file={out}", f"./{program.name}", case]
        done = subprocess.run(
            command, cwd=program.parent, env={}, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{case}: {' '.join(command)} failed\n{done.stderr}")
        return Count(read_totals(out.read_text()), **json.loads(done.stdout))


def measured(program: Path) -> Iterator[tuple[str, str, Figures]]:
    """The name, unit and figures of each case."""
    counts: dict[str, Count] = {}
    for case in names_of(program):
        counts[case] = count(program, case)
        yield case, counts[case].unit, figures_of(counts[case], counts)


def print_row(*cells: str) -> None:
    """Prints a line of the table at once, because the next one may take half a minute."""
    widths = (*WIDTHS, 0)
    print(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip(), flush=True
    )


def cells_of(figures: Figures, others: Figures) -> list[str]:
    """Each figure, and how far it is from another one where there is one."""
    return [
        f"{value:,.{0 if abs(value) >= 100 else 2}f}"
        + (f" ({value / others[name] - 1:+.1%})" if others.get(name) else "")
        for name, value in figures.items()
    ]


def compare_with_limits(program: Path, limits: Limits) -> list[str]:
    """Prints the table of all cases with their verdicts; returns what is wrong."""
    wrong = []
    reason = not_compared(limits)
    for case, unit, figures in measured(program):
        limit = {} if reason else limits.cases.get(case, {})
        found = faults(figures, limit)
        wrong += [f"{case}: {fault}" for fault in found]
        print_row(case, unit, *cells_of(figures, limit), "; ".join(found) or ("" if reason else "ok"))
    if reason:
        print(reason)
    return wrong


def main() -> None:
    """Prints the table. Exits with 1 if a figure is too far from its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", metavar="COMMIT", help="compare with this commit, and not with the limits")
    base = parser.parse_args().base
    if shutil.which("valgrind") is None:
        sys.exit("instructions cannot be counted here: no valgrind; Debian: apt-get install valgrind")
    program = build(ROOT, "--locked")
    others = {case: figures for case, _, figures in measured(build_base(base))} if base else {}
    print_row("case", "per", "instructions", "D1 misses", "LL misses", "" if base else "verdict")
    if base:
        for case, unit, figures in measured(program):
            print_row(case, unit, *cells_of(figures, others[case]), "")
        return
    if wrong := compare_with_limits(program, read_limits(LIMITS.read_text())):
        sys.exit(
            "\n".join(
                [
                    f"\n{LIMITS.relative_to(ROOT)} needs new limits with a reason, or the code a change:",
                    *wrong,
                ]
            )
        )


if __name__ == "__main__":
    main()
