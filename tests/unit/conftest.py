"""Fixtures that several files use."""

from __future__ import annotations

from pathlib import Path

import pytest
import stub_backend
from command_line import Result, Rtclab
from stub_backend import StubBackend

from rtclab.backend import backends
from rtclab.cli import main


@pytest.fixture
def rtclab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rtclab:
    """Runs a command line in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return Result(ended.value.code, out, err)

    return run


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """A backend that is known by the name ``stub``."""
    made = StubBackend()
    monkeypatch.setattr(stub_backend, "TheStub", lambda: made, raising=False)
    monkeypatch.setitem(backends._HOME, "stub", ("stub_backend", "TheStub"))
    return made
