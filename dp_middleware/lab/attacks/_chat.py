"""Attacks by chat models: candidates for every released token, and words that an answer repeats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks.rows import IdArrays, pairs
from dp_middleware.lab.metrics import results
from dp_middleware.lab.metrics.results import AttackResult, Chat, Top, of_ranks, sizes, words
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
    raw: IdArrays,
    released: IdArrays,
    space: EmbeddingSpace,
    *,
    model: Chat,
    top: Top = (1, 5, 10),
    per_call: int = 50,
) -> AttackResult:
    """Asks a chat model for candidates for every released token, as InferDPT's GPT inference.

    Only released tokens are sent, ``per_call`` at a time, and as many guesses asked for as the
    largest of ``top``. Answers are read as JSON or as a numbered list: ``details["malformed"]`` is
    the share of calls without any list, ``details["unanswered"]`` that of tokens without a
    candidate. A weak model shows little of what a better one would find.

    Raises:
        ParameterError: Ids that are not aligned.
        ChatError: The model failed, or returned no text: it would pass for privacy.
    """
    _validate.at_least(1, per_call=per_call)
    counts, texts = sizes(top), pairs(raw, released, space)
    vocabulary, places, malformed, unanswered = space.vocabulary, [], [], 0
    for text in texts:
        guesses: list[list[str]] = []
        for start in range(0, len(text.raw), per_call):
            sent = text.released[start : start + per_call]
            guesses += (answered := _ask(model, sent, vocabulary, counts[-1]))
            malformed.append(not any(answered))
        known = np.flatnonzero(text.known)
        places.append(_places([guesses[k] for k in known], text.raw[known], vocabulary))
        unanswered += sum(not guesses[k] for k in known)
    details = {
        "calls": float(len(malformed)),
        "malformed": sum(malformed) / max(1, len(malformed)),
        "unanswered": unanswered / max(1, sum(map(len, places))),
    }
    return of_ranks("llm_inference", places, counts, (_SEES, _UNREAD), details)


def _ask(model: Chat, ids: Ids, vocabulary: Vocabulary, count: int) -> list[list[str]]:
    """Up to ``count`` candidates for each id, as words."""
    tokens = [f"{k}. {vocabulary.tokens[i].strip()}" for k, i in enumerate(ids, start=1)]
    task = _TASK.format(count=count, tokens="\n".join(tokens))
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]
    lists = candidates(results.asked(model)(messages), len(tokens))
    mark = vocabulary.tokenizer.continuation
    return [[word_of(guess, mark) for guess in guesses[:count]] for guesses in lists]


def _places(guesses: list[list[str]], raw: Ids, vocabulary: Vocabulary) -> Ids:
    """Rank of each true word among its candidates."""
    words = (word_of(vocabulary.tokens[k], vocabulary.tokenizer.continuation) for k in raw)
    pairs = zip(guesses, words, strict=True)
    found = [listed.index(word) + 1 if word in listed else results.MISSED for listed, word in pairs]
    return np.array(found, dtype=np.int64)


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
    raw_texts: Sequence[str], answers: Sequence[str], *, n: Top = (1, 2, 3)
) -> AttackResult:
    """Counts which n-grams of raw documents occur in the remote's answers to them, as InferDPT.

    ``details["1-gram"]`` and so on for each n, in words, of which the rate is the smallest;
    ``"chance 1-gram"`` is the share in the answer to the next text: what common phrases give away.
    ParameterError: not as many texts as answers, or none has an n-gram.
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
        **results.over_texts(results.rate_interval(hits, totals), len(totals)),
        assumptions=_ASSUMPTIONS,
        details=details,
    )


def _count(pairs: Sequence[tuple[str, str]], size: int) -> tuple[Floats, Floats]:
    """Shared and own distinct n-grams of each text that has any, float64 (m,) each."""

    def grams(text: str) -> set[tuple[str, ...]]:
        own = words(text)
        return {*zip(*(own[start:] for start in range(size)), strict=False)}

    sets = [(grams(text), grams(answer)) for text, answer in pairs]
    counts = [(len(own & theirs), len(own)) for own, theirs in sets if own]
    hits, totals = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    return hits, totals


def _share(hits: Floats, totals: Floats) -> float:
    return float(hits.sum() / totals.sum()) if len(totals) else 0.0
