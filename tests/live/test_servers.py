"""The TURN server and the SFU of live calls: real clients, wrong secrets, ends, taken ports, files left."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from live_tests import as_ordinary_user
from parts import LAB
from small_network import connect

from rtclab.backend.live.lab.namespaces import (
    NAMESPACES,
    LabError,
    call_in_node,
    listen_in_node,
    node_command,
)
from rtclab.backend.live.servers.janus import JanusServer
from rtclab.backend.live.servers.turn import TurnServer

pytestmark = [pytest.mark.live, pytest.mark.needs(*LAB)]

SERVER, CLIENT = "core", "alice"
ADDRESS = "10.77.0.1"
HOMES = Path("/run/homes")
PROGRAMS = {"turn": "turnserver", "janus": "janus"}
PORTS = {"turn": 3478, "janus": 8188}
ELSEWHERE = ("/var/tmp", "/var/log", "/var/lib")
"""Where the programs write by default, beside /run."""
CLIENT_TIMEOUT_S = 30
ENDED_TIMEOUT_S = 30


# --- run inside the lab ------------------------------------------------------------------------------


def make(which: str, on_exit: Callable[[str], None]) -> TurnServer | JanusServer:
    def spawn(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(node_command(SERVER, command), **options)

    if which == "turn":
        return TurnServer(spawn, ADDRESS, HOMES / which, on_exit)
    return JanusServer(spawn, ADDRESS, HOMES / which, on_exit, ["call"])


def with_server(which: str, use: Callable[[Any], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """Runs ``use(server)`` while a server runs."""

    async def run() -> dict[str, Any]:
        server = make(which, lambda reason: None)
        server.start()
        await server.ready()
        try:
            return await use(server)
        finally:
            await server.stop()

    _, emulator = connect(SERVER, CLIENT)
    try:
        return asyncio.run(run())
    finally:
        emulator.stop()


def allocate(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Exchanges packets between relayed addresses, with right and wrong credentials."""

    async def use(server: TurnServer) -> dict[str, Any]:
        user = server.ice_servers("alice", tcp=argument["tcp"])[1]
        password = user["credential"] if argument["right"] else "wrong"
        options = ["-t"] if argument["tcp"] else []
        # -y: the client sends to itself, from one relayed address to another; -n: messages of each of four.
        command = ["turnutils_uclient", "-y", "-n", "3", *options, "-u", user["username"], "-w", password]
        done = await asyncio.to_thread(
            subprocess.run,
            node_command(CLIENT, [*command, ADDRESS]),
            capture_output=True,
            text=True,
            timeout=CLIENT_TIMEOUT_S,
        )
        return {"status": done.returncode, "said": done.stdout}

    return with_server("turn", use)


def talk_to_janus(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Enters the room, with ``change`` made to what the server gives to pages."""

    async def use(server: JanusServer) -> dict[str, Any]:
        room = server.room("call") | argument["change"]
        return await asyncio.to_thread(call_in_node, CLIENT, lambda: asyncio.run(enter(room)))

    return with_server("janus", use)


async def enter(room: dict[str, Any]) -> dict[str, Any]:
    """Asks what server it is, and joins the room as a page does. Returns the last answer to each."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(room["url"], protocols=["janus-protocol"]) as socket,
    ):

        async def request(**message: Any) -> dict[str, Any]:
            await socket.send_json({"transaction": "one", "apisecret": room["apiSecret"], **message})
            answer: dict[str, Any] = await socket.receive_json()
            return await socket.receive_json() if answer["janus"] == "ack" else answer

        info = await request(janus="info")
        created = await request(janus="create")
        if created["janus"] == "error":
            return {"info": info, "created": created}
        ids = {"session_id": created["data"]["id"]}
        attached = await request(janus="attach", plugin="janus.plugin.videoroom", **ids)
        ids["handle_id"] = attached["data"]["id"]
        join = {
            "request": "join",
            "ptype": "publisher",
            "room": room["room"],
            "pin": room["pin"],
            "display": "alice",
        }
        joined = await request(janus="message", body=join, **ids)
        create = await request(janus="message", body={"request": "create", "room": 1}, **ids)
        return {"info": info, "joined": joined["plugindata"]["data"], "create": create["plugindata"]["data"]}


