"""How messages and conversations are named, and what is noted of remote answers under the names."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dp_middleware.conversation.memo import EventKeys, ReleaseMemo
from dp_middleware.conversation.messages import ONCE, Event
from dp_middleware.errors import EventRefused, ParameterError, UnknownAnswer

_KEY_BYTES = 32

# what happens to an assistant's text that was not noted; a function tells which ones pass
Unknown = Literal["refuse", "pass"] | Callable[[str], bool]
Origin = Literal["remote-answer", "declared-public"]  # why a text is public


class Digests:
    """HMAC-SHA256 under one key of 32 bytes or more, which without it tells nothing."""

    def __init__(self, key: bytes | None) -> None:
        secret: Any = os.urandom(_KEY_BYTES) if key is None else key
        if not isinstance(secret, bytes) or len(secret) < _KEY_BYTES:
            raise ParameterError(f"expected key= of type bytes, {_KEY_BYTES} of them or more")
        self._key = secret

    def of(self, *parts: str | bytes) -> bytes:
        """Returns the digest of parts, each with its length; 32 bytes."""
        message = bytearray()
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            message += len(data).to_bytes(8, "little")
            message += data
        return hmac.digest(self._key, message, "sha256")

    def event(self, name: bytes, settings: str = "") -> EventKeys:
        """Returns the keys of a named event; other settings make it a new one."""
        released = self.of("event", settings, name)
        return EventKeys(released, self.of("private", name), self.of("note", name))

    def names(self, conversation: bytes, transcript: Sequence[Event]) -> list[bytes]:
        """Names each event: by its id, or else by a chain over the transcript up to it."""
        names = []
        chained = any(event.id is None and not event.aside for event in transcript)
        chain = self.of("start", conversation) if chained else b""
        for event_id, role, text, aside in transcript:
            if aside and event_id is None:
                event_id = f"aside {self.of('aside', role, text).hex()}"
            elif chained and not aside:
                chain = self.of("chain", chain, role, text)
            is_id = isinstance(event_id, str)
            names.append(self.of("id", conversation, str(event_id)) if is_id else chain)
        return names


class Admitted(NamedTuple):
    """A message that may be released."""

    name: bytes  # of its event, keyed
    event: Event
    public: tuple[str, Origin] | None  # what goes out for it as it is, and why


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """Notes the answers of one conversation, and knows them again."""

    memo: ReleaseMemo
    digests: Digests
    within: bytes = b""  # the conversation's keyed name
    whose: str = ""  # who may go on in it
    named: bool = True  # whether the caller gave it its name; else its answers lead back to it
    name: str = ""  # its public name
    used: frozenset[str] = frozenset()  # pseudonyms of the exchange that it goes on from

    def begun(self, events: Sequence[Event], conversation: Callable[[str], bytes]) -> str:
        """Returns the name of the conversation that began as a transcript, or has its answers."""
        ordered = [event for event in events if not event.aside]
        first = next((k for k, event in enumerate(ordered, 1) if event.role == "user"), None)
        opening = [part for event in ordered[:first] for part in (event.role, event.text)]
        name = f"opening {self.digests.of('opening', self.whose, *opening).hex()}"
        answers = [event.text for event in events if event.role == "assistant"]
        if not answers:
            return name
        start = self.digests.names(conversation(name), events)[0]
        if self.memo.answers([self.digests.event(start).private]) != [None]:
            return name
        led = self.memo.answers([self._pointer(words) for words in reversed(answers)])
        return next((other for other in led if other is not None), name)

    def admit(
        self, events: Sequence[Event], unknown: Unknown, by_hand: Callable[[], bytes] | None = None
    ) -> list[Admitted]:
        """Admits a transcript, if all of its messages may be released, or raises EventRefused.

        ``by_hand`` makes the keyed name of another conversation whose noted answers hold here.
        """
        if unknown not in ("refuse", "pass") and not callable(unknown):
            raise ParameterError(f"expected unknown in ('refuse', 'pass'), got {unknown!r}")
        ids = [event.id for event in events if isinstance(event.id, str) and not event.aside]
        if len(set(ids)) < len(ids):
            raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
        names, answers = self._answers(self.within, events)
        pairs = zip(events, answers, strict=True)
        if by_hand and any(event.role == "assistant" and said is None for event, said in pairs):
            _, noted = self._answers(by_hand(), events)
            answers = [a if a is not None else b for a, b in zip(answers, noted, strict=True)]
        return [
            Admitted(name, event, _public(event, answer, unknown))
            for name, event, answer in zip(names, events, answers, strict=True)
        ]

    def _answers(
        self, within: bytes, events: Sequence[Event]
    ) -> tuple[list[bytes], list[str | None]]:
        """Names events, and finds the answers that they stand for: by name, or by their words."""
        names = self.digests.names(within, events)
        by_words = [
            self.digests.of("answer", within, event.text)
            if event.role == "assistant" and event.id is None
            else None
            for event in events
        ]
        known = self.memo.answers([*(self.digests.of("note", name) for name in names), *by_words])
        pairs = zip(known[: len(events)], known[len(events) :], strict=True)
        return names, [named if named is not None else said for named, said in pairs]

    def note_words(self, spelled: Iterable[str], words: str, left: bool = False) -> None:
        """Notes a remote answer by what a client may send in its place."""
        rows = list[tuple[bytes, str]]()
        for spelling in dict.fromkeys(spelled):
            rows.append((self.digests.of("answer", self.within, spelling), words))
            if not self.named:
                rows.append((self._pointer(spelling), self.name))
        self.memo.note(*rows, left=left)

    def note_id(self, event_id: str, words: str, left: bool = False) -> None:
        """Notes a remote answer by its id."""
        self._note(self.digests.of("id", self.within, event_id), words, left)

    def note_place(self, events: Sequence[Event], words: str, left: bool = False) -> None:
        """Notes a remote answer by the place of the message that stands for it, the last one."""
        self._note(self.digests.names(self.within, events)[-1], words, left)

    def _note(self, name: bytes, words: str, left: bool) -> None:
        keys = self.digests.event(name)
        self.memo.note((keys.note, words), private=keys.private, left=left)

    def _pointer(self, words: str) -> bytes:
        """The key under which an answer's words lead to their conversation."""
        return self.digests.of("conversation of", self.whose, words)

    def keep(self, reference: str, used: Sequence[str]) -> None:
        """Lets another exchange go on from one, by a reference."""
        key = self.digests.of("exchange", self.whose, reference)
        self.memo.note((key, json.dumps([self.name, list(used)])))

    def kept(self, reference: str) -> tuple[str, frozenset[str]]:
        """Returns conversation and pseudonyms of an exchange by its reference, or EventRefused."""
        (known,) = self.memo.answers([self.digests.of("exchange", self.whose, reference)])
        if known is None:
            raise EventRefused("expected a reference to an exchange of this session, got another")
        name, used = json.loads(known)
        return name, frozenset(used)


def _public(event: Event, answer: str | None, unknown: Unknown) -> tuple[str, Origin] | None:
    if event.role != "assistant":
        if answer is not None:
            raise EventRefused(f"expected role assistant for a noted event, got {event.role}")
        return None
    if event.id is ONCE:
        raise EventRefused("expected a private role for a text without an event, got assistant")
    if answer is not None:
        return answer, "remote-answer"
    if unknown == "pass" or (callable(unknown) and unknown(event.text)):
        return event.text, "declared-public"
    raise UnknownAnswer(
        "expected an assistant's message known from note_remote, got another; it may hold private "
        "text and is not sent"
    )
