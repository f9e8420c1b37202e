"""What is kept of a conversation's pseudonyms, encrypted."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dp_middleware.errors import ParameterError, needs
from dp_middleware.pseudonyms.kinds import Kinds
from dp_middleware.pseudonyms.mapping import Mapping, Pair

_TAG = 16  # bytes at the end of what is sealed, of all of it and of what was before
_NONCE = 12  # bytes


class Seal:
    """Authenticated encryption (AES-GCM) under a key that is never written."""

    def __init__(self, key: bytes) -> None:
        with needs("detect"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._cipher = AESGCM(key)
        self._refusals = (InvalidTag, ValueError)  # the latter where next to nothing is left

    def closed(self, data: bytes, conversation: bytes) -> bytes:
        """Returns what may be written."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, conversation)

    def opened(self, sealed: bytes, conversation: bytes) -> bytes:
        """Undoes :meth:`closed`; raises ParameterError for a changed byte, or another key."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], conversation)
        except self._refusals:
            raise ParameterError(
                "expected a mapping as it was written with this key, got one that does not "
                "decrypt: its file was changed, or the key is another; take a copy of the file"
            ) from None


class SealedMapping(Mapping):
    """A mapping that is kept elsewhere too, encrypted, and has what others added to it there."""

    def __init__(self, within: bytes, seal: Seal, kinds: Kinds) -> None:
        self._within, self._seal, self._kinds = within, seal, kinds
        super().__init__()

    def _clear(self) -> None:
        super()._clear()
        self._unsaved: list[list[Any]] = []
        self._seen = 0  # number of the last row that was read
        self._chain = b""  # tells the place of the next one: of all before it

    def _note(self, record: list[Any]) -> None:
        self._unsaved.append(record)

    @contextmanager
    def kept_in(self, entries: Any, now: float) -> Iterator[None]:
        """Reads what was kept, and keeps it, with what is added, from now on."""
        with self.lock:
            self.load(entries)
            yield
            entries.use(self._within, now)
            if self._unsaved:
                data = json.dumps(self._unsaved).encode()
                sealed = self._seal.closed(data, self._within + self._chain)
                self._seen = entries.seal(self._within, sealed, now)
                self._chain, self._unsaved = sealed[-_TAG:], []

    def load(self, entries: Any) -> None:
        """Reads what was kept since; where that was dropped, it is here too, as for others."""
        rows = entries.sealed(self._within, self._seen - 1)
        if self._seen and (not rows or rows[0][0] != self._seen):
            self._clear()
        for number, sealed in rows[1 if self._seen else 0 :]:
            data = self._seal.opened(sealed, self._within + self._chain)
            self._seen, self._chain = number, sealed[-_TAG:]
            for record in json.loads(data):
                if len(record) == 2:
                    self._secrets.setdefault(*record)
                elif len(record) == 3:
                    self._otherwise[record[0], record[1]] = record[2]
                else:
                    self.add(Pair(self._kinds[record[0]], *record[1:]))
