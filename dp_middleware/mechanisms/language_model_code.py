"""LanguageModelCode: what a causal language model expects behind a public prompt is cheap."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.contexts import CausalContext
from dp_middleware.contexts.lines import Writer, writer
from dp_middleware.embedding.arrays import Floats
from dp_middleware.mechanisms.codes import PublicCode, nats_of
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below
from dp_middleware.vocabulary import frequencies

Encode = Callable[[list[str]], NDArray[np.float32]]

PROMPT = (
    (Path(__file__).parent / "data" / "keyword_lines.txt").read_text(encoding="utf-8").rstrip("\n")
)
"""What the model reads first by default: lines of which the next one is the release."""

_WORD = re.compile(r"[^\W_]+(?:['.&/-][^\W_]+)*")
_NATS_A_TOKEN = 2.5
_PRICE = 0.003  # in cosine, of a nat where there are so many:
_LIMIT = 45.5
_PIECE = 1.5  # nats that a further token of a word is taken to cost, before the model is asked
_SURE = Fraction(1023, 1024)  # of a mass, whatever passes of the same tokens are rounded to
_HOPE = 0.8  # of that guess: what a word costs in the end is often less
_MOST_READ = 64  # words of a text
_MISSES = 6  # words that the model finds too dear, before a search ends


@dataclass(frozen=True)
class LanguageModelCode(PublicCode):
    """Lines that a causal language model writes behind a public prompt.

    mu of a line is the product of what the model says of its tokens, as integers, and of its end.
    The model reads the prompt and what is released, never the private text. The search chooses
    words of the text, greedily by the encoder's cosine with it less a price of each nat, and
    leaves them in their order: at 50 nats about four words. Names that the model expects after the
    words before them, and terms of a field, are cheap.

    Each line is evaluated alone and token by token, as lines are drawn, so masses are those of
    the program that draws, less a 1024th for what another number of threads rounds otherwise;
    only the search makes longer passes.

    Args:
        model: Name or folder of a causal language model, or a loaded (model, tokenizer) pair, as
            for :class:`CausalContext`.
        prompt: **Public** text that ends where a line begins; the line ends with a new line.
        hazard: Probability that a line ends after any token, whatever the model says.
        most: Tokens of a line; default one for 2.5 nats.
        device: See :class:`CausalContext`; where the same pass gives the same floats again.
        shortlist: Words that the encoder sees for a step.

    Raises:
        ParameterError: At first use: see :class:`CausalContext`; or a tokenizer without tokens
            that are words.
    """

    name: ClassVar[str] = "language-model"

    model: str | Path | tuple[Any, Any] = field(repr=False)
    prompt: str = field(default=PROMPT, kw_only=True, repr=False)
    hazard: float = field(default=0.03, kw_only=True)
    most: int | None = field(default=None, kw_only=True)
    device: str = field(default="cpu", kw_only=True)
    shortlist: int = field(default=16, kw_only=True)

    def __post_init__(self) -> None:
        _validate.probability(hazard=self.hazard)
        _validate.at_least(1, shortlist=self.shortlist)
        if self.most is not None:
            _validate.at_least(1, most=self.most)
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
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

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
        """Draws a line, token by token."""
        writer, tokens, line = self._writer, list[int](), self._writer.line()
        while len(tokens) < self._longest:
            ends = line.integers().cumsum()
            place = int(np.searchsorted(ends, below(int(ends[-1]), entropy), side="right"))
            if place == writer.end:
                break
            tokens.append(place)
            line.append(place)
        return writer.text(tokens)

    def weight(self, release: str) -> Fraction:
        """Returns nearly the mass of a line as its words are usually split into tokens.

        A 1024th is left for rounding, which moves with the number of threads. What else reads alike
        can only add to the mass. 0 for what is no line.
        """
        writer, line, mass = self._writer, self._writer.line(), Fraction(1)
        tokens = [place for word in release.split(" ") for place in writer.places(word)]
        if not 0 < len(tokens) <= self._longest or writer.text(tokens) != release:
            return Fraction(0)
        for place in [*tokens, writer.end][: self._longest]:
            integers = line.integers()
            mass *= Fraction(int(integers[place]), int(integers.sum()))
            if place != writer.end:
                line.append(place)
        return mass * _SURE

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields the line that a greedy search ends with, then those on its way."""
        if encoder is not None:
            found = _Search(self, text, nats_of(least), encoder.encode).lines()
            yield from reversed([" ".join(words) for words in found])


class _Search:
    """Words of a text in their order, each time one more."""

    def __init__(self, code: LanguageModelCode, text: str, limit: float, encode: Encode) -> None:
        self._writer, self._encode, self._limit = code._writer, encode, limit
        self._price = _PRICE * (_LIMIT / limit) ** 2 if limit else 0.0
        self._shortlist, self._longest = code.shortlist, code._longest
        self._text = spellable(text)
        own: dict[str, str] = {}
        for word in _WORD.findall(self._text):
            own.setdefault(word.lower(), word)
        listed = [word for key, word in own.items() if key not in frequencies.stop_words()]
        self._words = [word for word in listed if self._writer.places(word)][:_MOST_READ]
        self._tokens = [self._writer.places(word) for word in self._words]

    def lines(self) -> Iterator[list[str]]:
        """Lines that come nearer and nearer to the text and can be paid for."""
        if not self._words:
            return
        target, *alone = self._rows([self._text, *self._words])
        chosen, head, near = list[int](), np.zeros_like(target), -math.inf
        nats, spent, misses = self._writer.nats([])[0], 0.0, 0
        free = set(range(len(self._words)))
        while True:
            guesses = {word: self._estimate(chosen, word, nats) for word in sorted(free)}
            longer = [k for k, guess in guesses.items() if spent + _HOPE * guess <= self._limit]
            if not longer:
                return
            prices = self._price * np.array([guesses[word] for word in longer])
            sums = len(chosen) * head + np.array([alone[word] for word in longer])
            cosines = sums @ target / np.maximum(np.linalg.norm(sums, axis=1), 1e-6)
            listed = np.argsort(prices - cosines, kind="stable")[: self._shortlist]
            lines = [sorted([*chosen, longer[k]]) for k in listed]
            heads = sums[listed]
            if chosen:
                heads = self._rows([" ".join(self._words[k] for k in line) for line in lines])
            scores = heads @ target
            for first in np.argsort(prices[listed] - scores, kind="stable"):
                if scores[first] <= near or misses == _MISSES:
                    return
                free.discard(longer[listed[first]])
                tokens = self._of(lines[first])
                found, paid = self._writer.nats(tokens[: self._longest])
                if len(tokens) <= self._longest and paid <= self._limit:
                    chosen, head, near = lines[first], heads[first], scores[first]
                    nats, spent = found, paid
                    yield [self._words[k] for k in chosen]
                    break
                misses += 1

    def _rows(self, texts: list[str]) -> NDArray[np.float32]:
        return np.nan_to_num(self._encode(texts), posinf=0.0, neginf=0.0)

    def _of(self, words: Sequence[int]) -> list[int]:
        """Tokens of words."""
        return [place for word in words for place in self._tokens[word]]

    def _estimate(self, chosen: Sequence[int], word: int, nats: Floats) -> float:
        """Nats of a word at its place in a line of which all else is known."""
        before = len(self._of([k for k in chosen if k < word]))
        first, *more = self._tokens[word]
        return float(nats[before, first]) + _PIECE * len(more)
