"""Serves Debian's demos of Janus, with settings of our own: ``python serve.py PORT``."""

import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DEMOS = "/usr/share/janus/demos"
SETTINGS = Path(__file__).with_name("settings.js")


class Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        return str(SETTINGS) if path == "/settings.js" else super().translate_path(path)

    def __init__(self, *args: object) -> None:
        super().__init__(*args, directory=DEMOS)


ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
