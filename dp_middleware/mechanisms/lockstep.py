"""Draws for many texts, position by position, each after what was released before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from dp_middleware.contexts import Streams
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import withheld

T = TypeVar("T")

FRESH = -1
"""In a text's releases: what is to be drawn here is not yet known."""

_TEXTS = 32  # that go on together
_POSITIONS = 2**14  # of all texts that go on together, which a model's cache holds; or of one text

Draw = Callable[[Ids, Floats], Ids]
"""The output (1,) for a token (1,), given the logits (1, V) of its position."""


def released(
    texts: Sequence[Ids],
    releases: Sequence[Ids],
    start: Callable[[list[Ids]], Streams],
    draw: Draw,
) -> list[Ids]:
    """What is released for the tokens of each text, int64 (n,) each.

    Texts of similar length go on together: lengths are public, and so is a release once drawn.

    Args:
        texts: int64 (n,) each, -1 for an unknown token. Private.
        releases: int64 (m,) each, of which n are :data:`FRESH`; see :meth:`Drawer.draw`.
        start: Streams for texts of which this much is public before the draw.
        draw: See :data:`Draw`.
    """
    drawn: list[Ids] = [np.empty(0, dtype=np.int64)] * len(texts)
    for group in _groups([len(known) for known in releases]):
        own = [texts[text] for text in group], [releases[text] for text in group]
        streams = asked(partial(start, own[1]))
        for text, outputs in zip(group, _together(*own, streams, draw), strict=True):
            drawn[text] = np.array(outputs, dtype=np.int64)
    return drawn


def _groups(lengths: list[int]) -> Iterator[list[int]]:
    """Numbers of texts, the longest first."""
    order = sorted(range(len(lengths)), key=lambda text: -lengths[text])
    while order:
        size = max(1, min(_TEXTS, _POSITIONS // max(1, lengths[order[0]])))
        yield order[:size]
        order = order[size:]


def _together(
    texts: list[Ids], releases: list[Ids], streams: Streams, draw: Draw
) -> list[list[int]]:
    """What is drawn for texts of which none is longer than the one before it."""
    private = [iter(ids.tolist()) for ids in texts]
    drawn: list[list[int]] = [[] for _ in texts]
    for position in range(len(releases[0])):
        column = np.array([known[position] for known in releases if len(known) > position])
        asked(partial(streams.keep, len(column)))
        fresh = np.flatnonzero(column == FRESH)
        rows = asked(partial(streams.logits, fresh)) if fresh.size else ()
        for text, row in zip(fresh, rows, strict=True):
            column[text] = draw(np.array([next(private[text])]), row[None])[0]
            drawn[text].append(int(column[text]))
        asked(partial(streams.append, column))
    return drawn


def asked(question: Callable[[], T], whom: str = "context") -> T:
    """What a model of the caller's answers; its own exceptions may quote a text, and stay here."""
    with withheld(f"the {whom} failed with {{}}"):
        return question()
