"""A request from its private texts to a public body, and its answer in pieces on the way back."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, is_structured
from dp_middleware.conversation.notebook import Unknown
from dp_middleware.errors import DPMiddlewareError, without_text
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.upstream import sse
from dp_middleware.privacy.releases import Receipt

T = TypeVar("T")

HEADER = "x-dp-conversation"
DONE = b"data: [DONE]\n\n"

_NAME = re.compile(r"[\x21-\x7e]{1,200}")
_TIGHT = (",", ":")
_PUBLIC = ("remote-answer", "declared-public")  # mechanisms of what is public
_LAST = 10.0  # seconds for the end of an answer
_EVENT_STREAM = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request that was read.

    Attributes:
        transcript: Private.
        build: The body for the upstream, from what goes out for the messages.
        conversation: Its name, if the client gave one.
        after: The upstream's id of the response that the request goes on from.
    """

    transcript: Sequence[Message] = field(repr=False)
    build: Callable[[Sequence[Message]], dict[str, Any]]
    conversation: str | None = None
    after: str | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A request whose private texts were released.

    Attributes:
        call: The request.
        plan: What was read in it.
        exchange: What went out, and the way back.
        body: Public: for the upstream.
        headers: For the response.
    """

    call: Call
    plan: Plan
    exchange: Exchange
    body: dict[str, Any]
    headers: dict[str, str]


def named(call: Call) -> str | None:
    """Returns the conversation of the header, if there is one; it is never forwarded."""
    name = call.request.headers.get(HEADER)
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        message = f"expected {HEADER} as 1 to 200 printable characters without blanks"
        raise Failure(400, message, "invalid_header", param=HEADER)
    return f"{call.client.id}\x1fnamed\x1f{name}"


async def released(call: Call, read: Callable[[Call], Plan]) -> Turn:
    """Charges and draws for all that is private in a request, in a thread.

    Raises:
        Failure: Something in it cannot be released; nothing was charged.
        DPMiddlewareError: The release failed; nothing was sent. Holds no text.
    """
    return await in_thread(lambda: _released(call, read(call)))


def _released(call: Call, plan: Plan) -> Turn:
    started, policy = time.perf_counter(), call.policy
    unknown: Unknown = "refuse"
    if policy.answers == "public":
        unknown = _words_only if call.session.restores else "pass"
    exchange = call.session.exchange(
        plan.transcript,
        conversation=plan.conversation,
        unknown=unknown,
        tools="all" if "all" in policy.tool_originals else policy.tool_originals,
        after=plan.after,
    )
    return Turn(
        call=call,
        plan=plan,
        exchange=exchange,
        body=plan.build(exchange.sent),
        headers=headers_of(call, exchange, time.perf_counter() - started),
    )


def headers_of(call: Call, exchange: Exchange, seconds: float) -> dict[str, str]:
    """Counts what a request released, and returns the headers that tell it; public numbers.

    The id of the release holds the account itself, signed.
    """
    own = call.session.sanitizer.certificate
    private = [r for r in exchange.releases if r.certificate.mechanism not in _PUBLIC]
    draws = len(exchange.receipt.charged)
    nats = math.fsum(certificate.epsilon for certificate in exchange.receipt.charged)
    spent = math.fsum(release.spent for release in private)
    count_releases(call, exchange.receipt, nats, seconds)
    account = {
        "policy": call.policy_name,
        "messages": len(private),
        "tokens": sum(release.tokens_total for release in private),
        "verbatim": sum(release.tokens_verbatim for release in private),
        "draws": draws,
        "spent": spent if math.isfinite(spent) else "inf",
        "charged": nats if math.isfinite(nats) else "inf",
        "created": int(time.time()),
    }
    headers = {
        "x-dp-release-id": call.sign("release", json.dumps(account, separators=_TIGHT).encode()),
        "x-dp-epsilon": f"{own.epsilon:.6g}",
        "x-dp-unit": own.unit,
        "x-dp-messages": str(account["messages"]),
        "x-dp-tokens": str(account["tokens"]),
        "x-dp-tokens-verbatim": str(account["verbatim"]),
        "x-dp-draws": str(draws),
        "x-dp-spent-nats": f"{spent:.6g}",
        "x-dp-charged-nats": f"{nats:.6g}",
    }
    if call.gateway.ledger is not None:
        remaining = exchange.receipt.remaining  # after the charge; if there was none, ask
        if remaining is None:
            remaining = call.gateway.ledger.remaining(call.client.subject)
        headers["x-dp-budget-remaining"] = f"{remaining:.6g}"
    return headers


def count_releases(call: Call, receipt: Receipt, nats: float, seconds: float) -> None:
    """Counts what a request drew and what was found in it, for the metrics and its span."""
    measures = call.gateway.measures
    call.facts.update({f"dp.found.{kind}": number for kind, number in receipt.found.items()})
    call.facts.update({"dp.draws": len(receipt.charged), "dp.release_seconds": seconds})
    call.facts["dp.detection_seconds"] = receipt.detection
    measures.release_seconds.observe(seconds)
    measures.releases.inc(len(receipt.charged))
    if math.isfinite(nats):
        measures.nats.inc(nats)
    if receipt.detection:
        measures.detection.observe(receipt.detection)
    for kind, number in receipt.found.items():
        measures.found.labels(kind).inc(number)


def _words_only(answer: str) -> bool:
    """Passes an answer that was declared public, if it is words."""
    if is_structured(answer):
        message = (
            "expected calls of tools, refusals and reasoning that came through this gateway, "
            'in the same conversation and unchanged; answers = "public" is for words only '
            "where there are pseudonyms"
        )
        raise Failure(400, message, "unknown_answer")
    return True


async def in_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Runs a function that handles private text in a thread: its failures hold none of it."""

    def textless() -> T:
        try:
            return work()
        except Exception as error:
            failure = without_text(error)
        raise failure.with_traceback(None)

    return await asyncio.get_running_loop().run_in_executor(threads, textless)


