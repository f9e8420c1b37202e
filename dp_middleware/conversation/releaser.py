"""What a session releases with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.spans import Scope


class Releaser(Protocol):
    """A sanitizer, or the pseudonyms of one conversation."""

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    @property
    def remembers(self) -> bool:
        """Whether a release depends on those before, and is made while nobody else makes one."""

    def count(self, text: str) -> int:
        """Number of tokens of a public text."""

    def read(self, text: str, scope: Scope | None = None) -> Any:
        """A draft of a private text."""

    def release_drafts(self, drafts: Sequence[Any]) -> list[tuple[Release, Any]]:
        """Charge, draw and write."""

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """While it releases, what it remembers is read from these entries and kept there.

        Args:
            entries: Of the memo.
            now: Seconds since the epoch, on the memo's clock.
        """
