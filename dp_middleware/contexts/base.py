"""What a context is: logits for every position of a text, from tokens or from releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from numpy.typing import ArrayLike

from dp_middleware.contexts.streams import Apart, Stream, Streams
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
        """What the raw tokens of one text say of each position.

        Args:
            ids: int (n,), each in 0 .. V - 1 or -1 for an unknown token. Private.
            space: V tokens.

        Returns:
            float64 (n, V).

        Raises:
            ParameterError: An id outside -1 .. V - 1.
        """

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """The rows of :meth:`logits` in order, float64 (k, V), at most ``size`` at a time.

        Args:
            ids: As for :meth:`logits`.
            space: V tokens.
            size: At least 1.
            places: Positions whose rows are asked for, ascending; ``None``: all. Given only where
                tokens of the text are public, which are read and not drawn for.
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
        """Streams for texts with what is public of them before the draw, also ahead.

        By default those of :meth:`start_together`, which look ahead at nothing.

        Args:
            space: V tokens.
            releases: For each text int64 (m,): ids of public tokens, and -1 where one is to be
                drawn.
        """
        return self.start_together(space, len(releases))

    def logit_bound(self, texts: Sequence[str], space: EmbeddingSpace) -> float:
        """The largest logit over texts: a bound for CAPE.

        Args:
            texts: **Public** calibration texts: the result depends on them.
            space: V tokens.

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
