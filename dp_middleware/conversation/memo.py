"""What a memo keeps: entries by the keyed digest of their event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

WAIT = 60.0  # seconds for another process that is just releasing


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was released for an event.

    Attributes:
        digest: Keyed digest of the raw text and its role; empty for a remote answer, which is
            public, and for a mark.
        created: Seconds since the epoch.
        released: Public: the release, as JSON; empty for a mark.
    """

    digest: bytes = field(repr=False)
    created: float
    released: str = field(repr=False)


class Entries(ABC):
    """Entries by keyed digest of their event, while nobody else can change them."""

    @abstractmethod
    def get(self, event: bytes) -> Entry | None:
        """The entry of an event, however old."""

    @abstractmethod
    def put(self, event: bytes, entry: Entry) -> None:
        """Set an event's entry; it is then the newest."""

    @abstractmethod
    def forget(self, before: float, unused: float) -> None:
        """Drop what is old.

        Args:
            before: Entries created earlier are dropped.
            unused: Of conversations last used earlier, what was sealed is dropped.
        """

    @abstractmethod
    def forget_oldest(self) -> None:
        """Drop one entry."""

    @abstractmethod
    def __len__(self) -> int: ...

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        """Numbers and data of what was sealed for a conversation, behind a number."""
        return []

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        """Keep encrypted data as long as its conversation is used; its number."""
        return 0

    def use(self, conversation: bytes, now: float) -> None:
        """What was sealed for a conversation is kept from now on."""
        return
