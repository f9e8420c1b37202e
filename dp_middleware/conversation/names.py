"""Names of events and digests of raw texts, keyed: without the key they tell nothing."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import PART, Detector


class Once(Enum):
    """In place of an event id."""

    ONCE = "once"


ONCE: Final = Once.ONCE
"""The event of a text that will never come again: a new release, kept in no memo."""

Item = tuple[str | Literal[Once.ONCE] | None, str, str]


class Event(NamedTuple):
    """A message as a session is told of it.

    Attributes:
        id: Public, ``ONCE``, or ``None`` where it is known by its place.
        role: Whose it is.
        text: Private, unless it is a known answer's.
        aside: Whether it stands outside of the order of messages.
    """

    id: str | Once | None
    role: str
    text: str
    aside: bool = False


AnyItem = Item | Event | Mapping[str, Any]
"""Also a message as chat clients keep it: ``{"role": ..., "content": ...}``, maybe with an id."""

ROLES = ("system", "user", "assistant", "tool")

_PRIVATE = tuple(role for role in ROLES if role != "assistant")


def checked(item: Any) -> Event:
    """An event id, :data:`ONCE` or ``None``; a role and a text; also from a message as a dict.

    Raises:
        ParameterError: One of them is not what it should be; quotes none of them.
    """
    if isinstance(item, Event):
        return item
    event_id, role, text = _of_dict(item) if isinstance(item, Mapping) else item
    unnamed = event_id is None or event_id is ONCE
    if not unnamed and (not isinstance(event_id, str) or not event_id):
        raise ParameterError("expected an event id of type str, not empty")
    if role not in ROLES:
        raise ParameterError(f"expected a role in {ROLES}")
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    return Event(event_id, role, text.replace(PART, " "))


_OTHER_ROLES = {"developer": "system", "function": "tool"}


def _of_dict(message: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Of other keys nothing is ever sent, but calls of tools must not get lost in silence."""
    role, content = message.get("role"), message.get("content")
    if message.get("tool_calls") or message.get("function_call"):
        raise ParameterError("expected messages of text, got one that calls tools")
    if isinstance(content, list):
        texts: list[Any] = [
            part.get("text") if isinstance(part, Mapping) else part for part in content
        ]
        if not all(isinstance(text, str) for text in texts):
            raise ParameterError("expected messages of text, got one with parts of another kind")
        content = "\n\n".join(texts)
    if isinstance(role, str):
        role = _OTHER_ROLES.get(role, role)
    return message.get("id"), role, content


def by_role(scope: Detector | Mapping[str, Detector] | None) -> dict[str, Detector]:
    """The detector of each private role; one that is missing is released whole.

    Raises:
        ParameterError: Neither a function nor functions by private role.
    """
    if scope is None:
        return {}
    detectors = dict(scope) if isinstance(scope, Mapping) else dict.fromkeys(_PRIVATE, scope)
    if not set(detectors) <= set(_PRIVATE) or not all(map(callable, detectors.values())):
        raise ParameterError(
            f"expected scope= as a function from a text to its private spans, or one per role in "
            f"{list(_PRIVATE)}"
        )
    return detectors


_KEY_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class EventKeys:
    """The keys of a message in the memo: keyed digests of its name.

    Attributes:
        released: Of what one mechanism released for it.
        private: Of the mark that it was released as a private one, by whatever mechanism.
        note: Of the note that it is a remote answer.
    """

    released: bytes
    private: bytes
    note: bytes


class Digests:
    """HMAC-SHA256 under one key. Held in memory only.

    Raises:
        ParameterError: Too short, or not bytes.
    """

    def __init__(self, key: bytes | None) -> None:
        secret: Any = os.urandom(_KEY_BYTES) if key is None else key
        if not isinstance(secret, bytes) or len(secret) < _KEY_BYTES:
            raise ParameterError(f"expected key= of type bytes, {_KEY_BYTES} of them or more")
        self._key = secret

    def of(self, *parts: str | bytes) -> bytes:
        """Digest of parts, each with its length; 32 bytes."""
        message = bytearray()
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            message += len(data).to_bytes(8, "little")
            message += data
        return hmac.digest(self._key, message, "sha256")

    def event(self, name: bytes, settings: str) -> EventKeys:
        """The keys of a named event.

        Args:
            name: As of :meth:`names`.
            settings: Of what releases it; other ones make it a new event.
        """
        return EventKeys(
            released=self.of("event", settings, name),
            private=self.private(name),
            note=self.note(name),
        )

    def private(self, name: bytes) -> bytes:
        """The key of the mark that a named event was released as a private one."""
        return self.of("private", name)

    def note(self, name: bytes) -> bytes:
        """The key of a remote answer with this name."""
        return self.of("note", name)

    def answer(self, conversation: bytes, text: str) -> bytes:
        """The key of a remote answer without an id: by content, which is public."""
        return self.of("answer", conversation, text)

    def of_id(self, conversation: bytes, event_id: str) -> bytes:
        """The name of an event with an id."""
        return self.of("id", conversation, event_id)

    def names(self, conversation: bytes, transcript: Sequence[Event]) -> list[bytes]:
        """The name of each event: of its id, or else a chain over the transcript up to it."""
        names = []
        chained = any(event.id is None and not event.aside for event in transcript)
        chain = self.of("start", conversation) if chained else b""
        for event_id, role, text, aside in transcript:
            if aside and event_id is None:
                event_id = f"aside {self.of('aside', role, text).hex()}"
            elif chained and not aside:
                chain = self.of("chain", chain, role, text)
            is_id = isinstance(event_id, str)
            names.append(self.of_id(conversation, str(event_id)) if is_id else chain)
        return names
