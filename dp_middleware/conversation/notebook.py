"""Where a session notes what remote models answered in one conversation, and finds that again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dp_middleware.conversation.memo import ReleaseMemo
from dp_middleware.conversation.names import Digests, Event
from dp_middleware.conversation.saved import Row, Saved, saved
from dp_middleware.errors import EventRefused


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """Notes the answers of one conversation.

    Attributes:
        memo: Keeps them.
        digests: Name them.
        whose: Who may go on in it.
        named: Whether the caller gave it its name; else its answers lead back to it.
        name: Its public name.
        within: Its keyed name.
        used: Pseudonyms of the exchange that it goes on from.
    """

    memo: ReleaseMemo
    digests: Digests
    whose: str
    named: bool
    name: str = ""
    within: bytes = b""
    used: frozenset[str] = frozenset()

    def begun(self, events: Sequence[Event], conversation: Callable[[str], bytes]) -> str:
        """Returns the name of the conversation that began as a transcript, or has its answers."""
        opened = self.digests.of("opening", self.whose, *_opening(events)).hex()
        name = f"opening {opened}"
        answers = [event.text for event in events if event.role == "assistant"]
        if not answers:
            return name
        first = self.digests.names(conversation(name), events)[0]
        if self.memo.knows(self.digests.private(first)):
            return name
        led = self.memo.answers([self._pointer(words) for words in reversed(answers)])
        return next((other for other in led if other is not None), name)

    def kept(self, reference: str) -> tuple[str, frozenset[str]]:
        """Returns the conversation of the exchange with a reference, and its pseudonyms.

        Raises:
            EventRefused: There is none.
        """
        (known,) = self.memo.answers([self.digests.of("exchange", self.whose, reference)])
        if known is None:
            raise EventRefused("expected a reference to an exchange of this session, got another")
        name, used = json.loads(known)
        return name, frozenset(used)

    def keep(self, reference: str, used: Sequence[str]) -> None:
        """Lets another exchange go on from one, by a reference."""
        key = self.digests.of("exchange", self.whose, reference)
        self.memo.note(key, json.dumps([self.name, list(used)]), None)

    def note_words(self, spelled: Iterable[str], words: str, left: bool) -> None:
        """Notes a remote answer by what a client may send in its place."""
        rows = list[tuple[bytes, str]]()
        for spelling in dict.fromkeys(spelled):
            rows.append((self.digests.answer(self.within, spelling), words))
            if not self.named:
                rows.append((self._pointer(spelling), self.name))
        self.memo.note_all(rows, left)

    def note_id(self, event_id: str, words: str, left: bool) -> None:
        """Notes a remote answer by its id."""
        self._note(self.digests.of_id(self.within, event_id), words, left)

    def note_place(self, events: Sequence[Event], words: str, left: bool) -> None:
        """Notes a remote answer by the place of the event that stands for it, the last one."""
        self._note(self.digests.names(self.within, events)[-1], words, left)

    def saved(self, event_id: str, words: str) -> Saved:
        """Returns what may be kept of a remote answer."""
        name = self.digests.of_id(self.within, event_id)
        return saved(self.digests, Row(self.digests.note(name), b"", json.dumps(words)))

    def _note(self, name: bytes, words: str, left: bool) -> None:
        if left:
            self.memo.note_all([(self.digests.note(name), words)], left)
        else:
            self.memo.note(self.digests.note(name), words, self.digests.private(name))

    def _pointer(self, words: str) -> bytes:
        """The key under which an answer's words lead to their conversation."""
        return self.digests.of("conversation of", self.whose, words)


def _opening(events: Sequence[Event]) -> list[str]:
    """What tells a conversation without a name: roles and texts up to the first of a user."""
    ordered = [event for event in events if not event.aside]
    first = next((k for k, event in enumerate(ordered) if event.role == "user"), len(ordered))
    return [part for event in ordered[: first + 1] for part in (event.role, event.text)]
