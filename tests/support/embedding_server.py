"""A real server of ``/v1/embeddings`` with the limits and habits of those that people run."""

from __future__ import annotations

import hashlib
import json
import random
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

LIMIT = 32  # texts in one request
WIDTH = 6


def vector(text):
    """A function of the text alone."""
    return [byte / 128 - 1 for byte in hashlib.sha256(text.encode()).digest()[:WIDTH]]


def answer(request):
    """HTTP status and body; vectors come in any order."""
    texts = request["input"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return 422, {"error": f"token ids are not understood: {texts}"}
    if request.get("encoding_format") != "float":
        return 422, {"error": "numbers only"}
    if len(texts) > LIMIT:
        return 413, {"error": f"too many texts: {texts}"}
    data = [{"index": k, "embedding": vector(text)} for k, text in enumerate(texts)]
    random.Random(len(texts)).shuffle(data)
    return 200, {"object": "list", "data": data}


class EmbeddingsServer(ThreadingHTTPServer):
    """Remembers requests; ``mode`` is "ok", "error", "malformed", "short", "hangs up" or "away"."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests, self.headers, self.mode, self.connections = [], [], "ok", 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, given))
        self.server.headers.append(dict(self.headers))
        status, body = answer(given)
        if self.server.mode == "error":
            status, body = 500, {"error": f"cannot embed {given}"}
        if self.server.mode == "short":
            body["data"].pop()
        raw = json.dumps(body).encode()
        if self.server.mode == "malformed":
            raw = b'{"data": [' + json.dumps(given).encode()
        if self.server.mode == "away":
            status = 307
        self.send_response(status)
        if status == 307:
            self.send_header("Location", "http://127.0.0.1:9/v1/embeddings")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        if self.server.mode == "hangs up":  # without a word: the next request finds it closed
            self.close_connection = True

    def log_message(self, *args):
        """Nothing on the console."""


@contextmanager
def running():
    """A server on a free port of loopback."""
    with EmbeddingsServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
