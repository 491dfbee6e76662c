"""A program: an MCU that mixes, on the library aiortc. ``mcu.py`` starts it in the server's node.

``python -m rtclab.backend.live.servers.mcu_program SETTINGS`` reads and writes lines of JSON like the program
``rtclab-sfu`` (``crates/rtclab-sfu/src/message.rs``). It decodes what each page sends, composes for each page
the pictures of all others in its call at regular times, mixes their sound, and encodes both. aiortc estimates
the rate of what it receives and sends REMB; its encoder follows the REMB of the page
(draft-alvestrand-rmcat-remb-03). It has no transport-wide feedback and no pacer.

``SETTINGS`` is a JSON object: ``address`` of the node; ``calls``, the call of each connection by number;
``video``, the composed picture (``width``, ``height``, ``frame_rate``, ``min_bps``, ``start_bps`` and
``max_bps``) or null; ``audio``, the rate of the mixed sound in bit/s or null.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import aiortc.codecs
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.codecs import opus, vpx
from aiortc.mediastreams import MediaStreamError
from aiortc.sdp import candidate_from_sdp
from av import AudioFrame, VideoFrame

from rtclab.backend.live.messages import Json
from rtclab.backend.live.servers.composition import Sound, compose, mix

MAX_LINE_BYTES = 1_000_000
VIDEO_CLOCK, AUDIO_CLOCK = 90_000, 48_000
CHANNELS = 2
SOUND_S = 0.02
SOUND_SAMPLES = round(AUDIO_CLOCK * SOUND_S)
MOST_SOUNDS = 10
"""At most 200 ms of a participant's sound wait to be mixed. If there is more, the oldest is dropped."""
MOST_WAITING = 2
"""Number of frames that may wait for the encoder. If there is one more, the oldest is dropped."""
SWITCH_INTERVAL_S = 0.0005
"""Longest time for which a thread that composes keeps the interpreter from the thread that receives."""


def say(message: Json) -> None:
    """Writes a line."""
    print(json.dumps(message), flush=True)


class MixedTrack(MediaStreamTrack):
    """What one page receives of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._frames: asyncio.Queue[Any] = asyncio.Queue(MOST_WAITING)

    def put(self, frame: Any) -> None:
        """Passes a frame to the encoder."""
        if self._frames.full():
            self._frames.get_nowait()
        self._frames.put_nowait(frame)

    async def recv(self) -> Any:
        """The next frame to encode."""
        return await self._frames.get()


class ServerPeer:
    """The server's end of one connection, which sends these ``kinds`` of media."""

    def __init__(self, number: int, call: int, kinds: Iterable[str]) -> None:
        self.number = number
        self.call = call
        self.picture: VideoFrame | None = None
        self.sounds: deque[Sound] = deque(maxlen=MOST_SOUNDS)
        self.out = {kind: MixedTrack(kind) for kind in kinds}
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._tasks: list[asyncio.Task[None]] = []
        self._peer.on("track", lambda track: self._tasks.append(asyncio.create_task(self._receive(track))))

    async def _receive(self, track: Any) -> None:
        try:
            while True:
                frame = await track.recv()
                if track.kind == "audio":
                    self.sounds.append(frame.to_ndarray().reshape(-1))
                    continue
                if self.picture is None:
                    say({"event": "first_frame", "connection": self.number, "at_ms": time.time() * 1e3})
                self.picture = frame
        except MediaStreamError:  # the page has left
            if track.kind == "video":
                self.picture = None

    async def answer(self, offer: Json) -> Json:
        """The answer to a page's offer."""
        await self._peer.setRemoteDescription(RTCSessionDescription(offer["sdp"], offer["type"]))
        for transceiver in self._peer.getTransceivers():
            if transceiver.kind in self.out:
                self._peer.addTrack(self.out[transceiver.kind])
        await self._peer.setLocalDescription(await self._peer.createAnswer())
        local = self._peer.localDescription
        return {"type": local.type, "sdp": local.sdp}

    async def add_candidate(self, about: Json) -> None:
        """Takes a candidate of the page."""
        _, _, text = about["candidate"].partition("candidate:")
        if text:
            candidate = candidate_from_sdp(text)
            candidate.sdpMid, candidate.sdpMLineIndex = about.get("sdpMid"), about.get("sdpMLineIndex")
            await self._peer.addIceCandidate(candidate)

    async def statistics(self) -> Json:
        """What the page reports of the media that it receives."""
        reports = [one for one in (await self._peer.getStats()).values() if one.type == "remote-inbound-rtp"]
        remote = [
            {
                "ssrc": one.ssrc,
                "kind": one.kind,
                "packetsLost": one.packetsLost,
                "fractionLost": one.fractionLost / 256,
                "roundTripTime": one.roundTripTime,
            }
            for one in reports
        ]
        return {"connection": self.number, "at_ms": time.time() * 1e3, "remote": remote}

    async def close(self) -> None:
        """Ends the connection."""
        self.picture = None
        for task in self._tasks:
            task.cancel()
        await self._peer.close()


