"""A sanitizer that tells the page which token became which; for the person who typed them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

from dp_middleware._forks import StaysHere
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Bill, Release
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Scope, Span
from dp_middleware.sanitizers.whole import D


@dataclass(kw_only=True)
class Notes(StaysHere):
    """What a sanitizer of tokens did in a block of :func:`notes`. **Private**.

    Attributes:
        spans: The private characters of the text: first offset and that behind the last.
        draft: Their tokens with what was drawn; ``None`` if no tokens were.
    """

    spans: list[tuple[int, int]] = field(default_factory=list, repr=False)
    draft: Draft | None = field(default=None, repr=False)


_open: ContextVar[Notes | None] = ContextVar("dp_middleware_playground", default=None)


@contextmanager
def notes() -> Iterator[Notes]:
    """In this block, what is read and drawn is written down."""
    written = Notes()
    token = _open.set(written)
    try:
        yield written
    finally:
        _open.reset(token)


class NotingSanitizer(Sanitizer):
    """A sanitizer with the same law, certificate and charges, which writes :class:`Notes`."""

    @classmethod
    def of(cls, sanitizer: Sanitizer) -> Self:
        """The same sanitizer, noting."""
        twin = cls.__new__(cls)
        twin.__dict__.update(sanitizer.__dict__)
        return twin

    @classmethod
    def within(cls, releaser: Any) -> Any:
        """A sanitizer noting, or pseudonyms whose sanitizer notes; all else stays the same."""
        if type(releaser) is Sanitizer:
            return cls.of(releaser)
        twin = copy.copy(releaser)
        if isinstance(releaser, Pseudonyms) and releaser.sanitizer is not None:
            twin.sanitizer = cls.of(releaser.sanitizer)
        return twin

    def read(self, text: str, scope: Scope | None = None) -> Any:
        """As that of a sanitizer."""
        draft = super().read(text, scope)
        if (written := _open.get()) is not None:
            spans = scope if isinstance(scope, Sequence) else [Span(0, len(text))]
            pairs = [(s.start, s.end) if isinstance(s, Span) else s for s in spans]
            written.spans = pairs
        return draft

    def release_drafts(
        self,
        drafts: Sequence[D],
        compose: Callable[[Certificate], Certificate] = lambda own: own,
        pay: Callable[[Sequence[Bill]], None] | None = None,
    ) -> list[tuple[Release, D]]:
        """As that of a sanitizer."""
        released = super().release_drafts(drafts, compose, pay)
        if (written := _open.get()) is not None and isinstance(released[-1][1], Draft):
            written.draft = released[-1][1]
        return released
