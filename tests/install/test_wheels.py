"""The wheels and the sdist have all files, and run where nothing of the repository is.

With ``RTCLAB_DIST`` the files in that directory are tested, as `make dist` does; otherwise an sdist and a
wheel that is built as `make setup` builds, without a profile.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import rtclab
import rtclab_papers

ROOT = Path(__file__).parents[2]
MATURIN = [sys.executable, "-m", "maturin"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
WHEELHOUSE = ROOT / "target" / "wheelhouse"
"""What rtclab and its papers depend on; `make setup-dev` downloads it."""
IN_A_BARE_NAMESPACE = """
mount --bind "$WHEELHOUSE" wheelhouse
mount -t tmpfs nothing "$ROOT"
"$PYTHON" -m venv venv
venv/bin/pip install --quiet --no-compile --no-index --find-links wheelhouse wheels/*
export PATH="$PWD/venv/bin:$PATH"
"""
"""The first lines of a script without a network and without the repository, but with rtclab installed."""


def git_files(folder: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.split("\0") if name}


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist and the wheels."""
    if "RTCLAB_DIST" in os.environ:
        return Path(os.environ["RTCLAB_DIST"])
    made, built = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("built")
    quick = ["--release", "--locked", "--compatibility", "linux", "--interpreter", sys.executable]
    offline = ["--no-index", "--find-links", str(WHEELHOUSE)]
    commands = [
        [*MATURIN, "sdist", "--out", str(made)],
        [*MATURIN, "build", "--quiet", *quick, "--out", str(built)],
        [*PIP, "wheel", *offline, "--no-deps", "--wheel-dir", str(made), str(ROOT / "papers")],
    ]
    for command in commands:
        subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = built.glob("*.whl")
    program = shutil.which(Path(sys.executable).with_name("rtclab-sfu"))
    assert program is not None, "`make setup-dev` builds it"
    add = [str(ROOT / "packaging" / "add_program.sh"), str(wheel), program, str(made)]
    subprocess.run(add, env=os.environ | {"PYTHON": sys.executable}, check=True, stdout=subprocess.DEVNULL)
    return made


def wheels_of(dist: Path, distribution: str) -> list[Path]:
    found = sorted(dist.glob(f"{distribution}-*.whl"))
    assert found, f"no wheel of {distribution}"
    return found


def test_all_have_the_version_of_cargo(dist: Path) -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert {path.name.split("-")[1].removesuffix(".tar.gz") for path in dist.iterdir()} == {version}
    assert rtclab.__version__ == rtclab_papers.__version__ == version


def test_wheels_have_every_file_of_their_package(dist: Path) -> None:
    own = {name.removeprefix("python/") for name in git_files("python/rtclab")}
    for wheel in wheels_of(dist, "rtclab"):
        names = set(ZipFile(wheel).namelist())
        files = {name for name in names if name.startswith("rtclab/")}
        assert own <= files, wheel.name
        assert files - own in ({"rtclab/_native.abi3.so"}, {"rtclab/_native.pyd"}), wheel.name
        sfu = any(name.endswith(".data/scripts/rtclab-sfu") for name in names)
        assert sfu == ("linux" in wheel.name), wheel.name
    (papers,) = wheels_of(dist, "rtclab_papers")
    files = {name for name in ZipFile(papers).namelist() if name.startswith("rtclab_papers/")}
    assert files == {name.removeprefix("papers/") for name in git_files("papers/rtclab_papers")}


def test_wheels_have_the_plugin_of_pytest(dist: Path) -> None:
    for wheel in wheels_of(dist, "rtclab"):
        with ZipFile(wheel) as files:
            (name,) = [name for name in files.namelist() if name.endswith(".dist-info/entry_points.txt")]
            points = "".join(files.read(name).decode().split())
        assert "[pytest11]rtclab=rtclab.pytest_plugin" in points


def test_the_sdist_has_all_that_a_build_needs(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    expected = git_files("python") | {
        name
        for crate in ("core", "emu", "extension", "python")
        for name in git_files(f"crates/rtclab-{crate}")
        if "/src/" in name or "Cargo" in name
    }
    assert expected | {"Cargo.lock", "LICENSE", "README.md", "pyproject.toml"} <= there
    metadata = ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]
    subprocess.run(metadata, cwd=root, check=True, stdout=subprocess.DEVNULL)


def bare(dist: Path, here: Path, script: str) -> str:
    """Runs a script in a directory where the wheels are installed, without network and repository."""
    (here / "wheels").mkdir()
    (here / "wheelhouse").mkdir()
    for wheel in dist.glob("*.whl"):
        if re.search(rf"linux.*_{os.uname().machine}|none-any", wheel.name):
            shutil.copy(wheel, here / "wheels")
    known = {"WHEELHOUSE": str(WHEELHOUSE), "ROOT": str(ROOT), "PYTHON": sys._base_executable}
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "sh",
            "-euc",
            IN_A_BARE_NAMESPACE + script,
        ],
        cwd=here,
        env=kept | known,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_call_runs_where_only_the_wheels_are(dist: Path, tmp_path: Path) -> None:
    out = bare(
        dist,
        tmp_path,
        """
        ! ls "$ROOT"/README.md 2>&-
        rtclab run first-call --duration 10s
        rtclab doctor || true
        rtclab reproduce --papers
        rtclab-sfu 2>&1 || true
        """,
    )
    assert "(5 of 5 repeats finished)" in out
    assert re.search(r"ok +rtclab-sfu +\S+/venv/bin/rtclab-sfu", out)
    assert "pip install aiohttp av cryptography psutil pyroute2 segno scikit-video" in out
    assert "singh2013" in out
    assert (tmp_path / "runs" / "first-call-sim-1" / "report.html").stat().st_size > 100_000


@pytest.mark.skipif("RTCLAB_DIST" not in os.environ, reason="needs wheels of `make dist`")
def test_the_tags_of_the_wheels_hold(dist: Path, tmp_path: Path) -> None:
    """Linux: the versions of glibc's symbols, in the module and in the SFU. Elsewhere: the libraries."""
    readobj = next(Path(rustc("--print", "sysroot")).rglob("llvm-readobj"))
    for wheel in wheels_of(dist, "rtclab"):
        if "manylinux" in wheel.name:
            tag = wheel.stem.split(".")[-1]
            show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
            said = subprocess.run(show, capture_output=True, text=True, check=True).stdout
            assert f'consistent with the following platform tag:\n"{tag}"' in said, said
            continue
        home = tmp_path / wheel.stem
        ZipFile(wheel).extractall(home)
        (module,) = (home / "rtclab").glob("_native.*[!i]")
        listed = subprocess.run(
            [readobj, "--needed-libs", module], capture_output=True, text=True, check=True
        ).stdout
        needed = set(re.search(r"NeededLibraries \[\n(.*?)\]", listed, re.DOTALL)[1].split())  # type: ignore[index]
        macos = r"/usr/lib/lib(System\.B|iconv\.2|charset\.1)\.dylib|@rpath/rtclab\._native\.abi3\.so"
        system = macos if "macosx" in wheel.name else r"(?!lib).*\.dll"
        assert {name for name in needed if not re.fullmatch(system, name)} == set(), wheel.name
        assert b"PyInit__native" in module.read_bytes()
        if "win" in wheel.name:
            assert {name for name in needed if name.startswith("python")} == {"python3.dll"}, wheel.name


@pytest.mark.skipif("RTCLAB_DIST" not in os.environ, reason="takes minutes; `make dist` does it")
def test_the_sdist_builds(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    build = [*PIP, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist)]
    subprocess.run(build, cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "rtclab/_native.abi3.so" in ZipFile(wheel).namelist()


def rustc(*arguments: str) -> str:
    return subprocess.run(["rustc", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_no_text_installs_what_is_not_published() -> None:
    unpublished = re.compile(r"pip install" + r"( -\S+)* ['\"]?rtclab(-papers)?(?![-\w])")
    for name in git_files("."):
        if Path(name).suffix in {".md", ".py", ".toml", ".ipynb", ".rs", ""} and (ROOT / name).is_file():
            assert not unpublished.search((ROOT / name).read_text(errors="replace")), name


def test_the_container_has_what_make_setup_live_installs() -> None:
    container, makefile = (ROOT / "Containerfile").read_text(), (ROOT / "Makefile").read_text()
    live = set(re.search(r"^LIVE_PACKAGES := (.*)", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    only_for_tests = {"tshark", "chromium-driver"}
    installed = re.search(r"python3-venv(.*?)&&", container, re.DOTALL)[1].replace("\\", "").split()  # type: ignore[index]
    assert set(installed) == live - only_for_tests
