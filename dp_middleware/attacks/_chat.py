"""The inference attack by a chat model: lists of candidates for every released token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.attacks._lists import candidates
from dp_middleware.attacks._pairs import pairs
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.metrics.results import MISSED, AttackResult, of_ranks, sizes
from dp_middleware.vocabulary.vocabulary import Vocabulary
from dp_middleware.vocabulary.words import word_of

Chat = Callable[[list[dict[str, str]]], str]

_ASSUMPTIONS = (
    "the attacker is a chat model that sees the released text only, and no mechanism or space",
    "a token for which no guess could be read counts as not recovered",
)
_SYSTEM = "You recover the original words of texts that were made private."
_TASK = """\
Each token of a private text was replaced by a random one, often of a similar meaning and \
sometimes by itself. Infer the original tokens from the numbered replacements below, which are in \
reading order: the original text made sense as a whole.

For each number give your {count} best guesses of the original token, the likeliest first. Answer \
with one JSON object and nothing else, which maps every number to its list of guesses, such as
{{"1": ["first guess", "second guess"], "2": ["first guess", "second guess"]}}

{tokens}"""


def llm_inference(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    space: EmbeddingSpace,
    *,
    model: Chat,
    top: int | Sequence[int] = (1, 5, 10),
    per_call: int = 50,
) -> AttackResult:
    """Ask a chat model for candidates for every released token, compare with the raw words.

    Only released tokens are sent. Answers are read as JSON or as a numbered list; one that is
    neither counts as not recovered and is reported: ``details["malformed"]`` is the share of
    calls without any list, ``details["unanswered"]`` that of tokens without a candidate. A weak
    model or one that does not keep to the format shows little of what a better one would find.

    Reference:
        The GPT inference attack of InferDPT, which asks for a list per token; our words.

    Args:
        raw: Ids of each text, int (n,), -1 for an unknown token. Private; not sent.
        released: Ids drawn for them, int (n,), aligned token by token.
        space: V tokens.
        model: A :class:`dp_middleware.ChatModel` or a function from messages to text.
        top: Numbers of guesses; as many are asked for as the largest.
        per_call: Tokens that one call asks for.

    Raises:
        ParameterError: Ids that are not aligned, or the model does not return text.
        ChatError: From a :class:`dp_middleware.ChatModel` that fails: a failed call would pass
            for privacy.
    """
    _validate.at_least(1, per_call=per_call)
    counts, texts = sizes(top), pairs(raw, released, space)
    vocabulary, calls, malformed, unanswered = space.vocabulary, 0, 0, 0
    places = []
    for text in texts:
        parts = []
        for start in range(0, len(text.raw), per_call):
            part = slice(start, start + per_call)
            guesses = _ask(model, text.released[part], vocabulary, counts[-1])
            known = text.known[part]
            parts.append(_places(guesses, text.raw[part], vocabulary)[known])
            calls, malformed = calls + 1, malformed + (not any(guesses))
            unanswered += sum(not g for g, k in zip(guesses, known, strict=True) if k)
        places.append(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
    attacked = sum(map(len, places))
    details = {
        "calls": float(calls),
        "malformed": malformed / max(1, calls),
        "unanswered": unanswered / max(1, attacked),
    }
    return of_ranks("llm_inference", places, counts, _ASSUMPTIONS, details)


def prompt(tokens: Sequence[str], count: int) -> list[dict[str, str]]:
    """The messages that ask for ``count`` candidates for each of the released tokens."""
    listed = "\n".join(f"{number}. {token}" for number, token in enumerate(tokens, start=1))
    task = _TASK.format(count=count, tokens=listed)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]


def _ask(model: Chat, ids: Ids, vocabulary: Vocabulary, count: int) -> list[list[str]]:
    """Up to ``count`` candidates for each id, as words."""
    tokens = [vocabulary.tokens[number].strip() for number in ids]
    answer = model(prompt(tokens, count))
    if not isinstance(answer, str):
        raise ParameterError(
            f"expected a chat model that returns text, got {type(answer).__name__}; see "
            "dp.chat_model"
        )
    lists = candidates(answer, len(tokens))
    mark = vocabulary.tokenizer.continuation
    return [[word_of(guess, mark) for guess in guesses[:count]] for guesses in lists]


def _places(guesses: list[list[str]], raw: Ids, vocabulary: Vocabulary) -> Ids:
    """Rank of each true word among its candidates; anything for an unknown token."""
    places = np.full(len(raw), MISSED, dtype=np.int64)
    for position, (listed, number) in enumerate(zip(guesses, raw, strict=True)):
        word = word_of(vocabulary.tokens[number], vocabulary.tokenizer.continuation)
        if word in listed:
            places[position] = listed.index(word) + 1
    return places
