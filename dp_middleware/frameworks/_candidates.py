"""Candidate rewrites from a chat model: asked for at once, cleaned and pruned by public rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import cycle, islice
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.errors import ChatError, RemoteError, withheld
from dp_middleware.models.adapters import Messages
from dp_middleware.models.chat import ChatModel
from dp_middleware.privacy import Unit

T = TypeVar("T")


class CandidateEncoder(Protocol):
    """What pruning needs of an embedding service."""

    def encode(self, texts: Sequence[str], /) -> ArrayLike:
        """Returns unit vectors of whole texts, float (n, d)."""


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

_OPENINGS = (
    "Write one fluent text in place of the one below",
    "Turn the text below into one fluent text",
    "Guess what the text below was meant to say and write that",
    "Rewrite the text below so that it reads well",
)
_MANNERS = (
    "keep its topic and the structure of its sentences",
    "keep its topic and about its length",
    "keep its topic and use plain words",
    "keep its topic and its tone",
    "keep its topic and prefer short sentences",
)  # of a number coprime to that of the openings: all pairs come before one comes again


def rewriting_prompts(k: int) -> tuple[str, ...]:
    """Returns public instructions for ``PrivRewrite(prompts=)``, one for each of k candidates.

    They ask for the same in other words and another manner. From the 21st on they come again.
    """
    _validate.at_least(1, k=k)
    return tuple(
        f"{opening}: words of it were replaced at random. Correct what makes no sense, {manner}, "
        "and add no facts. Answer with the text only."
        for opening, manner in islice(zip(cycle(_OPENINGS), cycle(_MANNERS), strict=False), k)
    )


def questions(sanitized: str, unit: Unit, k: int, prompts: Sequence[str]) -> list[Messages]:
    """Writes what the chat model is asked for k candidates, with the prompts in turns, or ours."""
    instructions = islice(cycle(prompts or [_TASKS[unit]]), k)
    return [[{"role": "user", "content": f"{i}\n\nText:\n{sanitized}"}] for i in instructions]


async def answers(
    model: ChatModel, questions: Sequence[Messages], minimum: int, gate: asyncio.Semaphore
) -> list[str]:
    """Answers in the order of public questions, each of which may fail; RemoteError: too few.

    What UTF-8 cannot say, a lone surrogate, comes as a question mark.
    """
    failures: list[str] = []

    async def ask(question: Messages) -> str | None:
        try:
            async with gate:
                return await model.acall(question)
        except ChatError as error:
            failures.append(str(error))
            return None

    texts = [answer for answer in await all_of(map(ask, questions)) if answer is not None]
    if len(texts) < minimum:
        expected = f"at least {minimum} of {len(questions)} candidates"
        raise RemoteError(f"expected {expected}, got {len(texts)}; {failures[-1]}")
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
    return [*filter(usable, first.values())]


def prune(texts: list[str], encoder: CandidateEncoder, above: float) -> list[str]:
    """Drops, in their order, a text of a similarity (1 + cosine) / 2 above this to one kept."""
    if above >= 1 or len(texts) < 2:
        return texts
    failed = "expected sentence vectors for pruning, the service failed with {}; what was charged "
    with withheld(failed + "stays spent; prune_above=1 needs none"):
        rows = np.asarray(encoder.encode(texts), dtype=np.float64)
    similarity = (1 + rows @ rows.T) / 2
    kept: list[int] = []
    for number, row in enumerate(similarity):
        kept += [number] if (row[kept] <= above).all() else []
    return [texts[number] for number in kept]
