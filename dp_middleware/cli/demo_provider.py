"""The demo's stand-in for a provider: an OpenAI-like server on loopback with ready sentences."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from dp_middleware.errors import needs

with needs("gateway"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

from dp_middleware.gateway.app import server_options
from dp_middleware.gateway.serving import Config, Server

MODEL = "stand-in"
_ORDER = re.compile(r"\b[A-Z]{3}-\d{5}\b")
_NAME = re.compile(r"I am (\S+ \S+) \(")
_REFUND = re.compile(r"\$[\d,]+\.\d\d")


class Provider:
    """Answers by rule: it calls the tool it is offered, then fills what it read into a sentence."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        texts = " ".join(str(message.get("content") or "") for message in body["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if body.get("tools") and body["messages"][-1]["role"] != "tool":
            reason, order = "tool_calls", _ORDER.search(texts)
            arguments = json.dumps({"order": order[0] if order else ""})
            function = {"name": "look_up_order", "arguments": arguments}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        else:
            reason, message["content"] = "stop", answer_to(texts)
        choice = {"index": 0, "message": message, "finish_reason": reason}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": MODEL}
        return JSONResponse({**answer, "choices": [choice]})


def answer_to(texts: str) -> str:
    """Fills the name, the order and the amount of a letter into a ready sentence."""
    matches = [pattern.search(texts) for pattern in (_NAME, _ORDER, _REFUND)]
    if None in matches:
        return f"You wrote: {texts}"
    name, order, refund = (match[match.re.groups] for match in matches if match)
    return f"Dear {name}, order {order} was lost on its way. We are sorry, and refund {refund}."


@contextmanager
def on_loopback(app: Any) -> Iterator[str]:
    """Serves an application in a thread, on a free port; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = {**server_options(), "log_config": None, "lifespan": "on"}
        server = Server(Config(app, **options))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
