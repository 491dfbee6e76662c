"""Invitations: where seats are, who may take one, and what an invited browser may say."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import segno
from aiohttp import ClientTimeout
from aiohttp.test_utils import TestClient, TestServer
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.records.page_reports import ReportRefused
from rtclab.backend.live.scenario_checks import check_participant
from rtclab.backend.live.servers.signalling import SignallingServer
from rtclab.backend.live.user import invited_page
from rtclab.backend.live.user.certificates import self_signed
from rtclab.backend.live.user.invitations import Invitation, in_words, listening
from rtclab.backend.live.user.invited_page import MAX_BODY_BYTES, InvitedPage
from rtclab.backend.live.user.invited_reports import PageClock, ReportChecker, messages
from rtclab.backend.live.user.rate_limit import page_rate_limit
from rtclab.cli.running import pairs
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.scenario import Scenario

Json = dict[str, Any]
NOW_MS = 1_800_000_000_000.0
NODE = "10.77.0.2"


def connection(number: int, a: str, b: str, call: int = 0) -> LiveConnection:
    return LiveConnection(
        number=number, call=call, a=a, b=b, start_ns=0, end_ns=10**10, flows=(f"{a}->{b}", f"{b}->{a}"),
        feed=a, one_way=False, relay=None, forwards=None, server=None,
    )  # fmt: skip


CONNECTIONS = {
    0: connection(0, "alice", "bob"),
    1: connection(1, "bob", "carol"),
    2: connection(2, "bob", "carol", call=1),
}


def checker(ahead_ms: float = 0.0) -> ReportChecker:
    """What checks alice's browser, whose clock is ahead."""
    made = ReportChecker("alice", NODE, CONNECTIONS)
    question = made.clock.ask(NOW_MS - 10)
    made.report({"type": "clock", "question": question, "at_ms": NOW_MS - 5 + ahead_ms}, NOW_MS)
    return made


# --- the address of a seat ------------------------------------------------------------------------


def test_an_invitation_has_one_address_of_this_machine() -> None:
    assert Invitation.parse("alice", "192.168.1.5") == Invitation("alice", "192.168.1.5", 0)
    assert Invitation.parse("alice", "192.168.1.5:8443").port == 8443