def what_remains(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Where the server listens, and the files that it leaves outside its home."""
    for folder in ELSEWHERE:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    which = argument["which"]
    before = set(Path("/run").iterdir())  # of `mount` itself

    async def use(server: TurnServer | JanusServer) -> dict[str, Any]:
        pid = pid_of(PROGRAMS[which])
        listing = ["ss", "--listening", "--numeric", "--tcp", "--udp", "--no-header"]
        here, there = (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            for command in (listing, node_command(SERVER, listing))
        )
        return {
            "in_the_node": Path(f"/proc/{pid}/ns/net").stat().st_ino == (NAMESPACES / SERVER).stat().st_ino,
            "in_the_lab": here,
            "listening": sorted((line.split()[0], line.split()[4]) for line in there),
        }

    result = with_server(which, use)
    outside = [str(path) for folder in ELSEWHERE for path in Path(folder).rglob("*")]
    return result | {
        "outside": outside,
        "run": sorted(path.name for path in set(Path("/run").iterdir()) - before),
        "running": pid_of(PROGRAMS[which]),
    }


def pid_of(program: str) -> int | None:
    """A process of this lab by the name of its program."""
    for entry in Path("/proc").glob("[0-9]*/comm"):
        if entry.read_text().strip() == program:
            return int(entry.parent.name)
    return None


def kill(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = make(argument["which"], ended.set_result)
        server.start()
        await server.ready()
        pid = pid_of(PROGRAMS[argument["which"]])
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return {"reason": await asyncio.wait_for(ended, ENDED_TIMEOUT_S)}

    connect(SERVER, CLIENT)
    return asyncio.run(run())


def start_where_the_port_is_taken(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    connect(SERVER, CLIENT)
    taken = listen_in_node(SERVER, argument["address"], PORTS[argument["which"]])

    async def run() -> None:
        server = make(argument["which"], lambda reason: None)
        server.start()
        try:
            await server.ready()
        finally:
            await server.stop()

    with taken:
        asyncio.run(run())
    return {}


def end_before_listening(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    connect(SERVER, CLIENT)

    def spawn(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        words = ["sh", "-c", f"sleep {argument['after_s']}; echo bad configuration; exit 3"]
        return subprocess.Popen(node_command(SERVER, words), **options)

    async def run() -> None:
        server = TurnServer(spawn, ADDRESS, HOMES / "turn", lambda reason: None)
        server.start()
        await server.ready()

    asyncio.run(run())
    return {}


# --- tests -------------------------------------------------------------------------------------------

TURN, JANUS = (pytest.param(which, marks=pytest.mark.needs(part)) for which, part in PROGRAMS.items())
both_servers = pytest.mark.parametrize("which", [TURN, JANUS])


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.needs("turnserver")
def test_a_turn_client_exchanges_packets_over_its_relayed_addresses(in_lab, tcp) -> None:
    result = in_lab("allocate", right=True, tcp=tcp)
    assert result["status"] == 0
    assert "tot_send_msgs=12, tot_recv_msgs=12" in result["said"]


@pytest.mark.needs("turnserver")
def test_a_turn_client_with_a_wrong_password_gets_no_relayed_address(in_lab) -> None:
    result = in_lab("allocate", right=False, tcp=False)
    assert result["status"] != 0
    assert "Cannot complete Allocation" in result["said"]


@pytest.mark.needs("janus")
def test_a_participant_enters_the_room_and_nobody_creates_another_one(in_lab) -> None:
    result = in_lab("talk_to_janus", change={})
    assert result["info"]["version_string"].startswith("1.")
    assert list(result["info"]["plugins"]) == ["janus.plugin.videoroom"]
    assert list(result["info"]["transports"]) == ["janus.transport.websockets"]
    assert result["joined"]["videoroom"] == "joined"
    assert result["joined"]["publishers"] == []
    assert "error" in result["create"]


@pytest.mark.needs("janus")
def test_the_room_is_closed_to_a_wrong_pin(in_lab) -> None:
    assert "error" in in_lab("talk_to_janus", change={"pin": "wrong"})["joined"]


@pytest.mark.needs("janus")
def test_janus_is_closed_to_a_wrong_secret(in_lab) -> None:
    assert in_lab("talk_to_janus", change={"apiSecret": "wrong"})["created"]["error"]["code"] == 403


@pytest.mark.parametrize(
    ("which", "listening"),
    [
        pytest.param(
            "turn",
            [["tcp", f"{ADDRESS}:3478"], ["udp", f"{ADDRESS}:3478"]],
            marks=pytest.mark.needs("turnserver"),
        ),
        pytest.param("janus", [["tcp", f"{ADDRESS}:8188"]], marks=pytest.mark.needs("janus")),
    ],
)
def test_a_server_listens_in_its_node_only_and_leaves_nothing_outside_its_home(
    in_lab, which, listening
) -> None:
    assert in_lab("what_remains", which=which) == {
        "in_the_node": True,
        "in_the_lab": [],
        "listening": listening,
        "outside": [],
        "run": ["homes"],
        "running": None,
    }


@both_servers
def test_a_server_that_is_killed_is_named_with_its_last_words(in_lab, which) -> None:
    name = {"turn": "the TURN server", "janus": r"the SFU \(Janus\)"}[which]
    reason = in_lab("kill", which=which)["reason"]
    assert re.match(rf"{name} at 10\.77\.0\.1 was killed by SIGKILL; it last said:\n  \S", reason)


@both_servers
@pytest.mark.parametrize("address", [ADDRESS, "0.0.0.0"])
def test_a_port_that_is_taken_is_named(in_lab, which, address) -> None:
    with pytest.raises(LabError, match=rf"cannot listen at port {PORTS[which]} .* another program") as caught:
        in_lab("start_where_the_port_is_taken", which=which, address=address)
    assert caught.value.kind == "CallFailed"


@pytest.mark.parametrize("after_s", [0, 0.3])
@pytest.mark.needs("turnserver")
def test_a_server_that_ends_before_it_listens_is_named_with_its_output(in_lab, after_s) -> None:
    with pytest.raises(LabError, match=r"the TURN server .* ended with .* 3;.*\n  bad configuration"):
        in_lab("end_before_listening", after_s=after_s)


@both_servers
def test_an_ordinary_user_can_start_the_servers(which) -> None:
    call = {"turn": ("allocate", {"right": True, "tcp": False}), "janus": ("talk_to_janus", {"change": {}})}
    function, argument = call[which]
    run = (
        "from rtclab.backend.live.lab.namespaces import run_in_lab; "
        f"print(run_in_lab('test_servers:{function}', {argument!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        as_ordinary_user([sys.executable, "-c", run]),
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert {"turn": "tot_recv_msgs=12", "janus": "'videoroom': 'joined'"}[which] in done.stdout
