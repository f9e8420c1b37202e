"""What a context is: logits for every position of a text, or step by step from releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import ParameterError


class Context(ABC):
    """Turns the other tokens of a text into logits over the tokens of a space."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Counts positions, its own included, that one token can influence through raw logits."""

    @abstractmethod
    def logits(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Returns what the raw tokens of one text say of each position, float64 (n, V).

        ``ids`` are int (n,), -1 for an unknown token. Private. ParameterError: one outside -1 .. V
        - 1.
        """

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields the rows of :meth:`logits` in order, float64 (k, V), at most ``size`` at a time.

        ``places`` are positions asked for, ascending, where some tokens are public; ``None``: all.
        """
        rows = self.logits(ids, space)
        rows = rows if places is None else rows[places]
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    @abstractmethod
    def start(self, space: EmbeddingSpace) -> Stream:
        """Starts a stream for one text, of which nothing has been released yet."""

    def start_among(self, space: EmbeddingSpace, releases: Ids) -> Stream:
        """Starts a stream for a text with what is public of it before the draw, also ahead.

        By default that of :meth:`start`, which looks ahead at nothing. ``releases`` are int64
        (m,): ids of public tokens, and -1 where one is to be drawn.
        """
        return self.start(space)

    def logit_bound(self, texts: Sequence[str], space: EmbeddingSpace) -> float:
        """Finds the largest logit over **public** calibration texts: a bound for CAPE.

        Raises:
            ParameterError: There are no tokens, or no logit is above zero.
        """
        if isinstance(texts, str):
            raise ParameterError("expected a sequence of public texts, got one string")
        encoded = [space.vocabulary.encode(text) for text in texts]
        rows = (part for ids in encoded for part in self.blocks(ids, space, BLOCK))
        largest = max((part.max() for part in rows), default=0.0)
        if not largest > 0:
            raise ParameterError("expected public texts with a logit above zero; pass more text")
        return float(largest)


class Stream(Protocol):
    """Gives logits position by position, from what was released to the left; sees nothing else."""

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""
