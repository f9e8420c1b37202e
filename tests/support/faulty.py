"""An upstream that misbehaves in the middle of a streamed answer."""

import json
import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from support.texts import CANARY


def chunk(text, reason=None):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    return f"data: {json.dumps({**event, 'choices': [choice]})}\n\n".encode()


DROP = (
    b'data: {"type": "response.output_text.delta", "delta": "x", "sequence_number": 7, '
    b'"choices": [{"index": 0, "text": "x", "delta": {"content": "x"}}]}\n\n'
)


ODD = {
    "garbage": CANARY,
    "error": f'{{"error": {{"message": "{CANARY}"}}}}',
    "list": "[1, 2]",
    "odd": '{"choices": [{"index": "x", "delta": 5}]}',
}


class Faulty:
    """What the next request gets.

    Attributes:
        fault: One of :data:`ODD`, ``"hang"``, ``"close"``, ``"forever"``, ``"slow"`` or ``"drip"``:
            a word of any protocol now and then.
        left: Set when a client has closed the connection while it was written to.
    """

    def __init__(self):
        self.fault = "close"
        self.left, self.closing = Event(), Event()
        self.url = ""

    def write(self, wfile):
        left = self.left  # whoever waits for another has put it here
        try:
            self._write(wfile)
        except ConnectionError:
            left.set()

    def _write(self, wfile):
        while self.fault == "drip" and not self.closing.wait(0.05):
            wfile.write(DROP)
            wfile.flush()
        wfile.write(chunk("a"))
        wfile.write(chunk(" b"))
        wfile.flush()
        if self.fault == "hang":
            self.closing.wait(20)
        elif self.fault in ODD:
            wfile.write(f"data: {ODD[self.fault]}\n\n".encode())
        elif self.fault == "slow":
            self.closing.wait(5)
            wfile.write(chunk(" c", "stop") + b"data: [DONE]\n\n")
        while self.fault == "forever" and not self.closing.is_set():
            wfile.write(chunk(" more") * 50)


@contextmanager
def served(write, *, kind="text/event-stream", certificate=None, **headers):
    """A server on loopback whose answers a function writes; gives its port and the heads it saw."""
    heads = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            heads.append(str(self.headers).lower())
            self.send_response(200)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            write(self.wfile)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_address[1], heads
    server.shutdown()
    server.server_close()


@contextmanager
def faulty():
    upstream = Faulty()
    with served(upstream.write) as (port, _):
        upstream.url = f"http://127.0.0.1:{port}/v1"
        yield upstream
        upstream.closing.set()
