"""Which pseudonym stands for which value in a conversation, and the way back."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from dp_middleware import _forks
from dp_middleware._forks import StaysHere
from dp_middleware.pseudonyms.addresses import POSSIBLE, opening, stays
from dp_middleware.pseudonyms.kinds import LABELS, Kind, Kinds
from dp_middleware.pseudonyms.matching import Names, fold, normal
from dp_middleware.pseudonyms.seal import TAG, Seal
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.vocabulary import frequencies

_CONTEXT = 3  # signs before a place that tell whether it continues a word or a number
_BEGINNING = 80  # signs that may begin an address
_ADDRESS = 300  # signs at the beginning and at the end of an open address that tell what it is


@dataclass(frozen=True)
class Pair(StaysHere):
    """A value and what stands for it.

    Attributes:
        kind: Its kind.
        shape: What of it is declared public.
        key: What equal values have in common.
        original: The value as it was written first.
        pseudonym: What stands for it.
    """

    kind: Kind
    shape: str
    key: str = field(repr=False)
    original: str = field(repr=False)
    pseudonym: str = field(repr=False)


class Mapping(StaysHere):
    """The pairs of one conversation, and its secret numbers.

    Args:
        within: The keyed name of the conversation.
        seal: Encrypts what is kept; ``None``: nothing is kept.
        kinds: Of the pairs that are kept.

    Attributes:
        originals: Pairs by what they stand for.
        pseudonyms: Pairs by what stands for them.
        name: Random; tells it from another one of the same conversation.
        lock: Held while pairs are made.
    """

    def __init__(
        self, within: bytes = b"", seal: Seal | None = None, kinds: Kinds = LABELS
    ) -> None:
        self._within, self._seal, self._kinds = within, seal, kinds
        self.name = secrets.token_bytes(16)
        self.after_fork()
        self._clear()
        _forks.renew(self)

    def _clear(self) -> None:
        self.originals, self.pseudonyms = Names[Pair](), Names[Pair]()
        self._pairs: dict[str, Pair] = {}
        self._secrets: dict[str, int] = {}
        self._otherwise: dict[tuple[str, str], str] = {}
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

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever drawn for it."""
        return not (self._pairs or self._secrets)

    def below(self, n: int) -> int:
        """Uniform in 0 .. n - 1."""
        return secrets.randbelow(n)

    def once(self, name: str, n: int) -> int:
        """Uniform in 0 .. n - 1, drawn once for this conversation."""
        return self._number(f"once {name}", lambda: self.below(n))

    def first(self, name: str, value: int) -> int:
        """The number that came first under this name."""
        return self._number(f"first {name}", lambda: value)

    def keep_otherwise(self, place: str, released: str, original: str) -> None:
        """Has an original of its own for what was released in a place of a file.

        Args:
            place: Its public name.
            released: Public.
            original: What no pair restores as it was written.
        """
        if self._otherwise.get((place, released)) != original:
            self._otherwise[place, released] = original
            self._unsaved.append([place, released, original])

    def otherwise(self, place: str, released: str) -> str:
        """The original of what was released in a place of a file."""
        kept = self._otherwise.get((place, released))
        return restore(released, self.pseudonyms) if kept is None else kept

    @property
    def pairs(self) -> list[Pair]:
        """All of them, the oldest first."""
        return list(self._pairs.values())

    def bound(self, pseudonyms: Container[str]) -> Names[Pair]:
        """Returns these pseudonyms alone, which nothing is added to, to restore without a lock."""
        pairs = [pair for pair in self._pairs.values() if pair.pseudonym in pseudonyms]
        return Names((pair.pseudonym, pair) for pair in pairs)

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
            return not ordinary and spelled not in self.pseudonyms.values and spelled not in public

        if first is None:
            pseudonym = kind.draw(key, shape, free, self)
        else:
            key = f"{key} as {shape}"
            if (known := self._pairs.get(key)) is not None:
                return known
            pseudonym = kind.respelled(first.pseudonym, first.shape, shape, free, self)
            if pseudonym == first.pseudonym:
                return first
        self._pairs[key] = pair = Pair(kind, shape, key, text, pseudonym)
        self.originals.add(text, pair)
        self.pseudonyms.add(pseudonym, pair)
        self._unsaved.append([kind.name, shape, key, text, pseudonym])
        return pair

    def add(self, pair: Pair) -> None:
        """Has a pair from now on, if its value has none."""
        if self._pairs.setdefault(pair.key, pair) is pair:
            self.originals.add(pair.original, pair)
            self.pseudonyms.add(pair.pseudonym, pair)

    # what is kept --------------------------------------------------------------------------------

    @contextmanager
    def kept_in(self, entries: Any, now: float) -> Iterator[None]:
        """Reads what was kept, and keeps it, with what is added, from now on."""
        with self.lock:
            self.load(entries)
            yield
            if self._seal is None:
                return
            entries.use(self._within, now)
            if self._unsaved:
                data = json.dumps(self._unsaved).encode()
                sealed = self._seal.closed(data, self._within + self._chain)
                self._seen = entries.seal(self._within, sealed, now)
                self._chain, self._unsaved = sealed[-TAG:], []

    def load(self, entries: Any) -> None:
        """Reads what another process, or this one before a restart, has kept.

        Where it was dropped, it is here too: others would draw other pairs.
        """
        if self._seal is None:
            return
        rows = entries.sealed(self._within, self._seen - 1)
        if self._seen and (not rows or rows[0][0] != self._seen):
            self._clear()
        for number, sealed in rows[1 if self._seen else 0 :]:
            data = self._seal.opened(sealed, self._within + self._chain)
            self._seen, self._chain = number, sealed[-TAG:]
            for record in json.loads(data):
                if len(record) == 2:
                    self._secrets.setdefault(*record)
                elif len(record) == 3:
                    self._otherwise[record[0], record[1]] = record[2]
                else:
                    self.add(Pair(self._kinds[record[0]], *record[1:]))

    def _number(self, name: str, make: Callable[[], int]) -> int:
        if name not in self._secrets:
            self._secrets[name] = make()
            self._unsaved.append([name, self._secrets[name]])
        return self._secrets[name]


