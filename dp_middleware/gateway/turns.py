"""One request from its private texts to a public body, and the way back of its answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, is_structured
from dp_middleware.conversation.transcript import Unknown
from dp_middleware.gateway.accounts import Account
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call

T = TypeVar("T")

HEADER = "x-dp-conversation"
_NAME = re.compile(r"[\x21-\x7e]{1,200}")


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
    """The conversation of the header, if there is one; it is kept here and never forwarded.

    Raises:
        Failure: A name that is none.
    """
    name = call.request.headers.get(HEADER)
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        message = f"expected {HEADER} as 1 to 200 printable characters without blanks"
        raise Failure(400, message, "invalid_header", param=HEADER)
    return f"{call.client.id}\x1fnamed\x1f{name}"


async def released(call: Call, read: Callable[[], Plan]) -> Turn:
    """Charges and draws for all that is private in a request, in a thread.

    Args:
        call: The request.
        read: Reads it.

    Raises:
        Failure: Something in it cannot be released; nothing was charged.
        DPMiddlewareError: The release failed; nothing was sent. Holds no text.
    """
    return await in_thread(lambda: _released(call, read))


def _released(call: Call, read: Callable[[], Plan]) -> Turn:
    started = time.perf_counter()
    plan, session, policy = read(), call.session, call.policy
    unknown: Unknown = "refuse"
    if policy.answers == "public":
        unknown = _words_only if session.restores else "pass"
    exchange = session.exchange(
        plan.transcript,
        conversation=plan.conversation,
        unknown=unknown,
        tools="all" if "all" in policy.tool_originals else policy.tool_originals,
        after=plan.after,
    )
    account = Account.of(call.policy_name, exchange.releases, exchange.receipt.charged)
    call.gateway.measures.released(account.draws, account.nats, time.perf_counter() - started)
    return Turn(
        call=call,
        plan=plan,
        exchange=exchange,
        body=plan.build(exchange.sent),
        headers=account.headers(call, exchange.receipt.remaining),
    )


def _words_only(answer: str) -> bool:
    """Passes an answer that was declared public, if it is words.

    Raises:
        Failure: It is more; nothing was charged.
    """
    if is_structured(answer):
        message = (
            "expected calls of tools, refusals and reasoning that came through this gateway, "
            'in the same conversation and unchanged; answers = "public" is for words only '
            "where there are pseudonyms"
        )
        raise Failure(400, message, "unknown_answer")
    return True


async def in_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Runs a function that handles private text in a thread: its failures hold none of it.

    Args:
        work: The function.
        threads: In which it runs; default: those that release.

    Raises:
        DPMiddlewareError: The library's as it is, of others the type only.
    """
    if threads is None:
        return await asyncio.to_thread(guarded, work)
    return await asyncio.get_running_loop().run_in_executor(threads, guarded, work)
