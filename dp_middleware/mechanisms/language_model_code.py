"""LanguageModelCode: what a causal language model expects behind a public prompt is cheap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.contexts import CausalContext
from dp_middleware.contexts.lines import Writer, writer
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.base import named
from dp_middleware.mechanisms.codes import PublicCode
from dp_middleware.mechanisms.keyword_code import english
from dp_middleware.mechanisms.line_search import LineSearch
from dp_middleware.mechanisms.text_mechanisms import Encoder, spellable
from dp_middleware.sampling.entropy import Entropy, below
from dp_middleware.vocabulary import frequencies

_LINES = (files("dp_middleware.mechanisms") / "data" / "lines.txt").read_text("utf-8")
PROMPTS = tuple(_LINES.split("\n\n"))
"""What the model reads first by default, one of them: lines of which the next is the release."""

_NATS_A_TOKEN = 2.5
_SURE = Fraction(1023, 1024)  # of a mass, whatever passes of the same tokens are rounded to


@dataclass(frozen=True)
class LanguageModelCode(PublicCode):
    """Lines that a causal language model writes behind a public prompt.

    What comes next in a line is a token or the end by the model, as integers; of tokens that begin
    a word now and then a whole word by public counts of English instead. Masses rest on a prompt
    and what is released, never on the private text. Of n prompts each is as likely; a text's own
    line is written behind the one whose lines are nearest to the text, for ln n nats.

    The search chooses words of the text, or how long ones begin, greedily by the encoder's cosine
    with it less a price of each nat, and puts each where it costs least: at 50 nats about five
    words, **in another order than the text's** where that saves more than a nat. Then words such as
    "of" are put back before them. Names that the model expects beside other words, and terms of a
    field, are cheap; what it expects nowhere costs a little more than in :class:`KeywordCode`.

    Each line is evaluated alone and token by token, as lines are drawn, so masses are those of
    the program that draws, less a 1024th for what another number of threads rounds otherwise.

    Args:
        model: Name or folder of a causal language model, or a loaded (model, tokenizer) pair, as
            for :class:`CausalContext`.
        prompt: **Public** text that ends where a line begins, or several, each of a field; the line
            ends with a new line. Default one of medicine and one of films, news and everyday life.
        hazard: Probability that a line ends after any token, whatever the model says.
        english: Probability of an English word by its count instead of one that the model begins.
        temperature: What the model's logits are divided by: above 1 rare words cost less.
        most: Tokens of a line; default one for 2.5 nats.
        device: See :class:`CausalContext`; where the same pass gives the same floats again.
        shortlist: Words that the encoder sees for a step.

    Raises:
        ParameterError: No prompt; or at first use: see :class:`CausalContext`; or a tokenizer
            without tokens that are words.
    """

    name = "language-model"
    version = 2

    model: str | Path | tuple[Any, Any] = field(repr=False)
    prompt: str | tuple[str, ...] = field(default=PROMPTS, kw_only=True, repr=False)
    hazard: float = field(default=0.03, kw_only=True, metadata=_validate.PROBABILITY)
    english: float = field(default=0.2, kw_only=True, metadata=_validate.PROBABILITY)
    temperature: float = field(default=1.15, kw_only=True, metadata=_validate.POSITIVE)
    most: int | None = field(default=None, kw_only=True, metadata=_validate.COUNT)
    device: str = field(default="cpu", kw_only=True)
    shortlist: int = field(default=16, kw_only=True, metadata=_validate.COUNT)

    def __post_init__(self) -> None:
        _validate.check_fields(self)
        prompts: Any = (self.prompt,) if isinstance(self.prompt, str) else self.prompt
        if not isinstance(prompts, tuple) or not prompts:
            raise ParameterError("expected a public prompt, or a tuple of several")
        object.__setattr__(self, "prompt", prompts)
        self._contexts  # noqa: B018 - refuses what is no prompt

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
        numbers = self.hazard, self.most, self.english, self.temperature
        read = [context.parameters for context in self._contexts]
        text = f"{self.version}/{read}/{numbers}/{frequencies.keywords_fingerprint()}"
        return named(self.name, text)

    @property
    def _prompts(self) -> tuple[str, ...]:
        return self.prompt  # type: ignore[return-value] # since the beginning

    @property
    def _contexts(self) -> list[CausalContext]:
        model, device = self.model, self.device
        return [CausalContext(model, prompt=prompt, device=device) for prompt in self._prompts]

    def _writer(self, prompt: str) -> Writer:
        return writer(self.model, prompt, self.device, self.hazard, self.temperature)

    def _longest(self, writer: Writer) -> int:
        """Tokens of a line, as many as the model's window has room for."""
        return min(self.most or 1, writer.capacity)

    def draw(self, entropy: Entropy) -> str:
        """Draws a prompt, then a line by tokens; an English word without any is drawn again."""
        writer = self._writer(self._prompts[below(len(self._prompts), entropy)])
        tokens, line = list[int](), writer.line()
        share, longest = Fraction(self.english), self._longest(writer)
        while (left := longest - len(tokens)) > 0:
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
        return sum((self._mass(prompt, release) for prompt in self._prompts), Fraction(0))

    def _mass(self, prompt: str, release: str) -> Fraction:
        """The part of a line's mass that is behind a prompt."""
        writer = self._writer(prompt)
        line, mass = writer.line(), _SURE / len(self._prompts)
        words, share, longest = release.split(" "), Fraction(self.english), self._longest(writer)
        split = [writer.places(word) for word in words]
        tokens = [place for places in split for place in places]
        if not 0 < len(tokens) <= longest or writer.text(tokens) != release:
            return Fraction(0)
        for word, places in zip(words, split, strict=True):
            whole = share * line.share(writer.begins) * english().share(word)
            by_tokens = 1 - share
            for place in places:
                by_tokens *= line.share(place)
                line.append(place)
            mass *= by_tokens + whole
        return mass * line.share(writer.end) if len(tokens) < longest else mass

    def search(self, text: str, least: Fraction, encoder: Encoder | None) -> Iterator[str]:
        """Yields the line that a greedy search ends with, then those on its way."""
        if encoder is not None:
            yield from self._found(text, least, encoder)[1]

    def answer(self, text: str, least: Fraction, encoder: Encoder | None) -> str | None:
        """Returns the first whose mass behind the one prompt is enough. Private."""
        if encoder is None:
            return None
        prompt, found = self._found(text, least, encoder)
        return next((own for own in found if self._mass(prompt, own) >= least), None)

    def _found(self, text: str, least: Fraction, encoder: Encoder) -> tuple[str, Iterator[str]]:
        text, encode = spellable(text), encoder.encode
        (target,) = codes.finite_rows(encode, [text])
        prompt = self._nearest(target, encoder)
        writer, limit = self._writer(prompt), codes.nats_of(least * len(self._prompts) / _SURE)
        longest = self._longest(writer)
        found = LineSearch(writer, self.english, longest, limit, encode, text, target)
        return prompt, reversed([*found.lines(self.shortlist)])

    def _nearest(self, target: NDArray[Any], encoder: Encoder) -> str:
        """The prompt of the field that a text is most likely of."""
        if len(self._prompts) == 1:
            return self._prompts[0]
        kept = _fields if getattr(encoder, "__hash__", None) else _fields.__wrapped__
        mean, fields = kept(encoder, self._prompts)
        return self._prompts[int(np.argmax(fields @ (target - mean)))]


@lru_cache(maxsize=4)
def _fields(encoder: Encoder, prompts: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The mean of prompts' lines, and the direction from it to each prompt's lines, (n, d)."""
    lines = (prompt.splitlines() for prompt in prompts)
    rows = np.array([codes.finite_rows(encoder.encode, some).mean(axis=0) for some in lines])
    mean = rows.mean(axis=0)
    away = rows - mean
    return mean, away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6)
