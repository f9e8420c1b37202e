"""Where a session notes what remote models answered in one conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dp_middleware.conversation.events import ReleaseMemo
from dp_middleware.conversation.names import Digests, Event
from dp_middleware.errors import EventRefused


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """Where a session notes the answers of one conversation.

    Attributes:
        memo: Keeps them.
        digests: Name them.
        within: The conversation's keyed name.
        name: Its public name, if the caller gave it none: then its answers lead back to it.
        subject: In whose name.
    """

    memo: ReleaseMemo
    digests: Digests
    within: bytes
    name: str | None
    subject: str

    def note(self, key: bytes, words: str, private: bytes | None, left: bool) -> None:
        """Notes a remote answer under a key."""
        if left:
            self.memo.note_left(key, words)
        else:
            self.memo.note(key, words, private)

    def note_words(self, spelled: Iterable[str], words: str, left: bool) -> None:
        """Notes a remote answer by what a client may send in its place."""
        for spelling in dict.fromkeys(spelled):
            self.note(self.digests.answer(self.within, spelling), words, None, left)
            if self.name is not None:
                self.note(pointer(self.digests, self.subject, spelling), self.name, None, left)

    def note_id(self, event_id: str, words: str, left: bool) -> None:
        """Notes a remote answer by its id."""
        name = self.digests.of_id(self.within, event_id)
        self.note(self.digests.note(name), words, self.digests.private(name), left)

    def note_place(self, events: Sequence[Event], words: str, left: bool) -> None:
        """Notes a remote answer by the place of the event that stands for it, the last one."""
        name = self.digests.names(self.within, events)[-1]
        self.note(self.digests.note(name), words, self.digests.private(name), left)

    def kept(self, reference: str | None) -> list[str]:
        """Returns the pseudonyms of the exchange with this reference.

        Raises:
            EventRefused: There is none in this conversation.
        """
        if reference is None:
            return []
        name = self.digests.of_id(self.within, f"\x1fused {reference}")
        (known,) = self.memo.answers([self.digests.note(name)])
        if known is None:
            raise EventRefused("expected a reference to an exchange of this conversation")
        used: list[str] = json.loads(known)
        return used


def pointer(digests: Digests, subject: str, words: str) -> bytes:
    """Returns the key under which an answer's words lead to their conversation."""
    return digests.of("conversation of", subject, words)
