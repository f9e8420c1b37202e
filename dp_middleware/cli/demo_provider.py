"""The demo's stand-in for a provider: an OpenAI-like server on loopback with ready sentences."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from dp_middleware.errors import needs

with needs("gateway"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

from dp_middleware.gateway.app import server_options
from dp_middleware.gateway.serving import Config, Server
from dp_middleware.gateway.upstream import sse

MODEL = "stand-in"
TOOL = "look_up_order"
_ORDER = re.compile(r"\b[A-Z]{3}-\d{5}\b")
_NAME = re.compile(r"I am (\S+ \S+) \(")
_REFUND = re.compile(r"\$[\d,]+\.\d\d")
_PAUSE = 0.02  # seconds between two words of a stream, so that a person sees it stream


class Provider:
    """Answers by rule: it calls the tool it is offered, then fills what it read into a sentence.

    Attributes:
        bodies: What it was sent, request by request; released texts only.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        texts = " ".join(str(message.get("content") or "") for message in body["messages"])
        if body.get("tools") and body["messages"][-1]["role"] != "tool":
            return JSONResponse(_answered(tool_calls=[_call(texts)]))
        answer = answer_to(texts)
        if not body.get("stream"):
            return JSONResponse(_answered(content=answer))
        return StreamingResponse(_streamed(answer), media_type="text/event-stream")


def _call(texts: str) -> dict[str, Any]:
    order = _ORDER.search(texts)
    arguments = json.dumps({"order": order[0] if order else ""})
    function = {"name": TOOL, "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function}


def answer_to(texts: str) -> str:
    """Fills the name, the order and the amount of a letter into a ready sentence."""
    matches = [pattern.search(texts) for pattern in (_NAME, _ORDER, _REFUND)]
    if None in matches:
        return f"You wrote: {texts}"
    name, order, refund = (match[match.re.groups] for match in matches if match)
    return f"Dear {name}, order {order} was lost on its way. We are sorry, and refund {refund}."


def _answered(**message: Any) -> dict[str, Any]:
    whole = {"role": "assistant", "content": None, **message}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": whole, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": MODEL} | {
        "choices": [choice]
    }


async def _streamed(answer: str) -> AsyncIterator[bytes]:
    for word in re.findall(r"\S+\s*", answer):
        yield _event({"content": word})
        await asyncio.sleep(_PAUSE)
    yield _event({}, "stop") + b"data: [DONE]\n\n"


def _event(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
    return sse({**chunk, "choices": [choice]})


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
