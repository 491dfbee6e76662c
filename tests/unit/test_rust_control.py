"""A library of the user's own, with a congestion control in Rust, in place of rtclab's native module."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rtclab
from rtclab import _native

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "examples" / "rust-control"
TARGET = ROOT / "target" / "rust-control"
LOG = ROOT / "tests" / "unit" / "event_logs" / "event-log-alice-bob.log"
DELAY_AND_RATE = """
import rtclab
from rtclab.fingerprint import code_digest
means = []
for name in {names}:
    changes = {{"control": name, "duration": "40 s", "link.up.queue": "2 s"}}
    trace = rtclab.simulate(rtclab.Scenario.load("first-call", changes))
    packets = trace.table("packets").filter(flow="alice->bob", protocol="rtp")
    packets = packets.filter((packets["sent_ns"] > 15e9) & packets["delivered_ns"].is_not_null())
    delay_ms = (packets["delivered_ns"] - packets["sent_ns"]).mean() / 1e6
    means.append([delay_ms, packets["size_bytes"].sum() * 8 / 25 / 1e3])
print(*means, code_digest(), sep="\\n")
"""


def quick_build() -> dict[str, str]:
    """Variables with which cargo builds the template where its page does, and does not make it fast."""
    return {
        "CARGO_BUILD_BUILD_DIR": str(TARGET),
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
    }


@pytest.fixture(scope="module")
def library() -> Path:
    """The library of the template, built like any crate outside of the workspace."""
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(TARGET)]
    subprocess.run(command, cwd=CRATE, check=True, env=os.environ | quick_build())
    return TARGET / "release" / "libmy_control.so"


def python(library: Path | None, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A new process of Python, because this one has its native module already."""
    package = str(Path(rtclab.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": package, "COLUMNS": "200"}
    if library:
        environment["RTCLAB_NATIVE"] = os.path.relpath(library, cwd)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=cwd
    )


def command(library: Path | None, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return python(library, "-m", "rtclab", *arguments, cwd=cwd)


def simulated(library: Path | None, *names: str) -> tuple[list[tuple[float, float]], str]:
    """Mean delay in ms and rate in kbit/s of a direction, for each control; and the digest of the code."""
    done = python(library, "-c", DELAY_AND_RATE.format(names=names))
    assert done.returncode == 0, done.stderr
    *means, digest = done.stdout.splitlines()
    return [tuple(json.loads(mean)) for mean in means], digest


def test_the_page_has_the_code_of_the_template() -> None:
    page = (ROOT / "docs" / "rust-control.md").read_text()
    blocks = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    assert blocks["src/lib.rs"] == (CRATE / "src" / "lib.rs").read_text()
    cargo = (CRATE / "Cargo.toml").read_text()
    for line in blocks["Cargo.toml"].splitlines():
        assert f"{line}\n" in cargo


def test_the_template_has_the_libraries_with_which_rtclab_is_tested() -> None:
    def versions(file: Path) -> set[tuple[str, str]]:
        return set(re.findall(r'^name = "(.*)"\nversion = "(.*)"$', file.read_text(), re.MULTILINE))

    assert versions(CRATE / "Cargo.lock") - versions(ROOT / "Cargo.lock") == {("my-control", "0.1.0")}


def test_its_option_decides_how_long_packets_wait(library: Path) -> None:
    """The way takes 50 ms, a packet of 1200 bytes 10 ms more at 1 Mbit/s.

    At most 0.3 s pass before a queue is seen. By then a rate that is 4 to 8 % too high adds up to 24 ms.
    """
    (short, long), _ = simulated(library, "budget,budget_ms=20", "budget,budget_ms=200")
    assert 50 + 10 < short[0] < 50 + 10 + 20 + 2 * 24
    assert 50 + 10 + 200 / 4 < long[0] < 50 + 10 + 200 + 2 * 24
    for _, rate_kbps in (short, long):
        assert 600 < rate_kbps <= 1000


def test_rtclabs_own_controls_are_the_same_and_the_code_counts_as_another(library: Path) -> None:
    ours, our_digest = simulated(None, "goog-cc")
    others, digest = simulated(library, "goog-cc")
    assert ours == others
    assert our_digest != digest


def test_it_is_listed_with_its_summary_and_its_option(library: Path) -> None:
    listed = json.loads(command(library, "list", "--controls", "--json").stdout)
    assert [one["name"] for one in listed[:-1]] == _native.CONGESTION_CONTROLS
    assert listed[-1]["name"] == "budget"
    assert listed[-1]["summary"].startswith("rises by 4 % and falls by 15 %")
    assert listed[-1]["options"] == [
        {
            "name": "budget_ms",
            "meaning": "queuing delay in ms above which the rate falls; 50 without the option",
            "least": 1.0,
            "most": 1000.0,
        }
    ]


@pytest.mark.parametrize(
    ("control", "text"),
    [
        ("budget,limit=3", "options.limit: `budget` has no such option; expected one of `budget_ms`"),
        ("budget,budget_ms=0", "options.budget_ms: 0 is out of bounds; expected 1 to 1000"),
    ],
)
def test_its_options_are_checked_by_its_own_names(
    control: str, text: str, library: Path, tmp_path: Path
) -> None:
    done = command(library, "run", "first-call", "--control", control, "--duration", "1s", cwd=tmp_path)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_control_in_a_file_runs_beside_it(library: Path, tmp_path: Path) -> None:
    """The process of the control in the file has the library too."""
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, bounds): pass\n"
        "    def on_feedback(self, now, feedback): return 2e5\n"
    )
    names = ["--control", "budget", "--set", "participants.bob.control=mine.py:Mine"]
    done = command(
        library, "run", "first-call", *names, "--duration", "5s", "--repeats=2", "--no-report", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_an_environment_has_it_in_the_world(library: Path) -> None:
    code = (
        "import rtclab, rtclab.gym\n"
        "changes = {'duration': '3 s', 'participants.bob.control': 'budget'}\n"
        "env = rtclab.gym.CallEnv(rtclab.Scenario.load('first-call', changes), participant='alice')\n"
        "print(env.reset(seed=1)[0].shape)"
    )
    done = python(library, "-c", code)
    assert done.stdout == "(150,)\n", done.stderr


def test_it_is_replayed(library: Path) -> None:
    done = command(library, "replay", str(LOG), "--control", "budget", "--json")
    assert done.returncode == 0, done.stderr
    assert "budget" in done.stdout


def no_library(what: str, folder: Path) -> Path:
    """A file that cannot be used instead of the native module."""
    import _ctypes

    file = folder / "lib.so"
    if what == "a text":
        file.write_text("text")
    elif what == "another module":
        file.write_bytes(Path(_ctypes.__file__).read_bytes())
    return file


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("nothing", "no file `{}`\n  hint: `cargo build --release` makes it in target/release"),
        ("a text", "`{}` cannot be loaded: "),
        ("another module", "`{}` cannot be loaded: dynamic module does not define module export function"),
    ],
)
def test_what_is_no_library_of_rtclab_is_refused_by_its_name(what: str, reason: str, tmp_path: Path) -> None:
    file = no_library(what, tmp_path)
    done = command(file, "list", "--controls")
    assert done.returncode == 2
    assert done.stderr.startswith(f"RTCLAB_NATIVE: {reason.format(file)}")
    assert "without RTCLAB_NATIVE, rtclab has its own controls" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_library_of_another_version_is_refused(library: Path) -> None:
    code = "import rtclab.cli; rtclab.__version__ = '9.9.9'; rtclab.cli.main(['list', '--controls'])"
    done = python(library, "-c", code)
    assert done.returncode == 2
    version = f"is from rtclab {_native.VERSION}; expected 9.9.9, the version of this rtclab"
    assert done.stderr.startswith(f"RTCLAB_NATIVE: `{library}` {version}")
