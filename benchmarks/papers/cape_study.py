"""What Cape's study measures of a mechanism: on texts as it sends them, and on its laws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pages
from common import Floats
from numpy.typing import ArrayLike
from protocol import Ids, Released, release

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.lab import attacks
from dp_middleware.lab.metrics.deniability import _expected_distinct
from dp_middleware.mechanisms import Mechanism

DRAWS = 1000
TRIED = 24  # tokens of which N_t and S_t are the means


@dataclass(frozen=True)
class Method:
    """A line of the tables: a mechanism from an epsilon, and the model that it reads, if one."""

    name: str
    space: dp.EmbeddingSpace
    make: Callable[[float], Mechanism]
    policy: dp.KeepPolicy
    context: Context | None = None

    def sent(self, mechanism: Mechanism | float, texts: Sequence[str]) -> Released:
        """Texts as the mechanism, or that of an epsilon, sends them."""
        made = self.make(mechanism) if isinstance(mechanism, float) else mechanism
        return release(made, self.space, texts, policy=self.policy, context=self.context)

    def seconds(self, epsilon: float, texts: Sequence[str]) -> float:
        return pages.timed(self.sent, epsilon, texts)[0] / len(texts)

    def privacy(self, sent: Released) -> float:
        """Per cent of the tokens drawn for that are not among the 10 nearest to what was sent."""
        found = attacks.embedding_inversion(sent.raw, sent.drawn, self.space, top=10)
        return 100 * (1 - found.details["top 10 by id"])

    def deniability(self, epsilon: float, texts: Sequence[str]) -> tuple[float, float]:
        """Per cent that a token stays itself, and its outputs in 1,000 draws, in its own text."""
        kept, seen = self.policy.kept_tokens(self.space), []
        mechanism: Any = self.make(epsilon)
        for text in texts:
            ids = self.space.vocabulary.encode(text)
            places = np.flatnonzero((ids >= 0) & ~kept[ids])
            tokens = ids[places]
            said = [self.context.logits(ids, self.space)[places]] if self.context else []
            rows = np.exp(mechanism.log_probs(tokens, self.space, *said))
            stays = 100 * rows[np.arange(len(tokens)), tokens]
            seen += zip(stays, _expected_distinct(rows, DRAWS), strict=True)
            if len(seen) >= TRIED:
                break
        stayed, outputs = np.mean(seen[:TRIED], axis=0)
        return float(stayed), float(outputs)


class RememberedLogits(Context):
    """A model that is asked once for a raw text, whatever the epsilon."""

    def __init__(self, context: Context) -> None:
        self._context, self._rows = context, {}

    @property
    def window(self) -> int:
        return self._context.window

    def logits(self, ids: ArrayLike, space: dp.EmbeddingSpace) -> Floats:
        """What the model says of each position, kept in single precision."""
        key = np.asarray(ids, dtype=np.int64).tobytes()
        if key not in self._rows:
            self._rows[key] = self._context.logits(ids, space).astype(np.float32)
        return self._rows[key].astype(np.float64)

    def start(self, space: dp.EmbeddingSpace) -> Any:
        return self._context.start(space)

    def start_among(self, space: dp.EmbeddingSpace, releases: Ids) -> Any:
        return self._context.start_among(space, releases)


def advantage(ours: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Mean of ours in accuracy above the others' line at the same privacy, both in per cent."""
    known, read = np.array(sorted(others)).T
    privacy, accuracy = np.array(ours).T
    return float(np.mean(accuracy - np.interp(privacy, known, read)))
