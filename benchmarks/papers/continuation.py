"""One data set of InferDPT's: what is sent, what is written of it, and how near that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pages
from common import Floats, templates
from protocol import cosines, release

import dp_middleware as dp
from dp_middleware.errors import MissingExtra
from dp_middleware.frameworks.inferdpt import PAPER_PROMPTS
from dp_middleware.lab import attacks, metrics

PREFIX, GENERATED, TEMPERATURE = 50, 100, 0.5  # the first two in tokens
CHAT = {"remote": PAPER_PROMPTS["perturbation"], "extraction": PAPER_PROMPTS["extraction"]}
BASE = {"remote": "$text", "extraction": "$generation\n\n$text"}  # for models that only continue
SCORES = ("diversity", "MAUVE", "coherence")
FEWEST = 20  # texts, for MAUVE: it compares distributions

Model = tuple[Any, Mapping[str, Template]]  # a writer and its prompts


def prompts(writer: Any, replaced: Sequence[str]) -> dict[str, Template]:
    return templates(CHAT if writer.chats else BASE, replaced)


@dataclass(frozen=True, kw_only=True)
class Study:
    """One data set: prefixes with human continuations, of which some are continued, and models.

    A method is made from an epsilon and says what it keeps; the ``remote`` model continues what was
    sent, ``locals`` extract, each with its prompts.
    """

    space: dp.EmbeddingSpace
    pairs: Sequence[tuple[str, str]]
    continued: int
    methods: Mapping[str, Any]
    remote: Model
    locals: Mapping[str, Model]
    _written: dict[tuple[object, ...], list[str]] = field(default_factory=dict)

    @property
    def prefixes(self) -> list[str]:
        return [prefix for prefix, _ in self.pairs[: self.continued]]

    def alone(self, local: str | None = None) -> list[str]:
        """What the remote model, or a local one, writes of the raw prefixes."""
        chosen = self.locals[local] if local else self.remote
        key = "remote" if chosen is self.remote else local
        return self._once((key,), lambda: self._ask(chosen, "remote", text=self.prefixes))

    def perturbed(self, name: str, epsilon: float) -> list[str]:
        """The remote model's continuations of what a method sends."""

        def write() -> list[str]:
            make, policy = self.methods[name]
            sent = release(make(epsilon), self.space, self.prefixes, policy=policy).texts
            return self._ask(self.remote, "remote", text=sent)

        return self._once((name, epsilon), write)

    def extracted(self, name: str, epsilon: float, local: str) -> list[str]:
        """What a local model makes of raw prefixes and perturbed continuations."""
        given = {"text": self.prefixes, "generation": self.perturbed(name, epsilon)}
        write = lambda: self._ask(self.locals[local], "extraction", **given)  # noqa: E731
        return self._once((name, epsilon, local), write)

    def _ask(self, model: Model, prompt: str, **columns: Sequence[str]) -> list[str]:
        writer, prompts = model
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return list(writer([prompts[prompt].substitute(row) for row in rows], GENERATED))

    def _once(self, key: tuple[object, ...], write: Callable[[], list[str]]) -> list[str]:
        if key not in self._written:
            self._written[key] = write()
        return self._written[key]

    def scores(self, written: Sequence[str]) -> list[str]:
        """The cells of :data:`SCORES`: of what was generated, never of the prefixes."""
        human, mauve = [human for _, human in self.pairs[: self.continued]], ""
        if len(written) >= FEWEST:
            try:
                mauve = f"{metrics.mauve(human, written).value:.2f}"
            except MissingExtra:
                mauve = "needs the extra mauve"
        near = cosines(self.prefixes, written).mean()
        return [f"{metrics.diversity(written).value:.2f}", mauve, f"{near:.2f}"]

    def leaks(self, answers: Sequence[str], n: int = 1) -> Floats:
        """Share of the n-grams of each raw prefix that its answer has, float64 (n,)."""
        pairs = zip(self.prefixes, answers, strict=True)
        return np.array([attacks.ngram_leakage([a], [b], n=n).rate for a, b in pairs])


def guessed(raw: Sequence[Any], sent: Sequence[Any], space: dp.EmbeddingSpace, context) -> float:
    """Privacy against one guess a token, of the vocabulary, of a model that reads what was sent."""
    guesses = [context.logits(ids, space).argmax(axis=1) for ids in sent]
    return 1 - float(np.mean(np.concatenate(raw) == np.concatenate(guesses)))


def texts_of(folder: Path) -> list[str]:
    """The texts of a set; a continuation of its own (``gold``) is joined."""
    records = pages.records(folder / "dev.jsonl")
    return [f"{record['text']} {record.get('gold', '')}".strip() for record in records]
