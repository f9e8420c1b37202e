"""What a context is: logits for every position of a text, or step by step from releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import ParameterError


class Context(ABC):
    """Turns the other tokens of a text into logits over the tokens of a space."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Positions, its own included, that one token can influence through raw logits."""

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
        """A stream for one text, of which nothing has been released yet."""

    def start_together(self, space: EmbeddingSpace, texts: int) -> Streams:
        """Streams for so many texts; by default those of :meth:`start`, one for each."""
        return Apart([self.start(space) for _ in range(texts)])

    def start_among(self, space: EmbeddingSpace, releases: Sequence[Ids]) -> Streams:
        """Starts streams for texts with what is public of them before the draw, also ahead.

        By default those of :meth:`start_together`, which look ahead at nothing. ``releases`` hold
        int64 (m,) for each text: ids of public tokens, and -1 where one is to be drawn.
        """
        return self.start_together(space, len(releases))

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
    """Logits position by position, from what was released to the left; sees nothing else."""

    def logits(self) -> Floats:
        """For the next position, float64 (1, V)."""

    def append(self, number: int) -> None:
        """The id released at the next position, 0 .. V - 1."""


class Streams(Protocol):
    """Streams of n texts that go on together, position by position."""

    def logits(self, texts: Ids, /) -> Floats:
        """For the next position of k of the texts, int64 (k,) in 0 .. n - 1; float64 (k, V)."""

    def append(self, numbers: Ids, /) -> None:
        """The ids released at the next position of each text, int64 (n,)."""

    def keep(self, count: int, /) -> None:
        """Go on with the first ``count`` texts; the others have ended."""


class Apart:
    """A stream for each text, which knows nothing of the others."""

    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams

    def logits(self, texts: Ids) -> Floats:
        """Asks those streams."""
        return np.concatenate([self._streams[text].logits() for text in texts])

    def append(self, numbers: Ids) -> None:
        """Tells each stream its own."""
        for stream, number in zip(self._streams, numbers.tolist(), strict=True):
            stream.append(number)

    def keep(self, count: int) -> None:
        """Forgets the others."""
        del self._streams[count:]
