"""Which pseudonym stands for which value in a conversation: secret, and kept sealed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from dp_middleware import _forks
from dp_middleware._forks import StaysHere
from dp_middleware.conversation.memo import Entries
from dp_middleware.errors import ParameterError, needs
from dp_middleware.pseudonyms.kinds.base import Kind
from dp_middleware.pseudonyms.matching import Names, normal
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.vocabulary import frequencies

_NONCE = 12  # bytes
_TAG = 16  # bytes at the end of what is sealed, of all of it and of what was before


@dataclass(frozen=True)
class Pair(StaysHere):
    """A value and what stands for it.

    Attributes:
        kind: Name of its kind.
        shape: What of it is declared public.
        key: What equal values have in common.
        original: The value as it was written first.
        pseudonym: What stands for it.
    """

    kind: str
    shape: str
    key: str = field(repr=False)
    original: str = field(repr=False)
    pseudonym: str = field(repr=False)


class Mapping(StaysHere):
    """The pairs of one conversation, and its secret numbers.

    Attributes:
        originals: Pairs by what they stand for.
        pseudonyms: Pairs by what stands for them.
        name: Random; tells it from another one of the same conversation.
        lock: Held while pairs are made.
    """

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self.name = secrets.token_bytes(16)
        self.after_fork()
        self._clear(pairs)
        _forks.renew(self)

    def _clear(self, pairs: Sequence[Pair] = ()) -> None:
        self.originals = Names((pair.original, pair) for pair in pairs)
        self.pseudonyms = Names((pair.pseudonym, pair) for pair in pairs)
        self._pairs = {pair.key: pair for pair in pairs}
        self._secrets: dict[str, int] = {}
        self._unsaved: list[list[Any]] = []
        self._seen = 0  # number of the last row that was read
        self._chain = b""  # tells the place of the next one: of all before it

    def after_fork(self) -> None:
        """A forked child begins with a lock that no thread holds."""
        self.lock = RLock()

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Mapping of {len(self)} values"

    def below(self, n: int) -> int:
        """Uniform in 0 .. n - 1."""
        return secrets.randbelow(n)

    def once(self, name: str, n: int) -> int:
        """Uniform in 0 .. n - 1, drawn once for this conversation."""
        return self._number(f"once {name}", lambda: self.below(n))

    def first(self, name: str, value: int) -> int:
        """The number that came first under this name."""
        return self._number(f"first {name}", lambda: value)

    @property
    def pairs(self) -> list[Pair]:
        """All of them, the oldest first."""
        return list(self._pairs.values())

    def bound(self, pseudonyms: Iterable[str]) -> Mapping:
        """Returns a copy to restore with that has these pseudonyms alone; its lock is free."""
        pairs, wanted = self.pairs, {normal(each) for each in pseudonyms}
        return Mapping([pair for pair in pairs if normal(pair.pseudonym) in wanted])

    def standing_in(self, raw: str) -> list[str]:
        """Returns the pseudonyms of the values that are found in a private text."""
        with self.lock:
            seen = view_of(raw).text
            return [match.value.pseudonym for match in self.originals.find(seen)]

    def known(self, key: str) -> Pair | None:
        """The pair of a value, if it has a pseudonym."""
        return self._pairs.get(key)

    def pair(self, kind: Kind, text: str, shape: str, public: Container[str]) -> Pair:
        """The pair of a value, drawn for it if it has none, in the way that it is written here.

        Args:
            kind: Draws.
            text: The value, private.
            shape: Public.
            public: Text around it, in which no pseudonym may occur.
        """
        key = kind.key(text, shape)
        first = self._pairs.get(key)
        if first is not None and first.shape == shape:
            return first

        def free(candidate: str) -> bool:
            spelled = normal(candidate)
            ordinary = spelled in frequencies.stop_words()  # "May" comes back as "may" by itself
            return not ordinary and spelled not in self.pseudonyms and spelled not in public

        if first is None:
            pseudonym = kind.draw(key, shape, free, self)
        else:
            key = f"{key} as {shape}"
            if (known := self._pairs.get(key)) is not None:
                return known
            pseudonym = kind.respelled(first.pseudonym, first.shape, shape, free, self)
            if pseudonym == first.pseudonym:
                return first
        pair = Pair(kind.name, shape, key, text, pseudonym)
        self._add(pair)
        self._unsaved.append([pair.kind, shape, key, text, pseudonym])
        return pair

    def load(self, entries: Entries, conversation: bytes, seal: Seal) -> None:
        """Read what another process, or this one before a restart, has kept.

        Where it was dropped, it is here too: others would draw other pairs.
        """
        rows = entries.sealed(conversation, self._seen - 1)
        if self._seen and (not rows or rows[0][0] != self._seen):
            self._clear()
        for number, sealed in rows[1 if self._seen else 0 :]:
            data = seal.opened(sealed, conversation + self._chain)
            self._seen, self._chain = number, sealed[-_TAG:]
            for record in json.loads(data):
                self._read(record)

    def store(self, entries: Entries, conversation: bytes, seal: Seal, now: float) -> None:
        """Keep what is new, and all that was kept as long as what it was just released with."""
        entries.use(conversation, now)
        if self._unsaved:
            sealed = seal.closed(json.dumps(self._unsaved).encode(), conversation + self._chain)
            self._seen, self._chain = entries.seal(conversation, sealed, now), sealed[-_TAG:]
            self._unsaved = []

    def _number(self, name: str, make: Callable[[], int]) -> int:
        if name not in self._secrets:
            self._secrets[name] = make()
            self._unsaved.append([name, self._secrets[name]])
        return self._secrets[name]

    def _read(self, record: list[Any]) -> None:
        if len(record) == 2:
            self._secrets.setdefault(record[0], record[1])
        else:
            self._add(Pair(*record))

    def _add(self, pair: Pair) -> None:
        if self._pairs.setdefault(pair.key, pair) is pair:
            self.originals.add(pair.original, pair)
            self.pseudonyms.add(pair.pseudonym, pair)


class Seal:
    """Authenticated encryption (AES-GCM) under a key that is never written.

    Raises:
        MissingExtra: The package ``cryptography`` is not installed.
    """

    def __init__(self, key: bytes) -> None:
        with needs("detect"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._cipher = AESGCM(key)
        self._refusals = (InvalidTag, ValueError)  # the latter where next to nothing is left

    def closed(self, data: bytes, conversation: bytes) -> bytes:
        """What may be written."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, conversation)

    def opened(self, sealed: bytes, conversation: bytes) -> bytes:
        """Inverse of :meth:`closed`.

        Raises:
            ParameterError: A byte was changed, or the key is another.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], conversation)
        except self._refusals:
            raise ParameterError(
                "expected a mapping as it was written with this key, got one that does not "
                "decrypt: its file was changed, or the key is another; take a copy of the file"
            ) from None
