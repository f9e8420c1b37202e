"""Logits position by position, from what was released."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dp_middleware.embedding.arrays import Floats, Ids


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