@pytest.mark.parametrize(
    "place",
    ["", "0.0.0.0", "0.0.0.0:80", "localhost", "::", "1.2.3", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536"],
)
def test_everything_else_is_refused_with_the_addresses_that_there_are(place: str) -> None:
    with pytest.raises(BadInput, match=r"invite: alice has .*; expected one IPv4 address.*\n.*127\.0\.0\.1"):
        Invitation.parse("alice", place)


def test_the_options_name_each_participant_once() -> None:
    assert pairs("--invite", ["alice=127.0.0.1:80"], "A=B") == {"alice": "127.0.0.1:80"}
    with pytest.raises(BadInput, match="alice is given twice"):
        pairs("--invite", ["alice=127.0.0.1", "alice=127.0.0.2"], "A=B")
    with pytest.raises(BadInput, match="cannot read `=127"):
        pairs("--invite", ["=127.0.0.1"], "A=B")


def bound() -> set[str]:
    """Addresses and ports of the sockets at 127.0.0.7, which nobody else uses."""
    rows = [
        line.split()[1]
        for protocol in ("tcp", "udp")
        for line in Path(f"/proc/self/net/{protocol}").read_text().splitlines()[1:]
    ]
    return {f"{index}:{row}" for index, row in enumerate(rows) if row.startswith("0700007F:")}


def test_a_seat_is_one_port_of_tcp_and_udp_at_its_address_and_is_closed_at_the_end() -> None:
    with listening([Invitation("alice", "127.0.0.7"), Invitation("bob", "127.0.0.7")]) as places:
        ports = {place.port for place in places.values()}
        assert len(ports) == 2
        assert {int(one.rpartition(":")[2], 16) for one in bound()} == ports
        assert len(bound()) == 4
        taken = places["alice"].port
        with (
            pytest.raises(BadInput, match=rf"listen for carol at 127.0.0.7:{taken}: Address already in use"),
            listening([Invitation("carol", "127.0.0.7", taken)]),
        ):
            pass
    assert not bound()


def test_the_user_reads_the_address_its_fingerprint_and_a_qr_code() -> None:
    event = {"participant": "alice", "seat": "free", "url": "https://192.168.1.5:8443/tok/", "wait_s": 300.0}
    event["fingerprint"] = "AB:CD"
    plain = in_words(event)
    assert "https://192.168.1.5:8443/tok/" in plain
    assert "AB:CD" in plain
    assert "█" not in plain
    drawn = in_words(event, qr_code=True).splitlines()
    rows = [line for line in drawn if line.startswith("\x1b[97;40m")]
    # Two rows of modules are a line; two light modules surround the code.
    modules = segno.make_qr(event["url"]).symbol_size(border=2)[0]
    assert len(rows) == math.ceil(modules / 2)
    assert {len(row) for row in rows} == {modules + len("\x1b[97;40m") + len("\x1b[0m")}


# --- the scenario ---------------------------------------------------------------------------------

CALL = """
name = "small"
duration = "5 s"
[video]
[participants.alice]
browser = {name = "invited"}
[participants.bob]
"""


def scenario(tmp_path: Path, text: str = "", **changes: str) -> Scenario:
    file = tmp_path / "scenario.toml"
    file.write_text(CALL + text)
    return Scenario.load(file, {key.replace("__", "."): value for key, value in changes.items()})


def test_an_invited_browser_needs_an_address_and_an_address_an_invited_browser(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nobody can take the seat of alice"):
        LiveBackend()._check_invitations(scenario(tmp_path))
    both = [Invitation(name, "127.0.0.7") for name in ("alice", "bob")]
    with pytest.raises(BadInput, match="`bob` has no invited browser"):
        LiveBackend(both)._check_invitations(scenario(tmp_path))
    LiveBackend(both[:1])._check_invitations(scenario(tmp_path))
    own = scenario(tmp_path, "browser = {name = 'invited'}\npage = 'https://example.org/'")
    with pytest.raises(UnsupportedScenario, match=r"participants\.bob\.page"):
        LiveBackend(both)._check_invitations(own)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("nat = 'symmetric'", r"participants\.bob\.nat"),
        ("host = {encoder_capacity = '20 Mpixel/s'}", r"participants\.bob\.host"),
        ("[[calls]]\nrelay = 'core'", r"calls\.0\.relay"),
        ("[[calls]]\nkind = 'sfu'", r"calls\.0\.server"),
        (
            "[servers.sfu]\nkind = 'str0m'\nsignalling = 'whip'\n[[calls]]\nkind = 'sfu'\nserver = 'sfu'",
            r"calls\.0\.server",
        ),
    ],
)
def test_what_only_a_browser_in_the_node_could_have_is_refused(tmp_path: Path, text: str, field: str) -> None:
    made = scenario(tmp_path, "browser = {name = 'invited'}\n" + text)
    check_participant(scenario(tmp_path), "alice")
    with pytest.raises(UnsupportedScenario, match=field):
        check_participant(made, "bob")


@pytest.mark.parametrize("browser", ["field_trials = 'A/B/'", "encryption = false", "args = ['--x']"])
def test_an_invited_browser_is_not_started_by_us(tmp_path: Path, browser: str) -> None:
    with pytest.raises(BadInput, match="An invited browser"):
        scenario(tmp_path, f"browser = {{name = 'invited', {browser}}}")


# --- the clock ------------------------------------------------------------------------------------

DELAYS = st.floats(0, 1000)


