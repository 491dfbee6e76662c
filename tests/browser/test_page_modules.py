"""The modules of a call's page in Chromium: codecs, session descriptions, adaptation and the camera."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rtclab.backend.live.browsers.launch_options import find_chromium
from rtclab.backend.live.browsers.page_server import PAGE_DIRECTORY

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]


class Quiet(SimpleHTTPRequestHandler):
    """Serves the modules without a log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server of the page's modules."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PAGE_DIRECTORY)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    """A browser with fake devices, at the address of the modules."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = find_chromium() or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
    ):
        options.add_argument(argument)
    # A driver that ends leaves files of Chromium behind. Paths of its sockets must be short.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        environment = os.environ | {"TMPDIR": temporary}
        service = webdriver.ChromeService(shutil.which("chromedriver"), env=environment)
        driver = webdriver.Chrome(options=options, service=service)
        driver.set_script_timeout(60)
        driver.get(address + "codecs.js")
        yield driver
        driver.quit()


def result(browser: Any, module: str, body: str) -> Any:
    """What the JavaScript ``body`` returns, with the module's exports as ``it``; an error is its text."""
    script = f"""
        const done = arguments[0];
        (async () => {{ const it = await import("/{module}"); {body} }})()
            .then(done, (error) => done(String(error)));
    """
    return browser.execute_async_script(script)


OFFERED = """
    const offered = ["VP8", "rtx", "H264", "H264", "AV1", "VP9", "red", "ulpfec"]
        .map((name) => ({ mimeType: `video/${name}` }));
    const names = (codecs) => codecs && codecs.map(({ mimeType }) => mimeType.slice(6));
"""


@pytest.mark.parametrize(
    ("codec", "fec", "expected"),
    [
        ("vp8", "true", None),
        ("vp8", "false", ["VP8", "rtx"]),
        ("h264", "false", ["H264", "H264", "rtx"]),
        ("av1", "true", ["AV1", "rtx", "red", "ulpfec"]),
    ],
)
def test_a_codec_is_offered_with_retransmissions_and_with_fec_if_wanted(
    browser: Any, codec: str, fec: str, expected: list[str] | None
) -> None:
    preferred = f'return names(it.preferredCodecs(offered, "{codec}", {{ fec: {fec} }}));'
    assert result(browser, "codecs.js", OFFERED + preferred) == expected


def test_a_codec_that_the_browser_lacks_is_an_error_that_lists_its_codecs(browser: Any) -> None:
    said = result(browser, "codecs.js", OFFERED + 'it.preferredCodecs(offered, "h265", { fec: true });')
    assert said == "Error: this browser has no encoder for h265; it offers VP8, H264, AV1, VP9"


def test_without_transport_feedback_the_receivers_still_report_remb(browser: Any) -> None:
    lines = result(
        browser,
        "codecs.js",
        """
        const one = new RTCPeerConnection();
        one.addTransceiver("video");
        await one.setLocalDescription();
        const other = new RTCPeerConnection();
        const sdp = it.withoutTransportFeedback(one.localDescription.sdp);
        await other.setRemoteDescription({ type: "offer", sdp });
        await other.setLocalDescription();
        const has = (sdp) => ["transport-cc", "transport-wide-cc", "goog-remb", "abs-send-time"]
            .filter((word) => sdp.includes(word));
        return [has(one.localDescription.sdp), has(other.localDescription.sdp)];
        """,
    )
    assert lines == [
        ["transport-cc", "transport-wide-cc", "goog-remb", "abs-send-time"],
        ["goog-remb", "abs-send-time"],
    ]


CALL = """
    const camera = await navigator.mediaDevices.getUserMedia({ video: true });
    const [one, other] = [new RTCPeerConnection(), new RTCPeerConnection()];
    one.onicecandidate = ({ candidate }) => candidate && other.addIceCandidate(candidate);
    other.onicecandidate = ({ candidate }) => candidate && one.addIceCandidate(candidate);
    const sender = one.addTrack(camera.getTracks()[0], camera);
    const connect = async () => {
        await one.setLocalDescription();
        await other.setRemoteDescription(one.localDescription);
        await other.setLocalDescription();
        await one.setRemoteDescription(other.localDescription);
    };
    const inUse = async () => {
        const stats = await one.getStats();
        const sent = [...stats.values()].find(({ type, codecId }) => type === "outbound-rtp" && codecId);
        return sent ? it.withReferences(sent, stats).mimeType : null;
    };
    const used = async () => {
        let codec = null;
        for (let tries = 0; tries < 100 && codec === null; tries += 1) {
            await new Promise((resolve) => setTimeout(resolve, 100));
            codec = await inUse();
        }
        camera.getTracks()[0].stop();
        one.close();
        other.close();
        return codec;
    };
"""
"""A connection from ``one`` to ``other``, and the codec that it uses."""


@pytest.mark.parametrize("codec", ["vp8", "vp9", "h264", "av1"])
def test_the_browser_sends_the_preferred_codec_and_says_so(browser: Any, codec: str) -> None:
    prefer = f'it.preferCodec(one.getTransceivers(), "{codec}", {{ fec: false }});'
    before = "const before = await inUse(); await connect();"
    codecs = result(browser, "codecs.js", f"{CALL} {prefer} {before} return [before, await used()];")
    assert codecs == [None, f"video/{codec.upper()}"]


