"""Where a session notes what remote models answered in one conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dp_middleware.conversation.events import ReleaseMemo
from dp_middleware.conversation.names import Digests, Event
from dp_middleware.conversation.saved import Row, Saved, saved
from dp_middleware.errors import EventRefused


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """Where a session notes the answers of one conversation.

    Attributes:
        memo: Keeps them.
        digests: Name them.
        within: The conversation's keyed name.
        name: Its public name.
        named: Whether the caller gave it; else its answers lead back to it.
        whose: Who may go on in it.
    """

    memo: ReleaseMemo
    digests: Digests
    within: bytes
    name: str
    named: bool
    whose: str

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
            if not self.named:
                self.note(pointer(self.digests, self.whose, spelling), self.name, None, left)

    def note_id(self, event_id: str, words: str, left: bool) -> None:
        """Notes a remote answer by its id."""
        name = self.digests.of_id(self.within, event_id)
        self.note(self.digests.note(name), words, self.digests.private(name), left)

    def saved(self, event_id: str, words: str) -> Saved:
        """Returns what may be kept of a remote answer."""
        name = self.digests.of_id(self.within, event_id)
        return saved(self.digests, Row(self.digests.note(name), b"", json.dumps(words)))

    def note_place(self, events: Sequence[Event], words: str, left: bool) -> None:
        """Notes a remote answer by the place of the event that stands for it, the last one."""
        name = self.digests.names(self.within, events)[-1]
        self.note(self.digests.note(name), words, self.digests.private(name), left)

    def keep(self, reference: str, used: Sequence[str]) -> None:
        """Lets another exchange go on from one, by a reference."""
        key = _reference(self.digests, self.whose, reference)
        self.note(key, json.dumps([self.name, list(used)]), None, left=False)


def kept(
    memo: ReleaseMemo, digests: Digests, whose: str, reference: str
) -> tuple[str, frozenset[str]]:
    """Returns the conversation of the exchange with a reference, and its pseudonyms.

    Raises:
        EventRefused: There is none.
    """
    (known,) = memo.answers([_reference(digests, whose, reference)])
    if known is None:
        raise EventRefused("expected a reference to an exchange of this session, got another")
    name, used = json.loads(known)
    return name, frozenset(used)


def _reference(digests: Digests, whose: str, reference: str) -> bytes:
    return digests.of("exchange", whose, reference)


def pointer(digests: Digests, whose: str, words: str) -> bytes:
    """Returns the key under which an answer's words lead to their conversation."""
    return digests.of("conversation of", whose, words)