@given(st.floats(-1e9, 1e9), st.lists(st.tuples(DELAYS, DELAYS), min_size=1, max_size=20))
def test_the_clock_of_a_page_is_known_within_the_uncertainty(
    ahead_ms: float, delays: list[tuple[float, float]]
) -> None:
    clock, now_ms = PageClock(), NOW_MS
    for there_ms, back_ms in delays:
        question = clock.ask(now_ms)
        clock.answer(question, now_ms + there_ms + ahead_ms, now_ms + there_ms + back_ms)
        now_ms += there_ms + back_ms
    rounding_ms = 0.01
    assert abs(clock.ahead_ms - ahead_ms) <= clock.uncertainty_ms + rounding_ms
    assert clock.uncertainty_ms <= min(there + back for there, back in delays) / 2 + rounding_ms


def test_an_answer_to_no_question_or_to_an_old_one_is_ignored() -> None:
    clock = PageClock()
    clock.answer(1, 5.0, NOW_MS)
    old, new = clock.ask(NOW_MS), clock.ask(NOW_MS + 1)
    clock.answer(old, 5.0, NOW_MS + 2)
    assert (clock.answers, clock.uncertainty_ms) == (0, math.inf)
    clock.answer(new, NOW_MS + 1.5, NOW_MS + 2)
    clock.answer(new, 5.0, NOW_MS + 2)
    assert (clock.answers, clock.ahead_ms) == (1, 0)


# --- reports --------------------------------------------------------------------------------------

EVENT: dict[str, Any] = {"type": "event", "event": "first_frame", "number": 0, "at_ms": NOW_MS}
SENT: dict[str, Any] = {
    "type": "outbound-rtp", "ssrc": 7, "kind": "video", "packetsSent": 3, "id": "OT01", "timestamp": NOW_MS,
    "qualityLimitationDurations": {"cpu": 0.5, "none": 1},
}  # fmt: skip
STATS: dict[str, Any] = {
    "type": "stats",
    "number": 0,
    "at_ms": NOW_MS,
    "reports": [SENT],
    "selected": {
        "local": {"address": NODE, "port": 50000, "candidateType": "relay"},
        "remote": {"address": "10.77.0.3", "port": 50001, "candidateType": "host"},
    },
    "frames": [[90, NOW_MS - 100, None, NOW_MS, 640, 480, 1.5, None]],
}


def test_times_of_a_page_whose_clock_is_wrong_are_converted() -> None:
    year_ms = 365 * 86_400_000.0
    made = checker(year_ms)
    event = made.report({**EVENT, "at_ms": NOW_MS + year_ms - 20}, NOW_MS)
    assert event["at_ms"] == pytest.approx(NOW_MS - 20)
    frames = [[90, NOW_MS + year_ms - 100, None, NOW_MS + 2 * year_ms, 640, 480, 1.5, None]]
    stats = made.report({**STATS, "at_ms": NOW_MS + year_ms, "frames": frames}, NOW_MS)
    assert stats["at_ms"] == pytest.approx(NOW_MS)
    assert stats["frames"] == [[90, pytest.approx(NOW_MS - 100), None, None, 640, 480, 1.5, None]], (
        "impossible is unknown"
    )


def test_a_report_keeps_what_a_trace_has_and_no_address_of_others() -> None:
    stats = checker().report(STATS, NOW_MS)
    assert stats["reports"] == [
        {
            "type": "outbound-rtp",
            "ssrc": 7,
            "kind": "video",
            "packetsSent": 3,
            "qualityLimitationDurationCpu": 0.5,
        }
    ]
    assert stats["selected"]["local"] == {"address": NODE, "port": 50000, "candidateType": "host"}
    assert stats["selected"]["remote"]["address"] is None
    others = {**STATS, "selected": {**STATS["selected"], "local": STATS["selected"]["remote"]}}
    assert checker().report(others, NOW_MS)["selected"]["local"]["address"] is None


def test_text_cannot_control_the_terminal() -> None:
    event = {**EVENT, "event": "page_error", "detail": "\x1b]0;x\x07 no\ncamera" + "x" * 9000}
    detail = checker().report(event, NOW_MS)["detail"]
    assert detail.startswith("?]0;x? no?camera")
    assert len(detail) == 500


