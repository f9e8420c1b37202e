"""Attacks by chat models: candidates for every released token, and words that an answer repeats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import pairs
from dp_middleware.lab.metrics.inputs import Chat, words
from dp_middleware.lab.metrics.results import (
    MISSED,
    AttackResult,
    of_ranks,
    over_texts,
    rate_interval,
    sizes,
)
from dp_middleware.vocabulary.classes import word_of
from dp_middleware.vocabulary.vocabulary import Vocabulary

_SEES = "the attacker is a chat model that sees the released text only, and no mechanism or space"
_UNREAD = "a token for which no guess could be read counts as not recovered"
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
    """Asks a chat model for candidates for every released token, compares with the raw words.

    Only released tokens are sent, ``per_call`` at a time. Answers are read as JSON or as a numbered
    list; one that is neither counts as not recovered: ``details["malformed"]`` is the share of
    calls without any list, ``details["unanswered"]`` that of tokens without a candidate. A weak
    model shows little of what a better one would find.

    Reference: the GPT inference attack of InferDPT, in our words. ``raw`` is as for the other
    attacks, and not sent; as many guesses are asked for as the largest of ``top``.

    Raises:
        ParameterError: Ids that are not aligned, or the model does not return text.
        ChatError: From a :class:`dp_middleware.ChatModel` that fails: it would pass for privacy.
    """
    _validate.at_least(1, per_call=per_call)
    counts, texts = sizes(top), pairs(raw, released, space)
    vocabulary, places, malformed, unanswered = space.vocabulary, [], [], 0
    for text in texts:
        guesses: list[list[str]] = []
        for start in range(0, len(text.raw), per_call):
            sent = text.released[start : start + per_call]
            answered = _ask(model, sent, vocabulary, counts[-1])
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
    return of_ranks("llm_inference", places, counts, (_SEES, _UNREAD), details)


def prompt(tokens: Sequence[str], count: int) -> list[dict[str, str]]:
    """Asks, in messages, for ``count`` candidates for each of the released tokens."""
    listed = "\n".join(f"{number}. {token}" for number, token in enumerate(tokens, start=1))
    task = _TASK.format(count=count, tokens=listed)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]


def _ask(model: Chat, ids: Ids, vocabulary: Vocabulary, count: int) -> list[list[str]]:
    """Up to ``count`` candidates for each id, as words."""
    tokens = [vocabulary.tokens[number].strip() for number in ids]
    answer = model(prompt(tokens, count))
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
    """Reads the candidates for tokens 1 .. count: as JSON, also cut off, or from numbered lines."""
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


_ASSUMPTIONS = (
    "words are runs of letters and digits, whatever the case, and each Chinese or Japanese "
    "character; n-grams are counted once per text",
    "texts without an n-gram are left out",
    "common words are in most answers: compare with the share found in another text's answer",
    "interval: 95 %, over texts, which are independent",
)


def ngram_leakage(
    raw_texts: Sequence[str], answers: Sequence[str], *, n: int | Sequence[int] = (1, 2, 3)
) -> AttackResult:
    """Counts which n-grams of raw documents occur in the remote's answers to them.

    ``details["1-gram"]`` and so on for each n, in words; ``"chance 1-gram"`` is the share found in
    the answer to the next text instead: what common phrases give away of any text. The rate is that
    of the smallest n. Reference: InferDPT measures 1- to 3-grams.

    Raises:
        ParameterError: Other numbers of texts and answers, or no text has an n-gram.
    """
    if isinstance(raw_texts, str) or isinstance(answers, str) or len(raw_texts) != len(answers):
        raise ParameterError("expected sequences of texts and of answers of one length")
    lengths = sizes(n)
    pairs = list(zip(raw_texts, answers, strict=True))
    shifted = list(zip(raw_texts, [*answers[1:], *answers[:1]], strict=True))
    counts = {size: _count(pairs, size) for size in lengths}
    hits, totals = counts[lengths[0]]
    if not len(totals):
        raise ParameterError(f"expected a text of {lengths[0]} words or more, got none")
    details = {f"{size}-gram": _share(*counts[size]) for size in lengths}
    if len(pairs) > 1:
        details |= {f"chance {size}-gram": _share(*_count(shifted, size)) for size in lengths}
    return AttackResult(
        attack="ngram_leakage",
        rate=details[f"{lengths[0]}-gram"],
        **over_texts(rate_interval(hits, totals), len(totals)),
        assumptions=_ASSUMPTIONS,
        details=details,
    )


def _count(pairs: Sequence[tuple[str, str]], size: int) -> tuple[Floats, Floats]:
    """Shared and own distinct n-grams of each text that has any, float64 (m,) each."""

    def grams(text: str) -> frozenset[tuple[str, ...]]:
        own = words(text)
        return frozenset(zip(*(own[start:] for start in range(size)), strict=False))

    sets = [(grams(text), grams(answer)) for text, answer in pairs]
    counts = [(len(own & theirs), len(own)) for own, theirs in sets if own]
    hits, totals = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    return hits, totals


def _share(hits: Floats, totals: Floats) -> float:
    """0 where no text is long enough."""
    return float(hits.sum() / totals.sum()) if len(totals) else 0.0
