"""The application's own server: its page, LiveKit's client, and tokens for the room.

``python serve.py PORT``
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).parent
CLIENT = HERE.parents[3] / "target/strangers/livekit-client/dist/livekit-client.umd.js"
KEY, SECRET = "devkey", "secret"
"""What ``livekit-server --dev`` accepts."""
VALID_S = 3600


def token(room: str, identity: str) -> str:
    """A JSON Web Token (RFC 7519) that lets one person into a room."""
    header = {"alg": "HS256", "typ": "JWT"}
    may = {"room": room, "roomJoin": True}
    claims = {"iss": KEY, "sub": identity, "exp": int(time.time()) + VALID_S, "video": may}
    parts = [encode(json.dumps(part).encode()) for part in (header, claims)]
    signature = hmac.digest(SECRET.encode(), ".".join(parts).encode(), hashlib.sha256)
    return ".".join([*parts, encode(signature)])


def encode(data: bytes) -> str:
    """Base 64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/token":
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            self.answer(token(asked["room"], asked["name"]).encode(), "text/plain")
        elif url.path == f"/{CLIENT.name}":
            self.answer(CLIENT.read_bytes(), "text/javascript")
        else:
            super().do_GET()

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("", int(sys.argv[1])), partial(Handler, directory=HERE)).serve_forever()
