"""A request from its private texts to a public body, and its answer on the way back."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, is_structured
from dp_middleware.conversation.notebook import Unknown
from dp_middleware.errors import DPMiddlewareError, without_text
from dp_middleware.gateway.failures import Failure, failure_of, garbage
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.upstream import sse

T = TypeVar("T")

HEADER = "x-dp-conversation"
DONE = b"data: [DONE]\n\n"

_NAME = re.compile(r"[\x21-\x7e]{1,200}")
_TIGHT = (",", ":")
_PUBLIC = ("remote-answer", "declared-public")  # mechanisms of what is public
_LACKING = (TypeError, LookupError, AttributeError, ValueError, OverflowError)
_LAST = 10.0  # seconds for the end of an answer
_EVENT_STREAM = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request that was read."""

    transcript: Sequence[Message] = field(repr=False)  # private
    build: Callable[[Sequence[Message]], dict[str, Any]]  # the upstream's body, of what goes out
    after: str | None = None  # the upstream's id of the response that it goes on from


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A request whose private texts were released."""

    call: Call
    plan: Plan
    exchange: Exchange
    body: dict[str, Any]  # public: for the upstream
    headers: dict[str, str]  # for the response


def named(call: Call) -> str | None:
    """Returns the conversation of the header, if there is one; it is never forwarded."""
    name = call.request.headers.get(HEADER)
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        message = f"expected {HEADER} as 1 to 200 printable characters without blanks"
        raise Failure(400, message, "invalid_header", param=HEADER)
    return f"{call.client.id}\x1fnamed\x1f{name}"


async def released(call: Call, plan_of: Callable[[Call], Plan]) -> Turn:
    """Charges and draws for all that is private in a request, in a thread."""
    return await in_thread(lambda: _released(call, plan_of(call)))


def _released(call: Call, plan: Plan) -> Turn:
    started, policy = time.perf_counter(), call.policy
    unknown: Unknown = "refuse"
    if policy.answers == "public":
        unknown = (lambda answer: not is_structured(answer)) if call.session.restores else "pass"
    exchange = call.session.exchange(
        plan.transcript,
        conversation=named(call) if plan.after is None else None,
        unknown=unknown,
        tools="all" if "all" in policy.tool_originals else policy.tool_originals,
        after=plan.after,
    )
    body = plan.build(exchange.sent)
    headers = _headers(call, exchange, time.perf_counter() - started)
    return Turn(call=call, plan=plan, exchange=exchange, body=body, headers=headers)


def _headers(call: Call, exchange: Exchange, seconds: float) -> dict[str, str]:
    """Counts what a request released, and returns the headers that tell it; public numbers."""
    own, receipt = call.session.sanitizer.certificate, exchange.receipt
    private = [r for r in exchange.releases if r.certificate.mechanism not in _PUBLIC]
    spent = math.fsum(release.spent for release in private)
    nats = math.fsum(certificate.epsilon for certificate in receipt.charged)
    call.count(receipt, nats, seconds)
    counts = {
        "messages": len(private),
        "tokens": sum(release.tokens_total for release in private),
        "verbatim": sum(release.tokens_verbatim for release in private),
        "draws": len(receipt.charged),
    }
    sums = {"spent": spent, "charged": nats}
    finite = {name: nats if math.isfinite(nats) else "inf" for name, nats in sums.items()}
    account = {"policy": call.policy_name, **counts, **finite, "created": int(time.time())}
    signed = call.sign("release", json.dumps(account, separators=_TIGHT).encode())
    numbers = {"epsilon": own.epsilon, "spent-nats": spent, "charged-nats": nats}
    if call.gateway.ledger is not None:
        remaining = receipt.remaining  # after the charge; if there was none, ask
        if remaining is None:
            remaining = call.gateway.ledger.remaining(call.client.subject)
        numbers["budget-remaining"] = remaining
    return {
        "x-dp-release-id": signed,
        "x-dp-unit": own.unit,
        **{f"x-dp-{name}": str(counts[name]) for name in ("messages", "tokens", "draws")},
        "x-dp-tokens-verbatim": str(counts["verbatim"]),
        **{f"x-dp-{name}": f"{number:.6g}" for name, number in numbers.items()},
    }


async def in_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Runs a function that handles private text in a thread: its failures hold none of it."""

    def textless() -> T:
        try:
            return work()
        except Exception as error:
            failure = without_text(error)
        raise failure.with_traceback(None)

    return await asyncio.get_running_loop().run_in_executor(threads, textless)