def test_a_sender_may_use_another_codec_than_the_first(browser: Any) -> None:
    choose = 'await connect(); await it.chooseCodec(sender, "vp9"); return await used();'
    assert result(browser, "codecs.js", CALL + choose) == "video/VP9"
    missing = """
        it.preferCodec(one.getTransceivers(), "av1", { fec: false });
        await connect();
        await it.chooseCodec(sender, "vp9");
    """
    said = "Error: vp9 was not negotiated; the connection has AV1"
    assert result(browser, "codecs.js", CALL + missing) == said


def test_the_sizes_of_simulcast_share_the_maximum_rate(browser: Any) -> None:
    layers = json.dumps(
        [{"rid": rid, "scaleResolutionDownBy": scale} for rid, scale in (("q", 4), ("h", 2), ("f", 1))]
    )
    limited = result(
        browser, "codecs.js", f"return it.simulcastEncodings({{ layers: {layers}, maxBitrate: 2100000 }});"
    )
    assert [(one["rid"], one["scaleResolutionDownBy"], one["maxBitrate"]) for one in limited] == [
        ("q", 4, 100_000),
        ("h", 2, 400_000),
        ("f", 1, 1_600_000),
    ]
    free = result(
        browser, "codecs.js", f"return it.simulcastEncodings({{ layers: {layers}, maxBitrate: null }});"
    )
    assert [sorted(one) for one in free] == [["rid", "scaleResolutionDownBy"]] * 3


def steps(browser: Any, losses: str) -> Any:
    """The step after each report of a fraction lost."""
    after = f"return {losses}.map((loss) => (decision.onLoss(loss), decision.step));"
    return result(browser, "adapt.js", f"const decision = new it.Decision(); {after}")


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ("[0, 0.09, 0.1, null, 0.05]", [0, 0, 0, 0, 0]),
        ("[0.11, 0.11, 0.11, 0.11]", [1, 1, 2, 2]),
        ("[0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]", [1, 1, 2, 2, 3, 3, 4, 4, 4, 4]),
        ("[0.2, 0, 0, 0, 0, 0, 0, 0]", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("[0.2, 0, 0, 0, 0, 0.05, 0, 0, 0, 0, 0]", [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]),
    ],
)
def test_the_camera_is_lowered_at_once_and_raised_after_five_calm_reports(
    browser: Any, losses: str, expected: list[int]
) -> None:
    assert steps(browser, losses) == expected


def test_pictures_of_all_steps_get_smaller_and_are_even(browser: Any) -> None:
    picture = "it.pictureAt(step, { width: 642, height: 362, frameRate: 30 })"
    pictures = result(browser, "adapt.js", f"return [0, 1, 2, 3, 4].map((step) => {picture});")
    assert [(one["width"], one["height"], one["frameRate"]) for one in pictures] == [
        (642, 362, 30),
        (482, 272, 30),
        (322, 182, 30),
        (322, 182, 15),
        (160, 90, 15),
    ]


def test_the_adapter_changes_only_the_camera_of_its_sender_and_reports_it(browser: Any) -> None:
    changed = result(
        browser,
        "adapt.js",
        """
        const video = { width: 640, height: 480, frameRate: 20 };
        const camera = await navigator.mediaDevices.getUserMedia({ video });
        const connection = new RTCPeerConnection();
        const sender = connection.addTrack(camera.getTracks()[0], camera);
        const reported = [];
        const adapter = new it.Adapter(sender, video, (type, fields) => reported.push([type, fields]));
        await adapter.onStats(0.01);
        await adapter.onStats(0.5);
        const size = (track) => [track.getSettings().width, track.getSettings().height];
        // A camera has new settings with its next picture.
        for (let tries = 0; tries < 150 && size(sender.track)[0] === video.width; tries += 1)
            await new Promise((resolve) => setTimeout(resolve, 100));
        const sizes = [size(sender.track), size(camera.getTracks()[0])];
        adapter.close();
        camera.getTracks()[0].stop();
        connection.close();
        return [sizes, reported];
        """,
    )
    assert changed == [
        [[480, 360], [640, 480]],
        [["event", {"event": "adapted", "detail": "480x360@20"}]],
    ]


def test_the_camera_has_exactly_the_configured_size_and_rate(browser: Any) -> None:
    settings = result(
        browser,
        "media.js",
        """
        const camera = await it.openCamera({ video: { width: 320, height: 240, frameRate: 10 }, audio: {} });
        const kinds = camera.getTracks().map(({ kind }) => kind).sort();
        const { width, height, frameRate } = camera.getVideoTracks()[0].getSettings();
        camera.getTracks().forEach((track) => track.stop());
        return [kinds, width, height, frameRate];
        """,
    )
    assert settings == [["audio", "video"], 320, 240, 10]


def test_a_file_that_cannot_be_played_is_named(browser: Any) -> None:
    body = 'await it.openCamera({ video: { width: 320, height: 240, frameRate: 10 }, clip: "/codecs.js" });'
    assert result(browser, "media.js", body).startswith("Error: cannot play /codecs.js: ")
