"""What a chat model is asked for candidates with: public text only."""

from __future__ import annotations

from collections.abc import Sequence

from dp_middleware import _validate
from dp_middleware.models.adapters.base import Messages
from dp_middleware.privacy import Unit

_TASKS: dict[Unit, str] = {
    "occurrence": "Words of the text below were replaced at random. Write one fluent text in its "
    "place: keep the topic, the sentence structure and about the length, correct what makes no "
    "sense, and add no facts. Answer with the text only.",
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
    """Different public instructions for ``PrivRewrite(prompts=)``: one for each of k candidates.

    They ask for the same in other words and another manner, so that candidates differ where the
    model's temperature alone does not make them. From the 21st on they come again.
    """
    _validate.at_least(1, k=k)
    pairs = [(_OPENINGS[i % len(_OPENINGS)], _MANNERS[i % len(_MANNERS)]) for i in range(k)]
    return tuple(
        f"{opening}: words of it were replaced at random. Correct what makes no sense, {manner}, "
        "and add no facts. Answer with the text only."
        for opening, manner in pairs
    )


def questions(sanitized: str, unit: Unit, k: int, prompts: Sequence[str]) -> list[Messages]:
    """What the chat model is asked for k candidates, with the prompts in turns, or with ours."""
    asked = prompts or (_TASKS[unit],)
    texts = [f"{asked[i % len(asked)]}\n\nText:\n{sanitized}" for i in range(k)]
    return [[{"role": "user", "content": text}] for text in texts]
