"""Serves the page call.html, passes messages between the people, and keeps what they saw in shown.jsonl."""

import json
import os
import queue
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

people: dict[str, queue.Queue[object]] = {}
entering = threading.Lock()


class Handler(SimpleHTTPRequestHandler):
    """GET /hear?name=alice is a stream of events; POST /say?name=alice sends a message to all others."""

    def do_GET(self) -> None:
        """Streams the messages of the others, or sends a file."""
        if urlsplit(self.path).path != "/hear":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with entering:
            present, people[self.name] = list(people), queue.Queue()
        people[self.name].put({"present": present})
        while True:
            message = people[self.name].get()
            self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
            self.wfile.flush()

    def do_POST(self) -> None:
        """Passes a message on, or keeps what someone saw."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "shown" in message:
            with entering, Path("shown.jsonl").open("a") as file:
                file.writelines(json.dumps({"name": self.name, **one}) + "\n" for one in message.pop("shown"))
        for other, messages in list(people.items()):
            if message and other != self.name:
                messages.put(message)
        self.send_response(204)
        self.end_headers()

    @property
    def name(self) -> str:
        """Who asks."""
        return parse_qs(urlsplit(self.path).query)["name"][0]

    def log_message(self, *_: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    ThreadingHTTPServer(
        (os.environ["RTCLAB_ADDRESS"], int(os.environ["RTCLAB_PORT"])), Handler
    ).serve_forever()
