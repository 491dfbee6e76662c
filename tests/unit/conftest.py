"""Fixtures that several files use."""

from __future__ import annotations

import pytest
import stub_backend
from stub_backend import StubBackend

from rtclab import backend as backends


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """A backend that is known by the name ``stub``."""
    made = StubBackend()
    monkeypatch.setattr(stub_backend, "TheStub", lambda: made, raising=False)
    monkeypatch.setitem(backends._HOME, "stub", ("stub_backend", "TheStub"))
    return made