class EventWriter(Protocol):
    """What a wire makes of the events of its upstream.

    Attributes:
        named: Whether they have names: their types.
    """

    named: bool

    def feed(self, event: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Returns the events that the client is sent for one."""

    def complete(self) -> bool:
        """Tells whether the answer is whole."""

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns the event that ends an answer which is not, in the wire's form."""

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said; if the client has left, without waiting."""


class EventStream(Response):
    """A streamed answer: all of it happens in one task, which ends when the client leaves.

    Attributes:
        begun: Whether something was sent.
    """

    def __init__(self, turn: Turn, path: str, events: EventWriter, ends: bytes = b"") -> None:
        self.status_code, self.background, self.begun = 200, None, False
        self.init_headers({**_EVENT_STREAM, **turn.headers})
        self._turn, self._path, self._events, self._ends = turn, path, events, ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it.

        Raises:
            Failure: The upstream did not begin; nothing was sent.
        """
        leaving = asyncio.create_task(_until_gone(receive))
        writing = asyncio.create_task(self._write(send))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not writing.done():
                writing.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            raise error

    async def _write(self, send: Send) -> None:
        noted, upstream = False, self._turn.call.gateway.upstream
        body: dict[str, Any] = {"type": "http.response.body", "more_body": True}
        try:
            async with upstream.stream(self._path, self._turn.body) as events:
                start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(start)
                self.begun = True
                async for event in events:
                    for shown in self._events.feed(event):
                        await send({**body, "body": sse(shown, self._events.named)})
            noted = True
            await in_thread(self._events.note)
            failure = None if self._events.complete() else _BROKEN_OFF
        except DPMiddlewareError as error:
            if not self.begun:
                raise
            failure = failure_of(error)
        finally:
            if self.begun and not noted:
                self._events.note(left=True)
        last = self._ends
        if failure is not None:
            last = sse(self._events.broken(failure), self._events.named)
        async with asyncio.timeout(_LAST):  # a client that reads nothing is not waited for
            await send({**body, "body": last, "more_body": False})


_BROKEN_OFF = Failure(502, "the upstream's answer broke off", "upstream_ended", kind="server_error")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
