"""Kinds of entities with their laws, and which pseudonym stands for which value."""

from __future__ import annotations

import itertools
import json
import math
import secrets
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Self

from dp_middleware import _forks
from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.draws import ALPHABETS, TAG, Draws, Free, Keyed, Part, Seal, whole
from dp_middleware.pseudonyms.matching import Names, normal, restore
from dp_middleware.sampling.entropy import Entropy, below
from dp_middleware.vocabulary import frequencies

_TRIES = 16  # draws from a list before entries are combined
PATTERN_TRIES = 500  # draws of a pattern before it counts as used up
_LISTED = 2000  # patterns with at most so many texts are drawn from what is left of them
_MOST_WORDS = 20


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What stands for the entities of one public kind.

    Guarantee:
        Given the kind, the shapes and which parts are equal, the law of all pseudonyms of a
        session is the same whatever the values are, so nothing is lost (0 nats); for a kind that
        keeps something near its value, the loss is exactly :attr:`loss` per distinct value.
    """

    name: ClassVar[str]
    keeps: ClassVar[str]  # what is revealed beside the kind, for the certificate's assumptions
    keeps_digits: ClassVar[bool] = False  # parts that end in digits get pseudonyms that do
    numeric: ClassVar[bool] = False  # a number alone gets a pseudonym that is one
    exact: ClassVar[bool] = False  # a pseudonym, and what comes back, is written in its own case
    loss: ClassVar[float] = 0.0
    """Nats per distinct value, between any two values of one shape."""

    def parts(self, mention: str) -> list[Part]:
        """Returns what is replaced in a mention, in reading order; the rest of it stays."""
        return [Part(a, b, self._shape(mention[a:b])) for a, b in self._spans(mention)]

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        return [part[:2] for part in whole(mention)]

    def key(self, text: str, shape: str) -> str:
        """Returns what equal values have in common: they get one pseudonym. Private."""
        return normal(text)

    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """Draws a pseudonym, or a label; kinds with a loss or a secret shift alone read the key."""
        return self._drawn(key, shape, free, draws) or self.label(free, draws)

    def label(self, free: Free, draws: Draws, name: str = "") -> str:
        """Draws such as "NRP_47": a number of two digits; of eight where others shall agree."""

        def drawn(digits: int) -> str:
            low = 10 ** (digits - 1)
            return f"{(name or self.name).upper()}_{low + draws.below(9 * low)}"

        return longer(name or self.name, drawn, free, 8 if draws.agree else 2)

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Encrypts or decrypts a value; ``None`` where those of its shape are not, else empty."""
        return None

    def respelled(self, pseudonym: str, was: str, shape: str, free: Free, draws: Draws) -> str:
        """Returns what ``was`` drawn for a value in one shape in another; made of public things."""
        return pseudonym

    def _shape(self, text: str) -> str:
        return ""

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Spoken(Kind):
    """A kind whose values are written in a language."""

    language: str | None = None
    """Declared, such as ``"de"``; ``None``: as a text's public words tell, or English."""

    def of(self, language: str) -> Self:
        """Returns the same for a text of a language, unless one is declared."""
        return self if self.language else replace(self, language=language)


@dataclass(frozen=True)
class Pair(StaysHere):
    """A value and what stands for it."""

    kind: Kind
    shape: str  # what of it is declared public
    key: str = field(repr=False)  # what equal values have in common
    original: str = field(repr=False)  # as it was written first
    pseudonym: str = field(repr=False)


