"""What Cape's study measures of a mechanism: on texts as it sends them, and on its laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from protocol import Floats, Ids, Labelled, Released, Remembered, inverted, release

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.lab.metrics import rouge_l
from dp_middleware.mechanisms import Mechanism

DRAWS = 1000
TRIED = 48  # tokens of which N_t and S_t are the means
ROUGE, BARE = "sst2, Rouge-L", "sst2, Rouge-L, nothing kept"
NEAREST = "wikitext2, re-identified, k = 10, nothing kept"


@dataclass(frozen=True, kw_only=True)
class Method:
    """A line of the tables.

    Attributes:
        name: In the tables.
        published: From an epsilon.
        repaired: What can be calibrated in its place; ``None``: another line has it.
        context: The client's model, if the mechanism reads one.
    """

    name: str
    published: Callable[[float], Mechanism]
    repaired: Mechanism | None
    context: Context | None = None


class RememberedLogits(Context):
    """A model that is asked once for a raw text, whatever the epsilon."""

    def __init__(self, context: Context) -> None:
        self._context, self._rows = context, {}

    @property
    def window(self) -> int:
        """Of the model."""
        return self._context.window

    def logits(self, ids: ArrayLike, space: dp.EmbeddingSpace) -> Floats:
        """What the model says of each position, kept in single precision."""
        key = np.asarray(ids, dtype=np.int64).tobytes()
        if key not in self._rows:
            self._rows[key] = self._context.logits(ids, space).astype(np.float32)
        return self._rows[key].astype(np.float64)

    def start(self, space: dp.EmbeddingSpace) -> Any:
        """A stream of the model."""
        return self._context.start(space)

    def start_among(self, space: dp.EmbeddingSpace, releases: Ids) -> Any:
        """A stream of the model."""
        return self._context.start_among(space, releases)


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is measured on."""

    space: dp.EmbeddingSpace
    policy: dp.KeepPolicy
    sets: Sequence[Labelled]
    prefixes: Mapping[str, list[str]]
    encoder: Remembered

    def sent(
        self, method: Method, mechanism: Mechanism, texts: list[str], *, keep: bool = True
    ) -> Released:
        """Texts as the mechanism sends them, words of the public list kept unless told."""
        policy = self.policy if keep else dp.KeepPolicy.nothing()
        return release(mechanism, self.space, texts, 0, policy=policy, context=method.context)

    def measured(self, method: Method, mechanism: Mechanism) -> dict[str, float]:
        """All measures by their names in the table; shares in per cent."""
        found = {}
        for data in self.sets:
            sent = self.sent(method, mechanism, data.texts)
            asked = self.sent(method, mechanism, data.questions)
            accuracy = data.accuracy(sent.texts, asked.texts)
            found[f"{data.name}, Rouge-L"] = 100 * rouge_l(data.texts, sent.texts).value
            for attack, rate in inverted(sent, self.space).items():
                found[f"{data.name}, re-identified, {attack}"] = 100 * rate
            found[f"{data.name}, accuracy"] = 100 * accuracy
        for name, texts in self.prefixes.items():
            sent = self.sent(method, mechanism, texts)
            found[f"{name}, Rouge-L"] = 100 * rouge_l(texts, sent.texts).value
            found[f"{name}, cosine"] = 100 * self._cosine(texts, sent.texts)
        found["N_t"], found["S_t"] = self._deniability(method, mechanism)
        return found

    def bare(self, method: Method, mechanism: Mechanism) -> dict[str, float]:
        """Rouge-L of the first set and the attack on prefixes, with every token perturbed."""
        data = self.sets[0]
        sent = self.sent(method, mechanism, data.texts, keep=False)
        found = {BARE: 100 * rouge_l(data.texts, sent.texts).value}
        if "wikitext2" in self.prefixes:
            attacked = self.sent(method, mechanism, self.prefixes["wikitext2"], keep=False)
            found[NEAREST] = 100 * inverted(attacked, self.space)["k = 10"]
        return found

    def _cosine(self, raw: list[str], sent: list[str]) -> float:
        """Mean cosine of vectors about the mean of all prefixes."""
        known = [text for texts in self.prefixes.values() for text in texts]
        centre = self.encoder.encode(known).mean(axis=0)
        first, second = (self.encoder.encode(texts) - centre for texts in (raw, sent))
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        return float(np.mean((first * second).sum(axis=1) / lengths))

    def _deniability(self, method: Method, mechanism: Mechanism) -> tuple[float, float]:
        """Per cent that a token stays itself, and its outputs in 1,000 draws, in its own text."""
        kept, seen = self.policy.kept_tokens(self.space), []
        for text in self.sets[0].texts:
            ids = self.space.vocabulary.encode(text)
            places = np.flatnonzero((ids >= 0) & ~kept[ids])
            tokens = ids[places]
            if method.context is None:
                rows = mechanism.log_probs(tokens, self.space)
            else:
                logits = method.context.logits(ids, self.space)
                rows = mechanism.log_probs(tokens, self.space, logits[places])
            seen += zip(100 * stays(rows, tokens), distinct(rows, DRAWS), strict=True)
            if len(seen) >= TRIED:
                break
        stayed, outputs = np.mean(seen[:TRIED], axis=0)
        return float(stayed), float(outputs)


def stays(rows: Floats, ids: Ids) -> Floats:
    """The probability that each token is sent as it is, float64 (n,)."""
    return np.exp(rows[np.arange(len(ids)), ids])


def distinct(rows: Floats, draws: int) -> Floats:
    """Expected number of different outputs in so many draws of each row, float64 (n,)."""
    with np.errstate(divide="ignore"):  # a certain output
        return -np.expm1(draws * np.log1p(-np.minimum(np.exp(rows), 1.0))).sum(axis=1)
