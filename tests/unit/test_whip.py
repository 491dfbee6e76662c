"""Servers with WHIP and WHEP: fields of scenarios, and what pages and simulated calls make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_text import TWO_PEOPLE, error, scenario

from rtclab.backend.live.browsers.page_settings import pages
from rtclab.backend.live.connections import live_connections
from rtclab.backend.live.servers.whip import host_and_port, page_resource, whip_settings
from rtclab.backend.sim import SimBackend
from rtclab.scenario import Scenario

CALL = """
[[calls]]
kind = "sfu"
server = "sfu"
"""
OTHER = """
[servers.sfu]
kind = "whip"
whip = "http://sfu:8889/{name}/whip"
whep = "https://sfu/{sender}/whep?player={name}"
"""
OURS = """
[servers.sfu]
kind = "str0m"
signalling = "whip"
token = "secret"
"""


def resources(loaded: Scenario) -> dict[tuple[str, int], str]:
    """The URL of each connection of each page, by participant and number."""
    settings = whip_settings(loaded)["sfu"]
    return {
        (name, one.number): page_resource(one, name, settings)["url"]
        for one in live_connections(loaded)
        for name in one.ends
        if name != "sfu"
    }


def test_every_connection_has_the_url_of_its_sender_and_its_receiver(tmp_path: Path) -> None:
    assert resources(scenario(tmp_path, OTHER + CALL)) == {
        ("alice", 0): "http://sfu:8889/alice/whip",
        ("bob", 1): "http://sfu:8889/bob/whip",
        ("bob", 2): "https://sfu/alice/whep?player=bob",
        ("alice", 3): "https://sfu/bob/whep?player=alice",
    }


def test_our_own_sfu_has_urls_that_the_scenario_need_not_say(tmp_path: Path) -> None:
    ours = scenario(tmp_path, OURS + CALL)
    assert set(resources(ours).values()) == {
        f"http://sfu:8080/{use}/{name}" for use in ("whip", "whep") for name in ("alice", "bob")
    }
    assert whip_settings(ours)["sfu"].token == "secret"
    websocket = scenario(tmp_path, OURS.replace('"whip"', '"websocket"') + CALL)
    assert (whip_settings(websocket)["sfu"].whip, whip_settings(websocket)["sfu"].whep) == (None, None)
    assert whip_settings(scenario(tmp_path, "[servers.sfu]" + CALL)) == {}


def test_a_player_waits_until_the_sender_has_joined(tmp_path: Path) -> None:
    later = "[participants.carol]\njoin = '2 s'\n" + OTHER + CALL + "start = '0.5 s'\n"
    waits = {
        (name, one["peer"], one["feed"]): one["waitsMs"]
        for name, page in pages(scenario(tmp_path, later)).items()
        for one in page["connections"]
    }
    assert waits["alice", "sfu", "alice"] == waits["bob", "sfu", "alice"] == 0
    assert waits["bob", "sfu", "carol"] == 1500
    assert waits["carol", "sfu", "bob"] == waits["carol", "sfu", "carol"] == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://sfu/whip", ("sfu", 80)),
        ("https://sfu/whip", ("sfu", 443)),
        ("http://10.77.0.4:8080/whip", ("10.77.0.4", 8080)),
    ],
)
def test_the_port_of_a_url_is_that_of_its_scheme_unless_it_says_so(
    url: str, expected: tuple[str, int]
) -> None:
    assert host_and_port(url) == expected


def test_simulated_calls_ignore_how_pages_reach_the_server(tmp_path: Path) -> None:
    def packets(text: str, name: str) -> object:
        (tmp_path / name).mkdir()
        loaded = scenario(tmp_path, text + CALL, "duration=3 s")
        trace = SimBackend().run(loaded, seed=1, repeat=0, out=tmp_path / name)
        return trace.table("packets")

    plain = packets("[servers.sfu]\nkind = 'str0m'", "plain")
    assert packets(OTHER, "other").equals(plain)
    assert packets(OURS, "ours").equals(plain)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind = 'whip'", "servers.sfu.whip: a server of kind `whip` needs the URL `whip`"),
        ("kind = 'whip'", "servers.sfu.whep: a server of kind `whip` needs the URL `whep`"),
        (
            "whip = 'http://sfu/x'",
            "servers.sfu.whip: a server of kind `janus` has no whip; expected kind whip",
        ),
        (
            "kind = 'whip'\nsignalling = 'whip'",
            "servers.sfu.signalling: a server of kind `whip` has no signalling; expected kind str0m",
        ),
        (
            "token = 'x'",
            "sfu.token: a server of kind `janus` has no token; expected kind whip or str0m",
        ),
        ("kind = 'str0m'\ntoken = 'a b'", "servers.sfu.token: "),
        (
            "whip = 'sfu:8080/whip'",
            "servers.sfu.whip: cannot read `sfu:8080/whip`; expected a URL",
        ),
        (
            "whip = 'ftp://sfu/whip'",
            "cannot read `ftp://sfu/whip`; expected a URL such as `http",
        ),
        ("whip = 'http://sfu:x/whip'", "servers.sfu.whip: cannot read `http://sfu:x/whip` ("),
        (
            "whip = 'http://sfu:99999/whip'",
            "servers.sfu.whip: cannot read `http://sfu:99999/whip` (",
        ),
        ("whip = 'http://[sfu/whip'", "servers.sfu.whip: cannot read `http://[sfu/whip` ("),
        ("whip = 'http:///whip'", "servers.sfu.whip: cannot read `http:///whip`"),
        ("whip = 'http://sfu/a b'", "servers.sfu.whip: cannot read `http://sfu/a b`"),
        (
            "whip = 'http://sfu/{room}/{name}'",
            "servers.sfu.whip: unknown placeholder `{room}`; expected `{name}` or `{sender}`",
        ),
        ("kind = 'whep'", "servers.sfu.kind: "),
    ],
)
def test_a_wrong_server_is_an_error_that_names_the_field(tmp_path: Path, text: str, said: str) -> None:
    assert said in error(tmp_path, f"[servers.sfu]\n{text}\n{CALL}", base=TWO_PEOPLE)
