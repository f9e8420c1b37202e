"""One request from its private texts to a public body, and what came back to what is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.session import Item
from dp_middleware.conversation.transcript import Unknown
from dp_middleware.gateway.accounts import Account
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.words import are_json
from dp_middleware.privacy.receipts import receipts
from dp_middleware.pseudonyms.session import PseudonymSession

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request that was read.

    Attributes:
        transcripts: Private; looked at together, before any of them is charged.
        conversation: Its name; ``None``: the texts belong to none, and nothing of them is kept.
        build: The body for the upstream, from what goes out for all items, in their order.
    """

    transcripts: Sequence[Sequence[Item]] = field(repr=False)
    conversation: str | None = field(repr=False)
    build: Callable[[Iterator[str]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A request whose private texts were released.

    Attributes:
        call: The request.
        plan: What was read in it.
        body: Public: for the upstream.
        headers: For the response.
        restorers: Makes what restores an answer, of JSON or not; never waits. ``None``: the client
            is shown the remote answer.
    """

    call: Call
    plan: Plan
    body: dict[str, Any]
    headers: dict[str, str]
    restorers: Callable[[bool], Any] | None = field(repr=False)

    @property
    def restores(self) -> bool:
        """Whether the client is shown something else than the remote answer."""
        return self.restorers is not None

    def restore(self, text: str) -> str:
        """A remote answer as the client is shown it."""
        if self.restorers is None:
            return text
        restorer = self.restorers(False)
        return str(restorer.feed(text) + restorer.close())

    def restorer(self, *, json: bool) -> Any:
        """For an answer in pieces; ``None`` where the client is shown these."""
        return None if self.restorers is None else self.restorers(json)

    def note(self, said: Sequence[tuple[str, str]], *, left: bool = False) -> None:
        """Tell the session what the remote model answered; it may then go out again.

        Args:
            said: Its words, one message after the other, each with what the client was shown in
                their place, by which it is known too, behind the messages before.
            left: The answer was left before its end; then this never waits.
        """
        session, name = self.call.session, self.plan.conversation or ""
        transcript = list(self.plan.transcripts[0])
        for words, shown in said:
            transcript.append((None, "assistant", shown))
            places: list[Any] = [None] if shown == words else [None, list(transcript)]
            for place in places:
                if left:
                    session.note_left(words, conversation=name, transcript=place)
                else:
                    session.note_remote(None, words, conversation=name, transcript=place)


async def released(call: Call, read: Callable[[], Plan]) -> Turn:
    """Charge and draw for all that is private in a request, in a thread.

    Args:
        call: The request.
        read: Reads it.

    Raises:
        Failure: Something in it cannot be released; nothing was charged.
        DPMiddlewareError: The release failed; nothing was sent. Holds no text.
    """

    def work() -> Turn:
        started = time.perf_counter()
        plan, session = read(), call.session
        if plan.conversation is None:
            session = session.alone()
        name = plan.conversation or ""
        unknown: Unknown = "refuse"
        if call.policy.answers == "public":
            unknown = _words_only if session.restores else "pass"
        with receipts() as receipt:
            rows = session.release_all(
                plan.transcripts,
                conversation=name,
                unknown=unknown,
            )
        releases = [each for row in rows for each in row]
        try:
            body = plan.build(each.text for each in releases)
        except ValueError:
            body = None
        if body is None:
            raise Failure(400, "an assistant message cannot be released", "not_released")
        account = Account.of(call.policy_name, releases, receipt.charged)
        seconds = time.perf_counter() - started
        call.gateway.measures.released(account.draws, account.nats, seconds)
        restorers = None
        if isinstance(session, PseudonymSession):
            restorers = session.restorers(conversation=name)
        headers = account.headers(call, receipt.remaining)
        return Turn(call=call, plan=plan, body=body, headers=headers, restorers=restorers)

    return await in_thread(work)


def _words_only(answer: str) -> bool:
    """Pass an answer that was declared public, if names can be found in it for sure.

    Pseudonyms are for texts; in JSON a name may be spelled in escapes, in pieces or as a number.

    Raises:
        Failure: It is such JSON; nothing was charged.
    """
    if are_json(answer):
        message = (
            "expected calls of tools, refusals and reasoning that came through this gateway, "
            'in the same conversation and unchanged; answers = "public" is for words only '
            "where there are pseudonyms"
        )
        raise Failure(400, message, "unknown_answer")
    return True


async def in_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """A function that handles private text, run in a thread: its failures hold none of it.

    Args:
        work: The function.
        threads: In which it runs; default: those that release.

    Raises:
        DPMiddlewareError: The library's as it is, of others the type only.
    """
    if threads is None:
        return await asyncio.to_thread(guarded, work)
    return await asyncio.get_running_loop().run_in_executor(threads, guarded, work)
