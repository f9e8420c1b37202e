"""Names of events and digests of raw texts, keyed: without the key they tell nothing."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, Literal

from dp_middleware.errors import ParameterError


class Once(Enum):
    """In place of an event id."""

    ONCE = "once"


ONCE: Final = Once.ONCE
"""The event of a text that will never come again: a new release, kept in no memo."""

Item = tuple[str | Literal[Once.ONCE] | None, str, str]

ROLES = ("system", "user", "assistant", "tool")

_KEY_BYTES = 32


class Digests:
    """HMAC-SHA256 under one key. Held in memory only.

    Args:
        key: 32 bytes or more; ``None``: a fresh one.

    Raises:
        ParameterError: Too short, or not bytes.
    """

    def __init__(self, key: bytes | None) -> None:
        given: Any = os.urandom(_KEY_BYTES) if key is None else key
        if not isinstance(given, bytes) or len(given) < _KEY_BYTES:
            raise ParameterError(f"expected key= of type bytes, {_KEY_BYTES} of them or more")
        self._key = given

    def of(self, *parts: str | bytes) -> bytes:
        """Digest of parts, each with its length; 32 bytes."""
        data = [
            part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            for part in parts
        ]
        message = b"".join(each for d in data for each in (len(d).to_bytes(8, "little"), d))
        return hmac.digest(self._key, message, "sha256")

    def marker(self, *parts: str | bytes) -> Callable[[str], bytes]:
        """A function from short texts to keyed digests, for many of them: BLAKE2, 32 bytes."""
        key = self.of(*parts)
        return lambda text: blake2b(text.encode(), key=key, digest_size=32).digest()

    def of_id(self, conversation: bytes, event_id: str) -> bytes:
        """The name of an event with an id."""
        return self.of("id", conversation, event_id)

    def names(self, conversation: bytes, transcript: Iterable[Item]) -> list[bytes]:
        """The name of each event: of its id, or else a chain over the transcript up to it."""
        chain, found = self.of("start", conversation), []
        for event_id, role, text in transcript:
            chain = self.of("chain", chain, role, text)
            named = isinstance(event_id, str)
            found.append(self.of_id(conversation, str(event_id)) if named else chain)
        return found


def checked(item: Any) -> Item:
    """An event id, :data:`ONCE` or ``None``; a role and a text.

    Raises:
        ParameterError: One of them is not what it should be; quotes none of them.
    """
    event_id, role, text = item
    unnamed = event_id is None or event_id is ONCE
    if not unnamed and (not isinstance(event_id, str) or not event_id):
        raise ParameterError("expected an event id of type str, not empty")
    if role not in ROLES:
        raise ParameterError(f"expected a role in {ROLES}")
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    return event_id, role, text