def read(work: Callable[..., T], *args: Any, **named: Any) -> T:
    """Reads an upstream's answer: what it lacks is a failure of the upstream, not of ours."""
    try:
        return work(*args, **named)
    except _LACKING as error:
        if isinstance(error, DPMiddlewareError):
            raise
    raise garbage()


class Shown(ABC):
    """An answer of the upstream as the client is shown it; what the upstream lacks may raise."""

    is_named: ClassVar[bool] = False  # whether the protocol's events have names: their types
    ends: ClassVar[bytes] = b""  # stands behind the last event

    def __init__(self, turn: Turn) -> None:
        self.exchange = turn.exchange

    @abstractmethod
    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Notes a whole answer, and returns what the client is sent for it."""

    @abstractmethod
    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the events that the client is sent for one of the upstream's."""

    @abstractmethod
    def note(self, *, left: bool = False) -> bool:
        """Notes what was said, without waiting if the client has left; tells if that was all."""

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns the event that ends a streamed answer which is not whole."""
        return failure.body()


async def answered(
    call: Call, plan_of: Callable[[Call], Plan], path: str, shown: Callable[[Turn], Shown]
) -> Response:
    """Releases a request, asks the upstream, and shows its answer, whole or in pieces."""
    turn = await released(call, plan_of)
    if turn.body.get("stream"):
        return EventStream(turn, path, shown(turn))
    answer = await call.gateway.upstream.ask(path, turn.body)
    whole = await in_thread(lambda: read(shown(turn).whole, answer))
    return JSONResponse(whole, headers=turn.headers)


class EventStream(Response):
    """A streamed answer: all of it happens in one task, which ends when the client leaves."""

    def __init__(self, turn: Turn, path: str, shown: Shown) -> None:
        self.status_code, self.background = 200, None
        self.begun = False  # whether something was sent
        self.init_headers({**_EVENT_STREAM, **turn.headers})
        self._turn, self._path, self._shown = turn, path, shown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it; or raises :class:`Failure`: the upstream did not begin, nothing was sent."""
        leaving = asyncio.create_task(_until_gone(receive))
        writing = asyncio.create_task(self._write(send))
        leaving.add_done_callback(lambda _: writing.cancel())
        try:
            await writing
        except asyncio.CancelledError:
            if not leaving.done():
                raise
        finally:
            leaving.cancel()
            await asyncio.wait({leaving})

    async def _write(self, send: Send) -> None:
        noted, upstream, shown = False, self._turn.call.gateway.upstream, self._shown
        body: dict[str, Any] = {"type": "http.response.body", "more_body": True}
        try:
            async with upstream.stream(self._path, self._turn.body) as events:
                start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(start)
                self.begun = True
                async for event in events:
                    for each in shown.feed(event):
                        await send({**body, "body": sse(each, shown.is_named)})
            noted = True
            failure = None if await in_thread(lambda: read(shown.note)) else _BROKEN_OFF
        except (DPMiddlewareError, *_LACKING) as error:
            if not self.begun:
                raise
            failure = failure_of(error) if isinstance(error, DPMiddlewareError) else garbage()
        finally:
            if self.begun and not noted:
                read(shown.note, left=True)
        last = shown.ends if failure is None else sse(shown.broken(failure), shown.is_named)
        async with asyncio.timeout(_LAST):  # a client that reads nothing is not waited for
            await send({**body, "body": last, "more_body": False})


_BROKEN_OFF = Failure(502, "the upstream's answer broke off", "upstream_ended", kind="server_error")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