@pytest.mark.parametrize(
    "message",
    [
        [],
        None,
        {},
        {"type": "nonsense", "at_ms": NOW_MS},
        {"type": "bye"},
        {**EVENT, "number": 1},
        {**EVENT, "number": -1},
        {**EVENT, "participant": "bob"},
        {**EVENT, "event": "emulator_ended"},
        {**EVENT, "at_ms": NOW_MS + 61_000},
        {**EVENT, "at_ms": math.inf},
        {**EVENT, "at_ms": "0"},
        {**STATS, "number": 1},
        {**STATS, "reports": [{**SENT, "type": "codec"}]},
        {**STATS, "reports": [{**SENT, "ssrc": None}]},
        {**STATS, "reports": [{**SENT, "ssrc": 1 << 60}]},
        {**STATS, "reports": [{**SENT, "packetsSent": "many"}]},
        {**STATS, "reports": [{**SENT, "packetsSent": True}]},
        {**STATS, "reports": [{**SENT, "mimeType": "video/\x1b"}]},
        {**STATS, "reports": [SENT] * 101},
        {**STATS, "frames": [[1, 2, 3]]},
        {**STATS, "frames": [[90, None, None, None, 640, -1, None, None]]},
        {**STATS, "frames": "x"},
        {"type": "payload_types", "number": 0, "at_ms": NOW_MS, "codecs": {"96": "VP8"}, "kinds": {}},
        {"type": "payload_types", "number": 0, "at_ms": NOW_MS, "codecs": {"x": "VP8"}, "kinds": {"x": "v"}},
    ],
    ids=str,
)
def test_a_report_of_another_shape_or_about_others_is_refused(message: object) -> None:
    with pytest.raises(ReportRefused):
        checker().report(message, NOW_MS)


@pytest.mark.parametrize("body", ["", "{}", "[NaN]", "[" * 100_000, "[1" + "0" * 10_000 + "]", "nul"])
def test_a_body_that_is_no_list_is_refused(body: str) -> None:
    with pytest.raises(ReportRefused):
        messages(body)


def test_signalling_reaches_only_the_other_end_of_a_connection() -> None:
    made = checker()
    offer = {"to": "bob", "number": 0, "description": {"type": "offer", "sdp": "v=0"}}
    assert made.signal(offer) == offer
    candidate = {
        "to": "bob",
        "number": 0,
        "candidate": {"candidate": "x", "sdpMLineIndex": 0, "sdpMid": None},
    }
    assert made.signal(candidate) == candidate
    assert made.signal({"join": 0}) == {"join": 0}
    for wrong in (
        {**offer, "to": "carol"},
        {**offer, "number": 1},
        {**offer, "from": "carol"},
        {**offer, "error": "x"},
        {"join": 1},
        {"join": True},
        {"to": "bob"},
    ):
        with pytest.raises(ReportRefused):
            made.signal(wrong)


# --- the page -------------------------------------------------------------------------------------


class Served:
    """A page as a visitor sees it, and what it has told the session."""

    def __init__(self, signalling: str = "ws://10.77.0.1:1/signalling?participant=alice") -> None:
        self.seen: list[Any] = []
        self.closed = 0
        self.page = InvitedPage(
            "<alice>",
            ReportChecker("alice", NODE, CONNECTIONS),
            signalling,
            on_taken=lambda *taken: self.seen.append(taken),
            on_message=self.seen.append,
            on_closed=self._close,
            on_error=lambda error: self.seen.append(str(error)),
        )
        self.page.configure({"participant": "alice"})
        self.root = f"/{self.page.token}/"

    def _close(self) -> None:
        self.closed += 1

    def visit(self, test: Callable[[TestClient[Any, Any]], Awaitable[None]]) -> None:
        async def run() -> None:
            async with TestClient(TestServer(self.page.application())) as client:
                await test(client)

        asyncio.run(run())


