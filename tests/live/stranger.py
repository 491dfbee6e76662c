"""A server that knows nothing of rtclab: its page sends the camera to it, and it sends silence back.

It takes the address and port to listen at, and the port of a STUN server at the same address.
"""

import sys

from aiohttp import web
from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

PAGE = """
<!doctype html>
<p id="state">waiting</p>
<script type="module">
const stun = `stun:${location.hostname}:STUN_PORT`;
const connection = new RTCPeerConnection({ iceServers: [{ urls: stun }] });
const kinds = new Set();
connection.onicecandidate = ({ candidate }) => candidate?.candidate && kinds.add(candidate.type);
const camera = await navigator.mediaDevices.getUserMedia({ video: { width: 320, height: 240 } });
connection.addTrack(camera.getVideoTracks()[0], camera);
connection.addTransceiver("audio", { direction: "recvonly" });
await connection.setLocalDescription();
while (connection.iceGatheringState !== "complete") await new Promise((done) => setTimeout(done, 50));
const { sdp, type } = connection.localDescription;
const body = JSON.stringify({ sdp, type, kinds: [...kinds] });
const answer = await fetch("/offer", { method: "POST", body });
await connection.setRemoteDescription(await answer.json());
</script>
"""

connections: set[RTCPeerConnection] = set()


async def answer(request: web.Request) -> web.Response:
    offer = await request.json()
    print("candidates:", *sorted(offer["kinds"]), flush=True)
    connection = RTCPeerConnection()
    connections.add(connection)
    await connection.setRemoteDescription(RTCSessionDescription(offer["sdp"], offer["type"]))
    connection.addTrack(AudioStreamTrack())
    await connection.setLocalDescription(await connection.createAnswer())
    made = connection.localDescription
    return web.json_response({"sdp": made.sdp, "type": made.type})


async def page(_request: web.Request) -> web.Response:
    return web.Response(text=PAGE.replace("STUN_PORT", sys.argv[3]), content_type="text/html")


def said(_banner: str) -> None:
    """Tells the test that the server listens."""
    print("listening", flush=True)


application = web.Application()
application.router.add_get("/", page)
application.router.add_post("/offer", answer)
web.run_app(application, host=sys.argv[1], port=int(sys.argv[2]), print=said)