class Mixer:
    """All calls of the server."""

    def __init__(self, settings: Json) -> None:
        self._calls: dict[str, int] = settings["calls"]
        self._video: Json | None = settings["video"]
        self._audio: int | None = settings["audio"]
        self._peers: dict[int, ServerPeer] = {}

    async def handle(self, message: Json) -> None:
        """Handles a line from a page, or of its end."""
        number = message["connection"]
        if message.get("close"):
            if number in self._peers:
                await self._peers.pop(number).close()
        elif "description" in message:
            peer = ServerPeer(number, self._calls[str(number)], [kind for kind, _ in self._work()])
            self._peers[number] = peer
            say({"connection": number, "description": await peer.answer(message["description"])})
        elif number in self._peers and message.get("candidate"):
            await self._peers[number].add_candidate(message["candidate"])

    async def run(self) -> None:
        """Mixes and reports without end."""
        await asyncio.gather(self._report(), *(work() for _, work in self._work()))

    def _work(self) -> list[tuple[str, Any]]:
        """The kinds of media that are mixed, and what mixes them."""
        return [
            *([("video", self._show)] if self._video else []),
            *([("audio", self._play)] if self._audio else []),
        ]

    def _others(self, peer: ServerPeer) -> list[ServerPeer]:
        """The other ends in the same call, in the order of their numbers."""
        return [one for _, one in sorted(self._peers.items()) if one.call == peer.call and one is not peer]

    async def _show(self) -> None:
        assert self._video is not None
        width, height, rate = (self._video[key] for key in ("width", "height", "frame_rate"))
        async for tick in ticks(1 / rate):
            for peer in list(self._peers.values()):
                pictures = [one.picture for one in self._others(peer) if one.picture is not None]
                if pictures:
                    whole = await asyncio.to_thread(compose, pictures, width, height)
                    whole.pts, whole.time_base = round(tick * VIDEO_CLOCK / rate), Fraction(1, VIDEO_CLOCK)
                    peer.out["video"].put(whole)

    async def _play(self) -> None:
        async for tick in ticks(SOUND_S):
            heard = {peer: peer.sounds.popleft() for peer in self._peers.values() if peer.sounds}
            for peer in self._peers.values():
                sounds = [heard[one] for one in self._others(peer) if one in heard]
                sound = mix(sounds, SOUND_SAMPLES * CHANNELS)
                frame = AudioFrame.from_ndarray(sound.reshape(1, -1), format="s16", layout="stereo")
                frame.sample_rate, frame.time_base = AUDIO_CLOCK, Fraction(1, AUDIO_CLOCK)
                frame.pts = tick * SOUND_SAMPLES
                peer.out["audio"].put(frame)

    async def _report(self) -> None:
        async for _ in ticks(1.0):
            for peer in list(self._peers.values()):
                say({"statistics": await peer.statistics()})


async def ticks(interval_s: float) -> Any:
    """Counts the intervals since now, as each ends."""
    began_s, tick = time.monotonic(), 0
    while True:
        tick += 1
        await asyncio.sleep(began_s + tick * interval_s - time.monotonic())
        yield tick


def set_rates(settings: Json) -> None:
    """Sets the rates of all encoders; aiortc has constants for them."""
    if video := settings["video"]:
        vpx.MIN_BITRATE, vpx.DEFAULT_BITRATE, vpx.MAX_BITRATE = (
            video[key] for key in ("min_bps", "start_bps", "max_bps")
        )

    class OpusEncoder(opus.OpusEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.codec.bit_rate = settings["audio"]

    codecs: Any = aiortc.codecs  # its type has no such attribute to set
    codecs.OpusEncoder = OpusEncoder


async def serve(settings: Json) -> None:
    """Serves until standard input ends."""
    set_rates(settings)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    mixer = Mixer(settings)
    reading = asyncio.create_task(read(lines, mixer))
    running = asyncio.create_task(mixer.run())
    say({"listening": settings["address"]})
    done, _ = await asyncio.wait({reading, running}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    # An error ends the server: a call without mixing would only look like a bad network.
    for task in done:
        task.result()


async def read(lines: asyncio.StreamReader, mixer: Mixer) -> None:
    """Handles lines until there are no more."""
    async for line in lines:
        message = json.loads(line)
        try:
            await mixer.handle(message)
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}", "connection": message.get("connection")})


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