async def cookie_of(client: TestClient[Any, Any], root: str) -> dict[str, str]:
    """Takes the seat. Returns the header with the cookie."""
    answer = await client.post(f"{root}take", headers={"User-Agent": "Phone/1 \u202ex"})
    assert answer.status == 204
    cookie = answer.cookies["seat"]
    assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "Strict")
    assert cookie["path"] == root
    client.session.cookie_jar.clear()
    return {"Cookie": f"seat={cookie.value}"}


def test_the_first_browser_takes_the_seat_and_later_ones_are_refused() -> None:
    served = Served()

    async def test(client: TestClient[Any, Any]) -> None:
        root = served.root
        for path in ("/", "/x/", "/report", f"{root[:-2]}/", f"/{'a' * 22}/take"):
            assert (await client.get(path)).status == 404
        opened = await client.get(root)
        assert opened.status == 200, "to look is not to take"
        assert "&lt;alice&gt;" in await opened.text()
        assert opened.headers["Cache-Control"] == "no-store"
        assert opened.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert (await client.get(f"{root}report")).status == 403
        assert (await client.post(f"{root}report", data="[]")).status == 403
        mine = await cookie_of(client, root)
        for path in ("", "call.js", "report", "signalling"):
            for stranger in ({}, {"Cookie": "seat="}, {"Cookie": f"seat={mine['Cookie'][5:-1]}"}):
                assert (await client.get(root + path, headers=stranger)).status == 410
        assert (await client.post(f"{root}take")).status == 410
        assert (await client.get(root, headers=mine)).status == 200
        assert (await client.get(f"{root}call.js", headers=mine)).status == 200
        assert (await client.get(f"{root}../session.py", headers=mine)).status == 404

    served.visit(test)
    assert served.seen == [("Phone/1 ?x", "127.0.0.1")]


async def event(stream: Any) -> Any:
    """The next event of a stream of server-sent events."""
    while not (line := await stream.content.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))


def test_a_page_answers_for_its_clock_and_reports_until_it_goes() -> None:
    served = Served()

    async def test(client: TestClient[Any, Any]) -> None:
        mine = await cookie_of(client, served.root)
        report = f"{served.root}report"
        assert (await client.post(report, data="nonsense", headers=mine)).status == 400
        async with client.get(report, headers=mine) as stream:
            at_ms = time.time() * 1e3 + 9e6
            said = [{"type": "ready", "camera": None, "at_ms": at_ms}]
            questions = 0
            while len(served.seen) < 3:
                told = await event(stream)
                if told["type"] == "configure":
                    assert told["participant"] == "alice"
                    continue
                questions += 1
                answer = {"type": "clock", "question": told["question"], "at_ms": time.time() * 1e3 + 9e6}
                body = json.dumps([answer, *said])
                assert (await client.post(report, data=body, headers=mine)).status == 204
                said = []
            assert 10 <= questions <= 11
            await served.page.send("join", calls=[0])
            while (told := await event(stream))["type"] == "clock":
                pass
            assert told == {"type": "join", "calls": [0]}
            body = json.dumps([{**EVENT, "at_ms": time.time() * 1e3}])
            assert (await client.post(report, data=body, headers=mine)).status == 400
        while not served.closed:
            await asyncio.sleep(0.05)

    served.visit(test)
    _, refused, ready, far = served.seen
    assert refused.startswith("expected a list in JSON")
    assert ready["type"] == "ready"
    assert abs(ready["at_ms"] - time.time() * 1e3) < 60_000
    assert far.startswith("at_ms: got a time more than 60 s from now")


@pytest.mark.parametrize(
    ("body", "reason"),
    [("[" + "1," * MAX_BODY_BYTES + "1]", HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase), (b"\xff", "utf-8")],
    ids=["large", "no text"],
)
def test_what_is_no_list_of_messages_is_refused(body: str | bytes, reason: str) -> None:
    served = Served()

    async def test(client: TestClient[Any, Any]) -> None:
        mine = await cookie_of(client, served.root)
        for channel in ("report", "signalling"):
            assert (await client.post(served.root + channel, data=body, headers=mine)).status == 400

    served.visit(test)
    assert all(reason in str(said) for said in served.seen[1:])
    assert len(served.seen) == 3


