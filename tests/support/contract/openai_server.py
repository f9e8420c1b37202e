"""A real HTTP server on loopback that speaks the OpenAI protocol and remembers everything."""

import json
import socket
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread

from support.contract._messages_wire import message, message_events
from support.contract._openai_wire import (
    completion,
    embeddings,
    events,
    text_completion,
    text_events,
)
from support.contract._responses_wire import response, response_events
from support.servers import free_port


class OpenAIServer:
    """``with OpenAIServer() as server``: point a client at ``server.url``.

    Answers chat completions, responses, Anthropic's messages and completions of prompts, whole or
    streamed, and embeddings; which of them, the path says.

    Attributes:
        mode: ``"ok"`` answers ``reply``; ``"echo"`` the text of the last message; ``"slow"`` waits
            30 s, or until the server closes; ``"error"`` is HTTP 500 and quotes the request, as
            vendors do; ``"malformed"`` is broken JSON; ``"empty"`` a null content;
            ``"redirect"`` sends callers on to ``redirect_to`` with ``redirect_status``.
        reply: The answer: text, tool calls, or a function from the request to one of these.
        script: Answers that come before ``reply``, one per request.
        failures: How many of the next requests get an HTTP 500 that quotes them.
        requests: Bodies of all requests, parsed where they are JSON, else ``{"raw": bytes}``.
        bodies: The same, as they came.
        raw: The same with request line and headers.
        port: Of loopback.
        url: Base URL for clients.
        redirect_to: URL of another server.
        redirect_status: HTTP 307, or another that redirects.
    """

    def __init__(self, reply="a fine answer", mode="ok"):
        self.mode, self.reply, self.script, self.failures = mode, reply, deque(), 0
        self.redirect_to, self.redirect_status = "", 307
        self.requests, self.bodies, self.raw = [], [], []
        self.closing, self._lock = Event(), Lock()
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._http = _server(_handler(self))
        self.port = int(self._http.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *details):
        self.stop()
        self._kept.close()

    def stop(self):
        """Refuse connections from now on; a second time does nothing."""
        if not self.closing.is_set():
            self.closing.set()
            with suppress(OSError):  # its loop looks at the flag of ``shutdown`` when it wakes
                self._http.socket.shutdown(socket.SHUT_RDWR)
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
            with suppress(OSError):  # nobody else gets the port, and who connects is refused
                self._kept.bind(("127.0.0.1", self.port))

    @property
    def prompts(self):
        """Content of the last message of every chat request."""
        return [each["messages"][-1]["content"] for each in self.requests if "messages" in each]

    def saw(self, word):
        """Whether the word occurs in any request: line, headers or body."""
        return any(word.encode() in each for each in self.raw)

    def _received(self, head, body):
        """The request, and whether it is one that fails."""
        with self._lock:
            self.raw.append(head.encode() + body)
            self.bodies.append(body)
            self.requests.append(_parsed(body))
            fails, self.failures = self.failures > 0, max(0, self.failures - 1)
            return self.requests[-1], fails or self.mode == "error"

    def _said(self, request):
        if self.mode == "empty":
            return None
        if self.mode == "echo":
            return _last_text(request)
        with self._lock:
            reply = self.script.popleft() if self.script else self.reply
        return reply(request) if callable(reply) else reply


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # threads that connect at once
    daemon_threads = True


def _server(handler):
    """Listens where, once it has stopped, no server of another test will: at no system's port."""
    while True:
        with suppress(OSError):  # somebody was faster
            return _Server(("127.0.0.1", free_port()), handler)


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self._body()
            request, fails = server._received(f"{self.requestline}\n{self.headers}", body)
            with suppress(ConnectionError):
                self._answer(request, fails)

        do_GET = do_PATCH = do_POST

        def log_message(self, *args):
            pass

        def _body(self):
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, request, fails):
            if server.mode == "slow":
                server.closing.wait(30)
            if server.mode == "redirect":
                path = self.path.removeprefix("/v1")
                self._send(server.redirect_status, b"", Location=server.redirect_to + path)
            elif fails:
                self._send(500, json.dumps({"error": {"message": str(request)}}).encode())
            elif server.mode == "malformed":
                self._send(200, b'{"choices": [{"message": ')
            elif request.get("stream"):
                self._send(200, self._streamed(request), kind="text/event-stream")
            else:
                self._send(200, json.dumps(self._whole(request)).encode())

        def _whole(self, request):
            if self.path.endswith("/count_tokens"):
                return {"input_tokens": len(json.dumps(request))}
            if "input" in request and not self.path.endswith("/responses"):
                return embeddings(request)
            said = server._said(request)
            if self.path.endswith("/messages"):
                return message(said)
            if self.path.endswith("/responses"):
                return response(said, len(server.requests))
            return text_completion(str(said)) if "prompt" in request else completion([said])

        def _streamed(self, request):
            said = server._said(request)
            if self.path.endswith("/messages"):
                return message_events(said)
            if self.path.endswith("/responses"):
                return response_events(said, len(server.requests))
            return text_events(str(said)) if "prompt" in request else events(said)

        def _send(self, status, body, kind="application/json", **headers):
            self.send_response(status)
            headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _last_text(request):
    """Of the last message, or of the last item or prompt."""
    last = request.get("messages") or request.get("input") or request["prompt"]
    if isinstance(last, list):
        last = last[-1]
    if isinstance(last, dict):
        last = last.get("content", last.get("output"))
    if isinstance(last, list):
        texts = [part if "text" in part else part["content"][0] for part in last]
        last = "".join(part["text"] for part in texts)
    return last


def _parsed(body):
    with suppress(ValueError):
        request = json.loads(body)
        if isinstance(request, dict):
            return request
    return {"raw": body}