class Restorer:
    """Restores a text that comes in pieces; what could still become a pseudonym is held back.

    The pieces that it returns, joined, are the restored whole.

    Args:
        names: Pairs by their pseudonyms; they do not change while it works.
        text: The first piece.
        hosts: Of somebody who reads the text: in an address of another host a pseudonym stays.
            ``None``: nowhere.
    """

    def __init__(
        self, names: Names[Pair], text: str = "", *, hosts: Container[str] | None = None
    ) -> None:
        self._names, self._hosts = names, hosts
        self._text, self._done = text, 0

    def close(self) -> str:
        """Returns the rest."""
        return self.feed("", more=False)

    def feed(self, piece: str, more: bool = True) -> str:
        """Returns what is certain after a further piece, and whether there may be more."""
        context = self._context()
        self._text, self._done = context + self._text[self._done :] + piece, len(context)
        names, text, out = self._names, self._text, list[str]()
        folded, hosts = fold(text), self._hosts
        if hosts is not None and not POSSIBLE.search(text):
            hosts = None
        limit = names.open_at(text, self._done, folded) if more else len(text)
        for start, end, pair in list(names.find(text, self._done, folded)):
            if start >= limit:
                break
            like = text[start:end]
            foreign = hosts is not None and stays(text, start, end, hosts, more)
            if foreign is None:
                limit = start
                break
            original = like if foreign else pair.kind.written(pair.original, like)
            out += [text[self._done : start], original]
            self._done = end
            if end > limit:  # what was undecided has been decided by this match
                limit = names.open_at(text, end, folded)
        out.append(text[self._done : max(limit, self._done)])
        self._done = max(limit, self._done)
        return "".join(out)

    def _context(self) -> str:
        """What stands before the place where it goes on, as far as it matters."""
        kept = _CONTEXT if self._hosts is None else _BEGINNING
        begun = None
        if self._hosts is not None and POSSIBLE.search(self._text):
            begun = opening(self._text, self._done)
        if begun is None:
            return self._text[max(0, self._done - kept) : self._done]
        address = self._text[max(0, begun - _BEGINNING) : self._done]
        return address if len(address) <= 2 * _ADDRESS else address[:_ADDRESS] + address[-_ADDRESS:]


def restore(text: str, names: Names[Pair]) -> str:
    """Returns a whole text with the originals in place of their pseudonyms."""
    return Restorer(names, text).close()
