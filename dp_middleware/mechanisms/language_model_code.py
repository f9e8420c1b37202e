"""LanguageModelCode: what a causal language model expects behind a public prompt is cheap."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.contexts import CausalContext
from dp_middleware.contexts.lines import Writer, writer
from dp_middleware.embedding.arrays import Floats
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.base import named
from dp_middleware.mechanisms.codes import PublicCode
from dp_middleware.mechanisms.keyword_code import english
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below
from dp_middleware.vocabulary import frequencies

PROMPT = (files("dp_middleware.mechanisms") / "data" / "lines.txt").read_text("utf-8")
"""What the model reads first by default: lines of which the next one is the release."""

Row = NDArray[np.float32]

_WORD = re.compile(r"[^\W_]+(?:['.&/-][^\W_]+)*")
_PART = re.compile("[a-z]+")
_NATS_A_TOKEN = 2.5
_PRICE = 0.003  # in cosine, of a nat
_PIECE = 1.5  # nats that a further token of a word is taken to cost, before the model is asked
_SURE = Fraction(1023, 1024)  # of a mass, whatever passes of the same tokens are rounded to
_HOPE = 0.8  # of that guess: what a word costs in the end is often less
_MOST_READ = 64  # different words of a text
_MOST_WORDS = 256
_MISSES = 6  # words that the model finds too dear, before a search ends


@dataclass(frozen=True)
class LanguageModelCode(PublicCode):
    """Lines that a causal language model writes behind a public prompt.

    What comes next in a line is a token or the end by the model, as integers; of tokens that begin
    a word now and then a whole word by public counts of English instead. The model reads the prompt
    and what is released, never the private text. The search chooses words of the text, greedily by
    the encoder's cosine with it less a price of each nat, and leaves them in their order: at 50
    nats about four words. Then words such as "of" are put back before them. Names that the model
    expects after the words before them, and terms of a field, are cheap; what it expects nowhere
    costs a little more than in :class:`KeywordCode`.

    Each line is evaluated alone and token by token, as lines are drawn, so masses are those of
    the program that draws, less a 1024th for what another number of threads rounds otherwise.

    Args:
        model: Name or folder of a causal language model, or a loaded (model, tokenizer) pair, as
            for :class:`CausalContext`.
        prompt: **Public** text that ends where a line begins; the line ends with a new line.
        hazard: Probability that a line ends after any token, whatever the model says.
        english: Probability of an English word by its count instead of one that the model begins.
        most: Tokens of a line; default one for 2.5 nats.
        device: See :class:`CausalContext`; where the same pass gives the same floats again.
        shortlist: Words that the encoder sees for a step.

    Raises:
        ParameterError: At first use: see :class:`CausalContext`; or a tokenizer without tokens
            that are words.
    """

    name = "language-model"

    model: str | Path | tuple[Any, Any] = field(repr=False)
    prompt: str = field(default=PROMPT, kw_only=True, repr=False)
    hazard: float = field(default=0.03, kw_only=True, metadata=_validate.PROBABILITY)
    english: float = field(default=0.125, kw_only=True, metadata=_validate.PROBABILITY)
    most: int | None = field(default=None, kw_only=True, metadata=_validate.COUNT)
    device: str = field(default="cpu", kw_only=True)
    shortlist: int = field(default=16, kw_only=True, metadata=_validate.COUNT)

    def __post_init__(self) -> None:
        _validate.check_fields(self)
        self._context  # noqa: B018 - refuses what is no prompt

    def fitted(self, epsilon: float) -> Self:
        """Returns the same with the number of tokens for this epsilon."""
        return replace(self, most=self.most or max(8, math.ceil(epsilon / _NATS_A_TOKEN)))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Says that the model computes alike for the text's own line and for a draw."""
        return (
            "the prompt and the model are public, and passes of the model, token by token over the "
            "same line, give it masses that differ by less than 2^-10 of them",
        )

    @property
    def fingerprint(self) -> str:
        """Identifies the model by its name, and the prompt and numbers."""
        text = f"{self.version}/{self._context.parameters}/{self.hazard}/{self.most}"
        return named(self.name, f"{text}/{self.english}/{frequencies.keywords_fingerprint()}")

    @property
    def _context(self) -> CausalContext:
        return CausalContext(self.model, prompt=self.prompt, device=self.device)

    @property
    def _writer(self) -> Writer:
        return writer(self.model, self.prompt, self.device, self.hazard)

    @property
    def _longest(self) -> int:
        """Tokens of a line, as many as the model's window has room for."""
        return min(self.most or 1, self._writer.capacity)

    def draw(self, entropy: Entropy) -> str:
        """Draws a line, token by token; an English word that has no tokens is drawn again."""
        writer, tokens, line = self._writer, list[int](), self._writer.line()
        share = Fraction(self.english)
        while (left := self._longest - len(tokens)) > 0:
            ends = line.integers.cumsum()
            place = int(np.searchsorted(ends, below(int(ends[-1]), entropy), side="right"))
            if place == writer.end:
                break
            drawn: tuple[int, ...] = (place,)
            if writer.begins[place] and below(share.denominator, entropy) < share.numerator:
                drawn = writer.places(english().draw(entropy))[:left]
            for place in drawn:
                tokens.append(place)
                line.append(place)
        return writer.text(tokens)

    def weight(self, release: str) -> Fraction:
        """Returns the mass of a line as its words are usually split, less a 1024th for rounding.

        What else reads alike can only add to it. 0 for what is no line.
        """
        writer, line, mass = self._writer, self._writer.line(), Fraction(1)
        words, share = release.split(" "), Fraction(self.english)
        tokens = [place for word in words for place in writer.places(word)]
        if not 0 < len(tokens) <= self._longest or writer.text(tokens) != release:
            return Fraction(0)
        for word in words:
            whole = share * line.share(writer.begins) * english().share(word)
            by_tokens = 1 - share
            for place in writer.places(word):
                by_tokens *= line.share(place)
                line.append(place)
            mass *= by_tokens + whole
        if len(tokens) < self._longest:
            mass *= line.share(writer.end)
        return mass * _SURE

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields the line that a greedy search ends with, then those on its way."""
        if encoder is not None:
            found = _Search(self, text, codes.nats_of(least), encoder.encode)
            yield from reversed([found.spelled(line) for line in found.lines()])


class _Search:
    """Words of a text in their order, each time one more."""

    def __init__(
        self, code: LanguageModelCode, text: str, limit: float, encode: codes.Encode
    ) -> None:
        self._writer, self._limit = code._writer, limit
        self._rows = partial(codes.finite_rows, encode)
        self._price = codes.price_of_a_nat(_PRICE, limit)
        self._shortlist, self._longest = code.shortlist, code._longest
        self._text = spellable(text)
        self._shares = math.log(1 - code.english), math.log(code.english)
        stop, read = frequencies.stop_words(), set[str]()
        written = list[str]()  # as in the text, and as English words are listed
        for word in _WORD.findall(self._text)[:_MOST_WORDS]:
            parts = (part for part in _PART.findall(word.lower()) if part in english().counts)
            for each in dict.fromkeys([word, *parts]):
                if each.lower() in stop:
                    written += [each] * (each == word)  # wherever it stands
                elif each not in written and (each.lower() in read or len(read) < _MOST_READ):
                    read.add(each.lower())
                    written.append(each)
        self._tokens = {word: self._writer.places(word) for word in dict.fromkeys(written)}
        self._words = [word for word in written if self._tokens[word]]
        self._fills = [word.lower() in stop for word in self._words]

    def spelled(self, line: Sequence[int]) -> str:
        """Spells a line of words."""
        return " ".join(self._words[k] for k in line)

    def lines(self) -> Iterator[list[int]]:
        """Lines that come nearer and nearer to the text and can be paid for."""
        free = {k for k, fills in enumerate(self._fills) if not fills}
        if not free:
            return
        keys = list(dict.fromkeys(self._words[k].lower() for k in sorted(free)))
        target, *rows = self._rows([self._text, *keys])
        grown: tuple[list[int], float] | None = None
        for grown in self._grown(free, target, dict(zip(keys, rows, strict=True))):
            yield grown[0]
        if grown is not None:
            yield from self._filled(target, *grown)

    def _filled(self, target: Row, line: list[int], near: float) -> Iterator[list[int]]:
        """Puts back, before words of a line, words such as "of", where that brings it nearer."""
        tried = set[tuple[int, ...]]()
        while runs := sorted({self._before(k, line) for k in line} - tried - {()}):
            lines = [sorted([*line, *run]) for run in runs]
            scores = self._rows([self.spelled(longer) for longer in lines]) @ target
            for first in np.argsort(-scores, kind="stable"):
                tried.add(runs[first])
                if scores[first] > near and self._priced(lines[first]):
                    line, near = lines[first], scores[first]
                    yield line
                    break

    def _before(self, word: int, line: Sequence[int]) -> tuple[int, ...]:
        """The words to fill in that stand right before a word, at most three."""
        first = word
        while first and first > word - 3 and self._fills[first - 1] and first - 1 not in line:
            first -= 1
        return tuple(range(first, word))

    def _priced(self, line: Sequence[int]) -> tuple[Floats, float] | None:
        """Nats of what may follow in a line, and its own, if it can be paid for."""
        tokens = self._of(line)
        if len(tokens) > self._longest:
            return None
        nats = self._writer.nats(tokens)
        paid = self._paid(line, nats)
        return (nats, paid) if paid <= self._limit else None

    def _grown(
        self, free: set[int], target: Row, alone: dict[str, Row]
    ) -> Iterator[tuple[list[int], float]]:
        """Lines of one word more each, with their cosines; ``alone`` has each word's vector."""
        chosen, head, near = list[int](), np.zeros_like(target), -math.inf
        nats, spent, misses = self._writer.nats([]), 0.0, 0
        while True:
            guesses = self._guesses(chosen, free, nats)
            longer = [k for k, guess in guesses.items() if spent + _HOPE * guess <= self._limit]
            if not longer:
                return
            prices = self._price * np.array([guesses[word] for word in longer])
            sums = len(chosen) * head + np.array([alone[self._words[k].lower()] for k in longer])
            listed = codes.promising(sums, target, prices, self._shortlist)
            lines = [sorted([*chosen, longer[k]]) for k in listed]
            heads = sums[listed]
            if chosen:
                heads = self._rows([self.spelled(line) for line in lines])
            scores = heads @ target
            for first in np.argsort(prices[listed] - scores, kind="stable"):
                if scores[first] <= near - codes.FALL or misses == _MISSES:
                    return
                free.discard(longer[listed[first]])
                if priced := self._priced(lines[first]):
                    chosen, (nats, spent) = lines[first], priced
                    head, near = heads[first], max(near, scores[first])
                    said = self._words[longer[listed[first]]].lower()
                    free = {k for k in free if self._words[k].lower() != said}
                    yield chosen, scores[first]
                    break
                misses += 1

    def _of(self, words: Sequence[int]) -> list[int]:
        return [place for word in words for place in self._tokens[self._words[word]]]

    def _of_both(self, word: int, by_tokens: float, begins: float) -> float:
        """Nats of a word that the model gives to its tokens, or that is drawn as a whole."""
        whole = begins + english().nats(self._words[word])
        return -float(np.logaddexp(self._shares[0] - by_tokens, self._shares[1] - whole))

    def _paid(self, words: Sequence[int], nats: Floats) -> float:
        """Nats of a line; near what :meth:`LanguageModelCode.weight` says."""
        paid, at = 0.0, 0
        for word in words:
            places = self._tokens[self._words[word]]
            by_tokens = float(nats[range(at, at + len(places)), places].sum())
            paid += self._of_both(word, by_tokens, float(nats[at, -1]))
            at += len(places)
        return paid + float(nats[at, self._writer.end])

    def _guesses(self, chosen: Sequence[int], free: set[int], nats: Floats) -> dict[int, float]:
        """Nats of words at their places in a line; of two spellings only the cheaper one."""
        best: dict[str, tuple[float, int]] = {}
        for word in sorted(free):
            row = nats[len(self._of([k for k in chosen if k < word]))]
            first, *more = self._tokens[self._words[word]]
            by_tokens = float(row[first]) + _PIECE * len(more)
            guess = self._of_both(word, by_tokens, float(row[-1]))
            key = self._words[word].lower()
            best[key] = min(best.get(key, (guess, word)), (guess, word))
        return {word: guess for guess, word in best.values()}
