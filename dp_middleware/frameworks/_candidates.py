"""Candidate rewrites from a chat model: asked for at once, cleaned and pruned by public rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.embedding.service import apart
from dp_middleware.errors import ChatError, RemoteError, withheld
from dp_middleware.models.adapters.base import Adapter, Messages
from dp_middleware.models.chat import ChatModel, chat_model, status_of
from dp_middleware.privacy import Unit

T = TypeVar("T")

_MARK = ">"
_REFUSALS = (400, 404, 405, 422, 501)  # HTTP: of the request, not of this moment


class CandidateEncoder(Protocol):
    """What pruning needs of an embedding service."""

    def encode(self, texts: Sequence[str], /) -> ArrayLike:
        """Unit vectors of whole texts, float (n, d)."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a rewrite is; counts only.

    Attributes:
        stage: ``"sanitized"``, in texts; ``"answered"`` and ``"failed"``, in candidates;
            ``"selected"``, in texts.
        done: How many there are of this stage so far.
        total: How many there can be.
    """

    stage: Literal["sanitized", "answered", "failed", "selected"]
    done: int
    total: int


Listener = Callable[[Progress], object]


_TASKS: dict[Unit, str] = {
    "occurrence": "Words of the text below were replaced at random. Write one fluent text in its "
    "place: keep the topic, the sentence structure and about the length, correct what makes no "
    "sense, and add no facts. Answer with the text only.",
    "sentence": "Each line below has key words and phrases of a sentence, some of them drawn at "
    "random. Write one fluent text that they may be from, a sentence for a line, and leave out "
    "what does not fit. Answer with the text only.",
    "text": "Below are key words and phrases of a text, one or two of them drawn at random. Write "
    "one fluent text that they may be from, in two or three sentences, and leave out what does not "
    "fit. Answer with the text only.",
    "value": "Rewrite the text below in other words: keep its facts, names, dates and numbers as "
    "they are. Answer with the text only.",
}


class ProgressCount:
    """Counts the steps of a rewrite and tells a listener of them."""

    def __init__(self, listener: Listener | None, totals: dict[str, int]) -> None:
        self._listener = listener
        self._totals = totals
        self._done = dict.fromkeys(totals, 0)

    def add(self, stage: Any, steps: int = 1) -> None:
        """Count and tell."""
        self._done[stage] += steps
        if self._listener is not None:
            done, total = self._done[stage], self._totals[stage]
            self._listener(Progress(stage=stage, done=done, total=total))


def prompt(sanitized: str, unit: Unit = "occurrence") -> Messages:
    """What the chat model is asked for one candidate. Public text only."""
    return asked(_TASKS[unit], sanitized)


def asked(instruction: str, sanitized: str) -> Messages:
    """The messages for a public instruction and a public text."""
    return [{"role": "user", "content": f"{instruction}\n\nText:\n{sanitized}"}]


class _Marked(Adapter):
    """Puts a mark before each answer: to a :class:`ChatModel`, an empty one is a failure.

    A server that refuses a call for several answers, and then answers the same alone, is asked
    for single ones from then on.
    """

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self._refused: Messages | None = None
        self._only_alone = False

    def ask(self, messages: Messages) -> str:
        return _MARK + self._inner.ask(messages)

    async def aask(self, messages: Messages) -> str:
        answer = await self._inner.aask(messages)
        self._only_alone |= messages == self._refused
        return _MARK + answer

    async def amany(self, messages: Messages, count: int) -> list[str] | None:
        if self._only_alone:
            return None
        try:
            return await self._inner.amany(messages, count)  # says itself which are empty
        except Exception as error:
            if status_of(error) in _REFUSALS:
                self._refused = messages
            raise


def generator_model(x: Any) -> ChatModel:
    """A chat model whose failures are :class:`RemoteError` and whose answers may be empty.

    Args:
        x: What :func:`chat_model` takes.
    """
    model = chat_model(x)
    return replace(model, adapter=_Marked(model.adapter), error=RemoteError)


async def answers(
    model: ChatModel,
    questions: Sequence[Messages],
    minimum: int,
    gate: asyncio.Semaphore,
    count: ProgressCount,
) -> list[str]:
    """An answer to each question that has one, in their order.

    One call asks for all where they are the same and the API has it. A server may refuse or ignore
    that, and it may fail: what is missing then is asked for by calls of their own, of which each
    may fail. What UTF-8 cannot say, a lone surrogate, comes as a question mark.

    Args:
        model: From :func:`generator_model`.
        questions: Public.
        minimum: Fewest that must come.
        gate: Bounds how many calls run at once.
        count: Is told of every answer and failure.

    Raises:
        RemoteError: Fewer than ``minimum`` came.
    """
    texts: list[str] = []
    k = len(questions)
    if k > 1 and all(question == questions[0] for question in questions):
        with suppress(ChatError):  # what did not come at once is asked for alone
            async with gate:
                texts = (await model.amany(questions[0], k) or [])[:k]
    for _ in texts:
        count.add("answered")
    failures: list[str] = []

    async def ask(question: Messages) -> str | None:
        try:
            async with gate:
                answer = await model.acall(question)
        except ChatError as error:
            failures.append(str(error))
            count.add("failed")
            return None
        count.add("answered")
        return answer.removeprefix(_MARK)

    alone = await all_of(map(ask, questions[len(texts) :]))
    texts += [answer for answer in alone if answer is not None]
    if len(texts) < minimum:
        raise RemoteError(
            f"expected at least {minimum} of {k} candidates, got {len(texts)}; {failures[-1]}"
        )
    return [text.encode("utf-8", "replace").decode() for text in texts]


async def all_of(work: Iterable[Awaitable[T]]) -> list[T]:
    """Results in order; the first failure, or being cancelled, cancels the rest."""
    tasks = [asyncio.ensure_future(part) for part in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def distinct(texts: Iterable[str], usable: Callable[[str], bool]) -> list[str]:
    """Usable texts in order, without those that repeat an earlier one but for case and blanks."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(" ".join(text.split()).casefold(), text.strip())
    return [text for text in first.values() if usable(text)]


def prune(texts: list[str], encoder: CandidateEncoder, above: float) -> list[str]:
    """Greedy, in their order: drop a text too similar to one already kept.

    Args:
        texts: Public.
        encoder: Gives sentence vectors.
        above: Largest similarity (1 + cosine) / 2 between two texts that are both kept.

    Raises:
        ParameterError: The encoder failed.
    """
    if above >= 1 or len(texts) < 2:
        return texts
    failed = "expected sentence vectors for pruning, the service failed with {}; what was charged "
    with withheld(failed + "stays spent; prune_above=1 needs none"):
        rows = np.asarray(apart(encoder)(texts), dtype=np.float64)
    similarity = (1 + rows @ rows.T) / 2
    kept: list[int] = []
    for number in range(len(texts)):
        if (similarity[number, kept] <= above).all():
            kept.append(number)
    return [texts[number] for number in kept]
