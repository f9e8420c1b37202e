"""One data set of InferDPT's: who writes, who attacks, what is scored; a part of inferdpt.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from rantext_lists import inversion_privacy, released
from writer import Writer

import dp_middleware as dp
from dp_middleware.errors import MissingExtra
from dp_middleware.lab import attacks, metrics
from dp_middleware.lab.metrics.results import MetricResult
from dp_middleware.mechanisms import Mechanism

PREFIX, GENERATED = 50, 100  # tokens
SCORES = ("diversity", "MAUVE", "coherence")

FEWEST = 20
"""Texts, for MAUVE: it compares distributions."""

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """One data set: prefixes with human continuations, and who writes.

    Attributes:
        space: Of 11,000 tokens.
        pairs: Prefix and human continuation; all are attacked.
        continued: How many of them are continued.
        guessed: How many the model attacks.
        writers: Remote and extractor; none without a model.
        prompts: By name.
    """

    space: dp.EmbeddingSpace
    pairs: Pairs
    continued: int
    guessed: int
    writers: tuple[Writer, ...]
    prompts: Mapping[str, Template]

    def measure(self, mechanism: Mechanism) -> dict[str, str]:
        """Privacy and scores of one mechanism, as cells by name."""
        prefixes = [prefix for prefix, _ in self.pairs]
        raw, sent, texts = released(mechanism, self.space, prefixes)
        inversion = inversion_privacy(raw, sent, self.space)
        cells = {name: f"{value:.1%}" for name, value in inversion.items()}
        if not self.writers:
            return cells
        guessed = self._guess(raw[: self.guessed], sent[: self.guessed], mechanism)
        cells["the model, one guess"] = f"{1 - guessed.rate:.1%}"
        return cells | self.scores(self.extracted(texts[: self.continued]))

    def extracted(self, sent: Sequence[str]) -> list[str]:
        """What remote and extractor make of releases."""
        remote, extractor = self.writers
        asked = [self.prompts["remote"].substitute(text=text) for text in sent]
        notes = zip(self.pairs, remote(asked, GENERATED), strict=False)
        prompt = self.prompts["extraction"]
        asked = [prompt.substitute(text=prefix, generation=note) for (prefix, _), note in notes]
        return extractor(asked, GENERATED)

    def bound(self) -> dict[str, str]:
        """Scores of the remote model's continuations of the raw prefixes."""
        prompt = self.prompts["remote"]
        asked = [prompt.substitute(text=prefix) for prefix, _ in self.pairs[: self.continued]]
        return self.scores(self.writers[0](asked, GENERATED))

    def scores(self, written: Sequence[str]) -> dict[str, str]:
        """Of what was generated, never of the prefixes."""
        prefixes, human = zip(*self.pairs[: self.continued], strict=True)
        cells = {
            "diversity": shown(metrics.diversity(written)),
            "coherence": shown(metrics.coherence(prefixes, written)),
        }
        return cells | {"MAUVE": self._mauve(human, written)}

    def _mauve(self, human: Sequence[str], written: Sequence[str]) -> str:
        if len(written) < FEWEST:
            return f"needs {FEWEST} texts"
        try:
            return shown(metrics.mauve(human, written))
        except MissingExtra:
            return "needs the extra mauve"

    def _guess(self, raw, sent, mechanism: Mechanism) -> attacks.AttackResult:
        writer = self.writers[0]
        if writer.chats:
            ask = lambda messages: writer([messages[-1]["content"]], 2000)[0]  # noqa: E731
            return attacks.llm_inference(raw, sent, self.space, model=ask, top=1)
        context = dp.CausalContext(writer.loaded)
        return attacks.bayes_with_language_model(
            raw, sent, mechanism, self.space, context, given="guesses"
        )


def shown(result: MetricResult) -> str:
    """Value and 95 % interval."""
    return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"


def split(texts: Sequence[str], vocabulary: dp.Vocabulary) -> Pairs:
    """Prefix and human continuation of the texts that are long enough."""
    pairs = []
    for text in texts:
        tokens = vocabulary.occurrences(text)[: PREFIX + GENERATED]
        if len(tokens) > PREFIX:
            end = tokens[PREFIX - 1].end
            pairs.append((text[:end].rstrip(), text[end : tokens[-1].end].strip()))
    return pairs


def texts_of(folder: Path) -> list[str]:
    """The texts of a set; a continuation of its own (``gold``) is joined."""
    lines = (folder / "dev.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [f"{record['text']} {record.get('gold', '')}".strip() for record in records]
