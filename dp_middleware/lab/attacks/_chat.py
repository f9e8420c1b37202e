"""The inference attack by a chat model: it lists candidates for every released token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import pairs
from dp_middleware.lab.metrics.inputs import Chat
from dp_middleware.lab.metrics.results import MISSED, AttackResult, of_ranks, sizes
from dp_middleware.vocabulary.vocabulary import Vocabulary
from dp_middleware.vocabulary.words import word_of

_SEES = "the attacker is a chat model that sees the released text only, and no mechanism or space"
_SEES_EXAMPLES = (
    "the attacker is a chat model that sees the released text and {} examples, which it made "
    "itself from public text with the mechanism"
)
_UNREAD = "a token for which no guess could be read counts as not recovered"
_SYSTEM = "You recover the original words of texts that were made private."
_TASK = """\
Each token of a private text was replaced by a random one, often of a similar meaning and \
sometimes by itself. Infer the original tokens from the numbered replacements below, which are in \
reading order: the original text made sense as a whole.

For each number give your {count} best guesses of the original token, the likeliest first. Answer \
with one JSON object and nothing else, which maps every number to its list of guesses, such as
{{"1": ["first guess", "second guess"], "2": ["first guess", "second guess"]}}

{examples}{tokens}"""
_EXAMPLES = """\
In other texts the same method replaced these tokens, replacement -> original, in reading order:
{listed}

