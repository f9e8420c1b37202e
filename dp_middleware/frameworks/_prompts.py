"""What a chat model is asked for candidates with: public text only."""

from __future__ import annotations

from collections.abc import Sequence

from dp_middleware import _validate
from dp_middleware.frameworks._candidates import asked, prompt
from dp_middleware.models.adapters.base import Messages
from dp_middleware.privacy import Unit

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
    """Returns public instructions for ``PrivRewrite(prompts=)``: one for each of k candidates.

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
    if not prompts:
        return [prompt(sanitized, unit)] * k
    return [asked(prompts[i % len(prompts)], sanitized) for i in range(k)]
