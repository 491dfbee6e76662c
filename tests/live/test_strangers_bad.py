"""Pages that misbehave: they harm neither the call of others, nor the machine, nor the figures of others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl
import psutil
import pytest
from parts import BROWSERS, CALL
from strange_call import log, page, strange_call

from rtclab.trace import Repeat, Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

FORGED_SSRC = 4242
BAD = Path(__file__).parent / "strangers" / "bad"
APP = "http://app:3000/"


class Seen(NamedTuple):
    folder: Path
    repeat: Repeat
    trace: Trace
    visits: list[str]
    """Addresses from which somebody reached a socket of this machine, outside the laboratory."""


@contextmanager
def listening(visits: list[str]) -> Iterator[int]:
    """Listens at all addresses of this machine, and notes who comes."""
    server = socket.create_server(("0.0.0.0", 0))

    def accept() -> None:
        while True:
            try:
                connection, (address, _) = server.accept()
            except OSError:
                return
            visits.append(address)
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One call in which each page misbehaves in its way."""
    folder, visits = tmp_path_factory.mktemp("bad"), []
    machine = [
        one.address
        for interface in psutil.net_if_addrs().values()
        for one in interface
        if one.family is socket.AF_INET
    ]
    with listening(visits) as port:
        places = [f"{host}:{port}" for host in (*machine, "core")] + ["patcher:9222", "app:3000"]
        pages = [
            page("forger", "bad/forger.html?me=alice"),
            page("thief", f"bad/thief.html?places={','.join(places)}"),
            f"script = '{BAD / 'accomplice.py'}'\n",
            page("asker", "bad/permissions.html"),
            page("opener", "bad/popups.html"),
            "steps = [{ click = '#go' }]\n",
            page("patcher", "bad/patcher.html?me=bob"),
        ]
        run = strange_call(folder, "".join(pages), seconds=12)
    assert run.repeats[0].status == "finished", run.repeats[0].reason
    return Seen(folder, run.repeats[0], run.trace(0), visits)


def test_pages_without_a_connection_are_named(seen: Seen) -> None:
    for name in ("thief", "asker", "opener"):
        assert f"the page of {name} made no working connection" in seen.repeat.note


def test_a_page_reaches_neither_the_machine_nor_a_file_nor_the_debugger(seen: Seen) -> None:
    found = log(seen.folder, "thief")
    assert found["files"] == []
    assert seen.visits == []
    # The debugger answers, but neither can a page read the answers nor does it open a socket.
    assert set(found["answered"]) == {APP, f"{log(seen.folder, 'debugger')}/"}
    assert {address.startswith(APP) for address, _ in found["read"]} == {True}
    assert found["sockets"] == []


def test_a_page_finds_nothing_with_which_to_report(seen: Seen) -> None:
    assert log(seen.folder, "forger") == []
    for table in ("outbound_rtp", "inbound_rtp"):
        assert FORGED_SSRC not in seen.trace.table(table)["ssrc"]


def test_what_a_page_writes_to_its_console_is_kept_as_text_of_that_page(seen: Seen) -> None:
    errors = seen.trace.table("events").filter(event="console_error")
    scripts = errors.filter(pl.col("detail").str.contains("<script>", literal=True))
    assert scripts["participant"].to_list() == ["forger"]


def test_a_page_that_asks_for_everything_gets_camera_and_screen_only(seen: Seen) -> None:
    answers = log(seen.folder, "permissions")
    granted = {name for name, answer in answers.items() if "refused" not in answer and answer != "denied"}
    assert {"camera"} <= granted <= {"camera", "screen", "lock", "storage"}


def test_windows_and_dialogs_do_not_stop_a_page_and_are_noted(seen: Seen) -> None:
    events = seen.trace.table("events").filter(participant="opener")
    counts = dict(events.group_by("event").len().iter_rows())
    assert counts["dialog"] >= 3
    assert counts["popup"] >= 1
    assert events.filter(event="left").height == 1


def test_a_page_that_replaces_functions_of_the_browser_still_calls_and_is_measured(seen: Seen) -> None:
    sent = seen.trace.table("outbound_rtp").filter(participant="patcher", kind="video")
    packets = seen.trace.table("packets").filter(kind="video")
    assert set(sent["ssrc"]) == set(packets.filter(pl.col("flow").str.starts_with("patcher"))["ssrc"])
    assert sent["bytesSent"].max() < 10_000_000
    # The page wrapped the class and froze the clock, but calls go on to the end, and times are true.
    shown = seen.trace.table("frames").filter(pl.col("flow").str.ends_with("->patcher"))
    assert shown["rendered_ns"].max() > 10_000_000_000


def test_pages_that_loop_or_never_load_leave_a_result_that_says_so(tmp_path: Path) -> None:
    pages = page("looper", "bad/loops.html") + page("never", "never")
    (repeat,) = strange_call(tmp_path, pages, seconds=10).repeats
    assert repeat.status == "finished", repeat.reason
    assert "the page of looper made no report after" in repeat.note
    assert "the page of never did not answer" in repeat.note
    assert "2 connections of looper's page: the other end is the page itself" in repeat.note


def test_a_page_that_crashes_fails_the_repeat_and_is_named(tmp_path: Path) -> None:
    little = "browser.args = ['--js-flags=--max-old-space-size=64']\n"
    pages = page("crasher", "bad/crash.html") + little + page("looper", "bad/loops.html")
    (repeat,) = strange_call(tmp_path, pages, seconds=12).repeats
    assert repeat.status == "failed"
    assert repeat.reason == "the page of crasher crashed"


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_page_that_breaks_the_connection_with_its_browser_fails_the_repeat_and_is_named(
    tmp_path: Path, browser: str
) -> None:
    pages = page("flooder", "bad/floods.html") + f"browser.name = '{browser}'\n" + page("never", "never")
    (repeat,) = strange_call(tmp_path, pages, seconds=12).repeats
    assert repeat.status == "failed"
    assert repeat.reason == (
        "the page of flooder: the browser's DevTools sent a message of more than 64 MB, "
        "such as a page's text for the console; expected less"
    )