The replacements to infer from:
"""


def llm_inference(
    raw: Sequence[ArrayLike],
    released: Sequence[ArrayLike],
    space: EmbeddingSpace,
    *,
    model: Chat,
    top: int | Sequence[int] = (1, 5, 10),
    per_call: int = 50,
    examples: Sequence[tuple[ArrayLike, ArrayLike]] = (),
) -> AttackResult:
    """Asks a chat model for candidates for every released token, compares with the raw words.

    Only released tokens are sent, ``per_call`` at a time. Answers are read as JSON or as a numbered
    list; one that is neither counts as not recovered: ``details["malformed"]`` is the share of
    calls without any list, ``details["unanswered"]`` that of tokens without a candidate. A weak
    model shows little of what a better one would find, and any model without examples less than
    with them.

    ``examples`` are pairs of raw and released ids, aligned, that the attacker made itself: texts
    that are **public**, released by the same mechanism. They are sent with every call.

    Reference: the GPT inference attack of InferDPT, in our words. ``raw`` is as for the other
    attacks, and not sent; as many guesses are asked for as the largest of ``top``.

    Raises:
        ParameterError: Ids, of a text or an example, that are not aligned, or the model does not
            return text.
        ChatError: From a :class:`dp_middleware.ChatModel` that fails: it would pass for privacy.
    """
    _validate.at_least(1, per_call=per_call)
    counts, texts = sizes(top), pairs(raw, released, space)
    vocabulary, shown = space.vocabulary, _shown(examples, space)
    places, malformed, unanswered = [], [], 0
    for text in texts:
        guesses: list[list[str]] = []
        for start in range(0, len(text.raw), per_call):
            sent = text.released[start : start + per_call]
            answered = _ask(model, sent, vocabulary, counts[-1], shown)
            malformed.append(not any(answered))
            guesses += answered
        known = np.flatnonzero(text.known)
        places.append(_places([guesses[k] for k in known], text.raw[known], vocabulary))
        unanswered += sum(not guesses[k] for k in known)
    details = {
        "calls": float(len(malformed)),
        "malformed": sum(malformed) / max(1, len(malformed)),
        "unanswered": unanswered / max(1, sum(map(len, places))),
    }
    sees = _SEES_EXAMPLES.format(len(examples)) if examples else _SEES
    return of_ranks("llm_inference", places, counts, (sees, _UNREAD), details)


def prompt(tokens: Sequence[str], count: int, examples: str = "") -> list[dict[str, str]]:
    """Asks, in messages, for ``count`` candidates for each of the released tokens."""
    listed = "\n".join(f"{number}. {token}" for number, token in enumerate(tokens, start=1))
    task = _TASK.format(count=count, tokens=listed, examples=examples)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]


def _shown(examples: Sequence[tuple[ArrayLike, ArrayLike]], space: EmbeddingSpace) -> str:
    """What a model is told of pairs of ids, a blank line between texts; nothing of none."""
    if not examples:
        return ""
    tokens = space.vocabulary.tokens
    texts = pairs([raw for raw, _ in examples], [sent for _, sent in examples], space)
    listed = [
        "\n".join(
            f"- {tokens[after].strip()} -> {tokens[before].strip()}"
            for before, after in zip(text.raw[text.known], text.released[text.known], strict=True)
        )
        for text in texts
    ]
    return _EXAMPLES.format(listed="\n\n".join(listed))


def _ask(
    model: Chat, ids: Ids, vocabulary: Vocabulary, count: int, examples: str
) -> list[list[str]]:
    """Up to ``count`` candidates for each id, as words."""
    tokens = [vocabulary.tokens[number].strip() for number in ids]
    answer = model(prompt(tokens, count, examples))
    if not isinstance(answer, str):
        kind = type(answer).__name__
        raise ParameterError(f"expected a chat model that returns text, got {kind}: dp.chat_model")
    lists = candidates(answer, len(tokens))
    mark = vocabulary.tokenizer.continuation
    return [[word_of(guess, mark) for guess in guesses[:count]] for guesses in lists]


def _places(guesses: list[list[str]], raw: Ids, vocabulary: Vocabulary) -> Ids:
    """Rank of each true word among its candidates."""
    places = np.full(len(raw), MISSED, dtype=np.int64)
    for position, (listed, number) in enumerate(zip(guesses, raw, strict=True)):
        word = word_of(vocabulary.tokens[number], vocabulary.tokenizer.continuation)
        if word in listed:
            places[position] = listed.index(word) + 1
    return places


_LINE = re.compile(r"^[\s>*#-]*[\[(]?\"?(\d{1,6})\"?\s*(?:[.):\]]|->|=>|→|-\s)[.):*\s]*(.*)$")
_LIST = r"\[[^\[\]]*\]"
_ENTRY = re.compile(rf"\"(\d{{1,6}})\d*\"\s*:\s*({_LIST}|\"(?:[^\"\\]|\\.)*\")")
# what was asked about is often repeated before the candidates
_REPEATED = re.compile(r".*(?:->|=>|→)|^[^,;|/:]+:\s+(?=\S)")
_SEPARATOR = re.compile(r"[,;|/]")
_AROUND = " \t\r\n\"'`*[](){}<>.“”’\u2018"


def candidates(answer: str, count: int) -> list[list[str]]:
    """Reads the candidates for tokens 1 .. count, in order; an empty list where there are none.

    Read as JSON if the answer holds it, whole or cut off: numbers with lists, or lists alone, or a
    plain list. Else line by line: a number, then candidates between commas.
    """
    lists = [texts for listed in re.findall(_LIST, answer) if (texts := _texts(listed))]
    if len(lists) == 1 and count > 1:
        lists = [[text] for text in lists[0]]
    readings = (
        {int(number): _texts(listed) for number, listed in _ENTRY.findall(answer)},
        dict(enumerate(lists, start=1)),
        dict(_numbered_lines(answer)),
    )
    entries = next((entries for entries in readings if entries), {})
    return [entries.get(number, []) for number in range(1, count + 1)]


def _texts(listed: str) -> list[str]:
    """The texts of a JSON list, or one text; none if it is no JSON."""
    try:
        value = json.loads(listed)
    except ValueError:
        return []
    values = value if isinstance(value, list) else [value]
    return [text for guess in values if isinstance(guess, str) and (text := guess.strip())]


def _numbered_lines(answer: str) -> Iterator[tuple[int, list[str]]]:
    for line in answer.splitlines():
        if numbered := _LINE.match(line):
            parts = _SEPARATOR.split(_REPEATED.sub("", numbered[2]))
            yield int(numbered[1]), [text for part in parts if (text := part.strip(_AROUND))]
