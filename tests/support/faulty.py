"""An upstream that misbehaves in the middle of a streamed answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from support.texts import CANARY


def chunk(text: str, reason: str | None = None) -> bytes:
    """One event of a chat completion."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    return f"data: {json.dumps({**event, 'choices': [choice]})}\n\n".encode()


DROP = (
    b'data: {"type": "response.output_text.delta", "delta": "x", "sequence_number": 7, '
    b'"choices": [{"index": 0, "text": "x", "delta": {"content": "x"}}]}\n\n'
)


class Faulty:
    """What the next request gets.

    Attributes:
        fault: ``"hang"``, ``"close"``, ``"garbage"``, ``"error"``, ``"list"``, ``"odd"``,
            ``"forever"``, ``"slow"`` or ``"drip"``: a word of any protocol now and then.
        left: Set when a client has closed the connection while it was written to.
        url: Base URL.
    """

    def __init__(self) -> None:
        self.fault = "close"
        self.left, self.closing = Event(), Event()
        self.url = ""

    def write(self, wfile: Any) -> None:
        """The events."""
        while self.fault == "drip" and not self.closing.wait(0.05):
            wfile.write(DROP)
            wfile.flush()
        wfile.write(chunk("a"))
        wfile.write(chunk(" b"))
        wfile.flush()
        if self.fault == "hang":
            self.closing.wait(20)
        elif self.fault == "garbage":
            wfile.write(f"data: {CANARY}\n\n".encode())
        elif self.fault == "error":
            wfile.write(f'data: {{"error": {{"message": "{CANARY}"}}}}\n\n'.encode())
        elif self.fault == "list":
            wfile.write(b"data: [1, 2]\n\n")
        elif self.fault == "odd":
            wfile.write(b'data: {"choices": [{"index": "x", "delta": 5}]}\n\n')
        elif self.fault == "slow":
            self.closing.wait(5)
            wfile.write(chunk(" c", "stop") + b"data: [DONE]\n\n")
        while self.fault == "forever" and not self.closing.is_set():
            wfile.write(chunk(" more") * 50)


@contextmanager
def faulty() -> Iterator[Faulty]:
    """Serves on loopback."""
    upstream = Faulty()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                upstream.write(self.wfile)
            except ConnectionError:
                upstream.left.set()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with suppress(ConnectionError):
        yield upstream
    upstream.closing.set()
    server.shutdown()
    server.server_close()
