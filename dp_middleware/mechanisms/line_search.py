"""The search of LanguageModelCode: words of a text, in an order in which a model expects them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.contexts.lines import Writer
from dp_middleware.embedding.arrays import Floats
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.keyword_code import english
from dp_middleware.vocabulary import frequencies

Row = NDArray[np.float32]

_WORD = re.compile(r"[^\W_]+(?:['.&/-][^\W_]+)*")
_PART = re.compile(r"[^\W_]{3,}")
_LISTED = re.compile("[a-z]+")
_PRICE = 0.003  # in cosine, of a nat
_PIECE = 1.5  # nats that a further token of a word is taken to cost if the model was not asked
_HOPE = 0.85  # of a guess: what a word costs in the end is often less
_MOVED = 1.0  # nats that a line must save for words to stand in another order than in the text
_GAPS = 3  # in a line that the model is asked about for a word
_SHORTEST = 5  # letters that stand for a long word
_MOST_READ = 64  # different words of a text
_MOST_WORDS = 256
_MOST_ASKED = 256  # tokens of long words
_MISSES = 6  # words that the model finds too dear, before a search ends


@dataclass(frozen=True, eq=False)
class _Word:
    """A word of a text, how a long one begins, or a part of one."""

    place: int  # in the text
    text: str
    tokens: tuple[int, ...]
    said: str  # what no other word of a line says
    whole: bool
    before: tuple[_Word, ...]  # words such as "of" that stand right before it, at most three

    @property
    def counted(self) -> float:
        """Nats of the word by counts of English."""
        return english().nats(self.text)


Line = tuple[_Word, ...]


class LineSearch:
    """Makes a line longer by a word of a text each time, where it is cheap in the line."""

    def __init__(
        self,
        writer: Writer,
        share: float,
        longest: int,
        limit: float,
        encode: codes.Encode,
        text: str,
        target: Row,
    ) -> None:
        self._writer, self._longest, self._limit = writer, longest, limit
        self._shares = math.log(1 - share), math.log(share)
        self._rows = partial(codes.finite_rows, encode)
        self._price = codes.price_of_a_nat(_PRICE, limit)
        self._target, self._words = target, self._read(text)
        self._pieces = self._asked([word.tokens for word in self._words if word.whole])

    def lines(self, shortlist: int) -> Iterator[str]:
        """Lines that come nearer and nearer to the text and can be paid for."""
        if self._words:
            keys = list(dict.fromkeys(word.text.lower() for word in self._words))
            grown, alone = (Line(), 0.0), dict(zip(keys, self._rows(keys), strict=True))
            for grown in self._grown(alone, shortlist):
                yield _spelled(grown[0])
            yield from map(_spelled, self._filled(*grown))

    def _read(self, text: str) -> list[_Word]:
        """Lists what a line may say."""
        stop, written, read = frequencies.stop_words(), dict[str, _Word](), set[str]()
        before = Line()
        for place, word in enumerate(_WORD.findall(text)[:_MOST_WORDS]):
            if word.lower() in stop:
                if tokens := self._writer.places(word):
                    before = (*before, _Word(place, word, tokens, "", True, ()))[-3:]
                continue
            for each, said, tokens in self._spellings(word):
                new = tokens and said not in stop and each not in written
                if new and (said in read or len(read) < _MOST_READ):
                    read.add(said)
                    whole = said == each.lower()
                    written[each] = _Word(place, each, tokens, said, whole, before)
            before = ()
        return list(written.values())

    def _spellings(self, word: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Ways to write a word or what is in it, what that says, and the tokens."""
        tokens = self._writer.places(word)
        yield word, word.lower(), tokens
        for count in range(2, min(len(tokens), self._longest + 1) if len(tokens) > 3 else 0):
            begins = self._writer.text(tokens[:count])
            readable = len(begins) >= _SHORTEST and begins[-1].isalnum()
            if readable and self._writer.places(begins) == tokens[:count]:
                yield begins, word.lower(), tokens[:count]
        listed = (part for part in _LISTED.findall(word.lower()) if part in english().counts)
        for part in dict.fromkeys([*listed, *_PART.findall(word)]):
            if part != word:
                yield part, part.lower(), self._writer.places(part)

    def _asked(self, words: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        """Nats of all tokens of words but the first, and of what words begin with."""
        pieces, at = dict[tuple[int, ...], float](), 0
        long = [tokens[: self._longest] for tokens in words if len(tokens) > 1]
        most = min(_MOST_ASKED, self._writer.capacity)
        line = [place for tokens in long for place in tokens][:most]
        (nats,) = self._writer.nats([line])
        for tokens in long:
            for count in range(2, len(tokens) + 1):
                if at + count <= len(line):
                    own = nats[range(at + 1, at + count), tokens[1:count]]
                    pieces.setdefault(tokens[:count], float(own.sum()))
            at += len(tokens)
        return pieces

    def _grown(self, alone: dict[str, Row], shortlist: int) -> Iterator[tuple[Line, float]]:
        """Lines of one word more each, with their cosines; ``alone`` has each word's vector."""
        words, line, head, near = self._words, Line(), np.zeros_like(self._target), -math.inf
        (nats,), spent, misses = self._writer.nats([()]), 0.0, 0
        while guesses := self._guesses(words, line, nats, self._limit - spent):
            prices = self._price * np.array([guess for _, guess, _ in guesses])
            sums = len(line) * head + np.array([alone[word.text.lower()] for word, *_ in guesses])
            listed = codes.promising(sums, self._target, prices, shortlist)
            tried = [guesses[k] for k in listed]
            longer = [[_put(line, word, gap) for gap in gaps] for word, _, gaps in tried]
            heads = self._rows([_spelled(first) for first, *_ in longer]) if line else sums[listed]
            scores = heads @ self._target
            for first in np.argsort(prices[listed] - scores, kind="stable"):
                if scores[first] <= near - codes.FALL or misses == _MISSES:
                    return
                word = tried[first][0]
                words = [other for other in words if other is not word]
                if priced := self._priced(longer[first]):
                    line, nats, spent = priced
                    head, near = heads[first], max(near, scores[first])
                    words = [other for other in words if other.said != word.said]
                    yield line, scores[first]
                    break
                misses += 1

    def _filled(self, line: Line, near: float) -> Iterator[Line]:
        """Puts back, before words of a line, words such as "of", where that brings it nearer."""
        tried = {word for word in line if not word.before}
        while left := [k for k, word in enumerate(line) if word.said and word not in tried]:
            lines = [(*line[:k], *line[k].before, *line[k:]) for k in left]
            scores = self._rows([_spelled(longer) for longer in lines]) @ self._target
            for first in np.argsort(-scores, kind="stable"):
                tried.update(other for other in line if other.before == line[left[first]].before)
                if scores[first] > near and self._priced([lines[first]]):
                    line, near = lines[first], scores[first]
                    yield line
                    break

    def _guesses(
        self, words: Sequence[_Word], line: Line, nats: Floats, left: float
    ) -> list[tuple[_Word, float, list[int]]]:
        """Words with their nats and the best gaps; of spellings of one the whole and cheapest."""
        starts = np.cumsum([0, *(len(word.tokens) for word in line)])
        best = dict[str, tuple[Any, ...]]()
        for word in words:
            pieces = self._pieces.get(word.tokens, _PIECE * (len(word.tokens) - 1))
            each = self._of_both(word, nats[starts, word.tokens[0]] + pieces, nats[starts, -1])
            own = sum(other.place <= word.place for other in line)
            moved = _MOVED * (np.arange(len(each)) != own)
            gaps = np.argsort(each + moved, kind="stable")[:_GAPS].tolist()
            if _HOPE * (guess := float(each[gaps[0]])) <= left:
                rank = (not word.whole, guess if word.whole else -len(word.text), word.text)
                if word.said not in best or rank < best[word.said][0]:
                    best[word.said] = rank, (word, guess, gaps)
        return [guessed for _, guessed in best.values()]

    def _priced(self, lines: Sequence[Line]) -> tuple[Line, Floats, float] | None:
        """The best of lines of the same words that can be paid for, its rows and its nats."""
        tokens = [[place for word in line for place in word.tokens] for line in lines]
        if len(tokens[0]) > self._longest:
            return None
        rows = self._writer.nats(tokens)
        paid = [self._paid(line, nats) for line, nats in zip(lines, rows, strict=True)]
        fit = [k for k, nats in enumerate(paid) if nats <= self._limit]
        best = min(fit, key=lambda k: paid[k] + _MOVED * _turns(lines[k]), default=None)
        return None if best is None else (lines[best], rows[best], paid[best])

    def _of_both(self, word: _Word, by_tokens: Any, begins: Any) -> Any:
        """Nats of a word that the model gives to its tokens, or that is drawn as a whole."""
        whole = begins + word.counted
        return -np.logaddexp(self._shares[0] - by_tokens, self._shares[1] - whole)

    def _paid(self, line: Line, nats: Floats) -> float:
        """Nats of a line; near what :meth:`LanguageModelCode.weight` says."""
        paid, at = 0.0, 0
        for word in line:
            by_tokens = nats[range(at, at + len(word.tokens)), word.tokens].sum()
            paid += self._of_both(word, by_tokens, nats[at, -1])
            at += len(word.tokens)
        return float(paid + nats[at, self._writer.end])


def _put(line: Line, word: _Word, gap: int) -> Line:
    return (*line[:gap], word, *line[gap:])


def _turns(line: Line) -> int:
    """How often a word stands right before one that precedes it in the text."""
    return sum(after.place < word.place for word, after in pairwise(line))


def _spelled(line: Line) -> str:
    return " ".join(word.text for word in line)