class Mapping(Draws, StaysHere):
    """The pairs of a conversation, by both sides, and its secret numbers; sealed in a memo too."""

    law: Keyed | None = None  # of what is drawn; ``None``: once, for this conversation
    _entropy: Entropy | None = None  # of the system

    def __init__(self, within: bytes = b"", seal: Seal | None = None, kinds: Any = None) -> None:
        self.name = secrets.token_bytes(16)  # tells it from another one of the same conversation
        self._within, self._seal, self._kinds = within, seal, kinds
        self.after_fork()
        self._clear()
        _forks.renewed[id(self)] = self

    def _clear(self) -> None:
        self.originals, self.pseudonyms = Names[Pair](), Names[Pair]()
        self._pairs: dict[str, Pair] = {}
        self._secrets: dict[str, int] = {}
        self._otherwise: dict[tuple[str, str], str] = {}
        self._unsaved: list[list[Any]] = []
        self._seen = 0  # number of the last row that was read
        self._chain = b""  # tells the place of the next one: of all before it

    def after_fork(self) -> None:
        """Makes the lock that is held while pairs are made, for a forked child too."""
        self.lock = RLock()

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever drawn for it."""
        return not (self._pairs or self._secrets)

    def below(self, n: int) -> int:
        """Draws uniformly from 0 .. n - 1."""
        return below(n, self._entropy) if self._entropy else secrets.randbelow(n)

    @contextmanager
    def drawn_with(self, entropy: Entropy) -> Iterator[Self]:
        """Draws with these bytes meanwhile; its lock is held, or nobody else has it."""
        self._entropy = entropy
        try:
            yield self
        finally:
            self._entropy = None

    def _number(self, name: str, make: Callable[[], int]) -> int:
        if name not in self._secrets:
            self._secrets[name] = make()
            self._note(name, self._secrets[name])
        return self._secrets[name]

    def keep_otherwise(self, place: str, released: str, original: str) -> None:
        """Has an original of its own, which no pair restores, for a released place of a file."""
        if self._otherwise.get((place, released)) != original:
            self._otherwise[place, released] = original
            self._note(place, released, original)

    def otherwise(self, place: str, released: str) -> str:
        """Returns the original of what was released in a place of a file."""
        kept = self._otherwise.get((place, released))
        return restore(released, self.pseudonyms) if kept is None else kept

    @property
    def pairs(self) -> list[Pair]:
        """All of them, the oldest first."""
        return list(self._pairs.values())

    def knows(self, key: str) -> bool:
        """Tells whether a value has a pseudonym."""
        return key in self._pairs

    def pair(self, kind: Kind, text: str, shape: str, public: Container[str]) -> Pair:
        """Finds or draws the pair of a value as it is written here; none new is in ``public``."""
        key = kind.key(text, shape)
        first = self._pairs.get(key)
        if first is not None and first.shape == shape:
            return first

        def free(candidate: str) -> bool:
            spelled = normal(candidate)
            if (
                spelled in public or spelled in frequencies.stop_words()
            ):  # "May" comes back as "may"
                return False
            bare, used = spelled.rstrip("."), self.pseudonyms.values
            return bare not in used and f"{bare}." not in used  # "J" ends a sentence, too

        if first is None:
            by_key = self.law and self.law.pseudonym(kind, key, text, shape, free)
            pseudonym = by_key or kind.draw(key, shape, free, self)
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
        self._note(kind.name, shape, key, text, pseudonym)
        return pair

    def add(self, pair: Pair) -> None:
        """Has a pair from now on, if its value has none."""
        if self._pairs.setdefault(pair.key, pair) is pair:
            self.originals.add(pair.original, pair)
            self.pseudonyms.add(pair.pseudonym, pair)

    @contextmanager
    def kept_in(self, entries: Any, now: float) -> Iterator[None]:
        """Holds the lock; a sealed one reads what a memo has, and keeps there what is added."""
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
        """Reads what a memo has of a sealed one; what was dropped there is dropped here too."""
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

    def _note(self, *record: Any) -> None:
        """Notes what is to be kept in the memo."""
        if self._seal is not None:
            self._unsaved.append([*record])


def tried(draw: Callable[[], str | None], free: Free, tries: int = PATTERN_TRIES) -> str | None:
    """Returns the first of so many draws that may be used."""
    every = (draw() for _ in range(tries))
    return next((text for text in every if text is not None and free(text)), None)


def longer(name: str, draw: Callable[[int], str], free: Free, least: int) -> str:
    """Draws what may be used of a length from this one on; a longer one where it seems used up."""
    for length in range(least, _MOST_WORDS):
        if text := tried(partial(draw, length), free, _TRIES):
            return text
    raise ParameterError(f"no pseudonym of the kind {name} may be used; begin a new session")


def combined(
    name: str, one: Callable[[], str], joint: str, free: Free, *, twice: bool = False
) -> str:
    """Draws one, or two in one word, or more; two from the beginning where that is asked for."""
    return longer(name, lambda n: joint.join(one() for _ in range(n)), free, 1 + twice)


def of_pattern(shape: str, free: Free, draws: Draws) -> str | None:
    """Draws a uniform text of a pattern that may be used; none where none seems left."""
    if ALPHABETS.keys().isdisjoint(shape):
        return None
    sets = [ALPHABETS.get(sign, sign) for sign in shape]
    if math.prod(map(len, sets)) <= _LISTED:
        return draws.left(["".join(signs) for signs in itertools.product(*sets)], free)
    return tried(lambda: draws.fill(shape), free)