def many_frames() -> list[Json]:
    return [
        {**STATS, "at_ms": time.time() * 1e3, "frames": [[None, None, None, None, 0, 0, None, None]] * 2000}
    ]


@pytest.mark.parametrize(
    ("body", "requests", "taken"),
    [
        # Bursts of five seconds: 200 messages, 2000 rows and 3 MB a second, and what is earned meanwhile.
        (lambda: [{**EVENT, "at_ms": time.time() * 1e3}] * 300, 30, (1000, 5000)),
        (many_frames, 30, (4, 20)),
        (lambda: [{**EVENT, "at_ms": time.time() * 1e3, "detail": "x" * 90_000}] * 5, 60, (165, 250)),
    ],
    ids=["messages", "rows", "characters"],
)
def test_a_flood_is_dropped_and_counted(
    body: Callable[[], list[Json]], requests: int, taken: tuple[int, int]
) -> None:
    served = Served()

    async def test(client: TestClient[Any, Any]) -> None:
        mine = await cookie_of(client, served.root)
        for _ in range(requests):
            answer = await client.post(f"{served.root}report", data=json.dumps(body()), headers=mine)
            assert answer.status == 204

    served.visit(test)
    assert taken[0] <= len(served.seen) - 1 <= taken[1]
    assert served.page.refused > 0
    assert not any(isinstance(said, str) for said in served.seen), "no error"


def test_a_page_reports_in_its_usual_way_without_loss() -> None:
    budget, began_s = page_rate_limit(), time.monotonic()
    # Nineteen connections at 60 frames a second, as soon as a page was held up for four seconds.
    for _ in range(19):
        assert budget.allows(reports=4, characters=4 * 15_000)
        assert budget.allows(rows=4 * (60 + 8))
    earned = (time.monotonic() - began_s) * 2000
    assert not budget.allows(rows=int(10_000 - 19 * 272 + earned + 1000))
    assert budget.allows(rows=1), "what was refused is not used up"


def test_two_tabs_of_the_same_browser_have_one_channel_for_signalling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = lambda name: lambda info: socket.socket(*info[:3])  # noqa: E731
    monkeypatch.setattr(invited_page, "sockets_in_node", here)
    signalling = SignallingServer()

    async def run() -> list[int]:
        async with TestServer(signalling.application()) as server:
            place = (
                f"ws://127.0.0.1:{server.port}/signalling?participant=alice&token={signalling.token('alice')}"
            )
            served = Served(place)
            async with TestClient(TestServer(served.page.application())) as client:
                mine = await cookie_of(client, served.root)
                asked = [
                    client.get(f"{served.root}signalling?calls=0", headers=mine, timeout=ClientTimeout(5))
                    for _ in range(2)
                ]
                answers = await asyncio.gather(*asked)
                streams = [one for one in answers if one.status == 200]
                present = {"type": "present", "call": 0, "participants": []}
                assert [await event(one) for one in streams] == [present]
                return sorted(one.status for one in answers)

    assert asyncio.run(run()) == [200, 409]


def test_the_certificate_is_for_the_address_and_a_day_and_its_key_is_gone(tmp_path: Path) -> None:
    context, fingerprint = self_signed("alice", "192.168.1.5", tmp_path / "home")
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["alice.pem"]

    async def shown() -> bytes:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.7", 0, ssl=context)
        place = server.sockets[0].getsockname()
        async with server:
            text = await asyncio.to_thread(ssl.get_server_certificate, place)
        return ssl.PEM_cert_to_DER_cert(text)

    der = asyncio.run(shown())
    certificate = x509.load_der_x509_certificate(der)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.168.1.5"]
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(hours=23) < left <= timedelta(days=1)
    assert fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert self_signed("alice", "192.168.1.5", tmp_path / "home")[1] != fingerprint
