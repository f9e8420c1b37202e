"""A real HTTP server on loopback that speaks the OpenAI chat protocol and remembers everything."""

from __future__ import annotations

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Literal, Self

Mode = Literal["ok", "echo", "slow", "error", "malformed", "empty", "redirect"]


class OpenAIServer:
    """``with OpenAIServer() as server``: point a client at ``server.url``.

    Attributes:
        mode: ``"ok"`` answers ``reply``; ``"echo"`` the last message; ``"slow"`` waits 30 s, or
            until the server closes; ``"error"`` is HTTP 500 and quotes the request, as vendors
            do; ``"malformed"`` is broken JSON; ``"empty"`` a null content; ``"redirect"`` an
            HTTP 307 to ``redirect_to``.
        reply: The answer.
        choices: Answers to a request for several, cut to its ``n``; without any, ``n`` is ignored.
        n_status: HTTP status of a request for several; as long as it is 200, it is answered.
        requests: Bodies of all requests, parsed where they are JSON, else ``{"raw": bytes}``.
        redirect_to: URL of another server.
    """

    def __init__(self, reply: str = "a fine answer", mode: Mode = "ok") -> None:
        self.mode: Mode = mode
        self.reply = reply
        self.choices: list[str | None] = []
        self.n_status = 200
        self.redirect_to = ""
        self.requests: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.closing = Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[str]:
        """Content of the last message of every chat request."""
        return [each["messages"][-1]["content"] for each in self.requests if "messages" in each]

    def saw(self, word: str) -> bool:
        """Whether the word occurs in any request: line, headers or body."""
        return any(word.encode() in each for each in self.raw)


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.raw.append(f"{self.requestline}\n{self.headers}".encode() + body)
            server.requests.append(_parsed(body))
            with suppress(ConnectionError):
                self._answer(server.requests[-1])

        do_GET = do_PATCH = do_POST

        def log_message(self, *args: object) -> None:
            """Nothing on the console."""

        def _answer(self, request: dict[str, Any]) -> None:
            if server.mode == "slow":
                server.closing.wait(30)
            if server.mode == "redirect":
                self._send(307, b"", Location=server.redirect_to + "/chat/completions")
            elif server.mode == "error":
                self._send(500, json.dumps({"error": {"message": str(request)}}).encode())
            elif request.get("n", 1) > 1 and server.n_status != 200:
                self._send(server.n_status, json.dumps({"error": {"message": "no n"}}).encode())
            elif request.get("n", 1) > 1 and server.choices:
                self._send(200, json.dumps(_several(server.choices[: request["n"]])).encode())
            elif server.mode == "malformed":
                self._send(200, b'{"choices": [{"message": ')
            elif request.get("stream"):
                self._send(200, _events(_content(server, request)), kind="text/event-stream")
            else:
                self._send(200, json.dumps(_completion(_content(server, request))).encode())

        def _send(
            self, status: int, body: bytes, kind: str = "application/json", **headers: str
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"raw": body}


def _content(server: OpenAIServer, request: dict[str, Any]) -> str | None:
    if server.mode == "empty":
        return None
    return request["messages"][-1]["content"] if server.mode == "echo" else server.reply


def _completion(content: str | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _several(contents: list[str | None]) -> dict[str, Any]:
    """One choice per content."""
    found = _completion(None)
    choices = [_completion(content)["choices"][0] for content in contents]
    return {**found, "choices": [{**each, "index": k} for k, each in enumerate(choices)]}


def _events(content: str | None) -> bytes:
    """Server-sent events, one per word with the blank before it."""
    words = [] if content is None else content.split(" ")
    pieces = [word if not k else f" {word}" for k, word in enumerate(words)]
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()
