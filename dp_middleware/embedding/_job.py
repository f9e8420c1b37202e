"""A list of texts of any length, handed to a batcher piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np

from dp_middleware.embedding.backends import Rows
from dp_middleware.embedding.batching import Batcher
from dp_middleware.errors import ParameterError

_AHEAD = 2  # pieces in the queue: one with the model, one ready; callers beside it get their turn


class Job:
    """The pieces of one call: texts of like length together, which saves padding.

    Attributes:
        rows: Unit rows of all texts in their order, float32 (n, d), when ``next`` gives ``None``.

    Raises:
        ParameterError: Not a list of texts.
    """

    def __init__(self, batcher: Batcher, texts: Sequence[str]) -> None:
        self._batcher = batcher
        self._texts = _checked(texts)
        self._order = sorted(range(len(self._texts)), key=lambda i: -len(self._texts[i]))
        self._started = 0
        self._pending: deque[tuple[list[int], Future[Rows]]] = deque()
        self.rows: Rows = np.empty((len(self._texts), batcher.width or 0), np.float32)

    def next(self) -> Future[Rows] | None:
        """The oldest piece that has no rows yet; hand what it gives to :meth:`keep`."""
        size = self._batcher.backend.batch
        while self._started < len(self._order) and len(self._pending) < _AHEAD:
            places = self._order[self._started : self._started + size]
            answer = self._batcher.submit([self._texts[i] for i in places])
            self._pending.append((places, answer))
            self._started += len(places)
        return self._pending[0][1] if self._pending else None

    def keep(self, found: Rows) -> None:
        """The rows of the oldest piece."""
        places, _ = self._pending.popleft()
        if self.rows.shape[1] != found.shape[1]:
            self.rows = np.empty((len(self._texts), found.shape[1]), np.float32)
        self.rows[places] = found

    def give_up(self) -> None:
        """Take back what the model has not begun with."""
        for _, answer in self._pending:
            answer.cancel()


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise ParameterError("expected a list of texts, got one str")
    found = list(texts)
    for text in found:
        if not issubclass(type(text), str):
            raise ParameterError(f"expected texts of type str, got {type(text).__name__}")
    # A subclass may compare and hash as it likes, on the thread that all callers share.
    return [text if type(text) is str else str.__str__(text) for text in found]
