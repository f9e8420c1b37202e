"""Lines that a causal language model writes behind a public prompt, with the mass of each."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware._torch import torch
from dp_middleware.contexts.causal import CausalContext
from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.model_tokens import vocabulary_of

_TOKEN = re.compile(r" ?[\w'.&/-]+")
_UNITS = 2.0**50  # what a probability of 1 is as an integer


class Writer:
    """Holds a model behind its prompt, and the tokens of which lines are made.

    Places are those among the tokens that are words or parts of words; behind them is the end.
    """

    def __init__(self, context: CausalContext, hazard: float, temperature: float) -> None:
        self.context, self.capacity = context, context.capacity
        self.hazard, self.temperature = hazard, temperature
        loaded = context.ready()
        with loaded.lock:
            vocabulary, numbers = vocabulary_of(context.model, loaded.tokenizer)
            new_line = loaded.tokenizer("\n", add_special_tokens=False)["input_ids"]
        fit = [k for k, token in enumerate(vocabulary.tokens) if _TOKEN.fullmatch(token)]
        stop = new_line[-1] if new_line else loaded.tokenizer.eos_token_id
        before = np.array([context.before()], dtype=np.int64)
        if not fit or stop is None or not before.size:
            raise ParameterError(
                "expected a prompt, and a tokenizer with words and with an end of a line"
            )
        self.end = len(fit)
        self.numbers = np.array([*(numbers[k] for k in fit), stop], dtype=np.int64)
        self._tokens = [vocabulary.tokens[k] for k in fit]
        self.begins = np.array([*(token[0] == " " for token in self._tokens), False])
        self._place = {numbers[k]: place for place, k in enumerate(fit)}
        states, self.cache = context.passed(before, None)
        self.last = states[:, -1]

    def text(self, tokens: Sequence[int]) -> str:
        """Spells a line."""
        return "".join(self._tokens[place] for place in tokens).removeprefix(" ")

    def places(self, word: str) -> tuple[int, ...]:
        """Finds the tokens of a word behind another one; none if it has others."""
        loaded = self.context.ready()
        for written in (f" {word}", word):
            with loaded.lock:
                ids = loaded.tokenizer(written, add_special_tokens=False)["input_ids"]
            places = tuple(self._place.get(number, -1) for number in ids)
            if -1 not in places and "".join(self._tokens[k] for k in places) == f" {word}":
                return places
        return ()

    def shares(self, states: Any) -> Floats:
        """Computes probabilities at k places, float64 (k, end + 1)."""
        shares = self.context.shares(states, self.numbers, self.temperature)
        shares *= 1 - self.hazard
        shares[:, self.end] += self.hazard
        return shares

    def nats(self, lines: Sequence[Sequence[int]]) -> Floats:
        """Computes nats of tokens, the end and a word's beginning by place, (k, n + 1, end + 2).

        The k lines have n tokens each. They pass together, so this is near what a line has alone.
        """
        states = self.last[:, None].expand(len(lines), 1, -1)
        if len(lines[0]):
            cache = copy.deepcopy(self.cache)
            cache.batch_repeat_interleave(len(lines))
            behind, _ = self.context.passed(self.numbers[np.array(lines)], cache)
            states = torch.cat([states, behind], dim=1)
        shares = self.shares(states.flatten(0, 1)).reshape(len(lines), -1, self.end + 1)
        shares[:, 0] /= 1 - shares[:, 0, self.end, None]
        begins = shares[..., self.begins].sum(axis=2, keepdims=True)
        return np.asarray(-np.log(np.concatenate([shares, begins], axis=2) + 1 / _UNITS))

    def line(self) -> Line:
        """Begins a line, of which nothing is there yet."""
        return Line(self)


class Line:
    """Says what may follow in a line, token by token."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self._last = writer, writer.last
        self._cache = copy.deepcopy(writer.cache)
        self.integers = self._made()
        self.integers[writer.end] = 0  # a line is not empty

    def _made(self) -> NDArray[np.int64]:
        """Weighs each token and the end."""
        shares = self._writer.shares(self._last)[0]
        return np.asarray(np.rint(shares * _UNITS).astype(np.int64) + 1)

    def share(self, places: int | NDArray[np.bool_]) -> Fraction:
        """Of one of these, or of some."""
        return Fraction(int(self.integers[places].sum()), int(self.integers.sum()))

    def append(self, place: int) -> None:
        """Takes the next token."""
        fed = self._writer.numbers[[place]][None]
        states, self._cache = self._writer.context.passed(fed, self._cache)
        self._last = states[:, -1]
        self.integers = self._made()


@lru_cache(maxsize=2)
def _model(model: Any, device: str) -> CausalContext:
    return CausalContext(model, device=device)


@lru_cache(maxsize=8)
def writer(model: Any, prompt: str, device: str, hazard: float, temperature: float) -> Writer:
    """Returns the one of a model, a prompt and numbers; eight are kept, with their models."""
    return Writer(_model(model, device).reading(prompt), hazard, temperature)
