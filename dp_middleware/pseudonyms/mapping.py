"""Kinds of entities with their laws, and which pseudonym stands for which value."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Self

from dp_middleware import _forks
from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.draws import ALPHABETS, Draws, Free, Keyed, Part, whole
from dp_middleware.pseudonyms.json_pieces import restore
from dp_middleware.pseudonyms.matching import Names, normal
from dp_middleware.pseudonyms.structured import view_of
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
        """Draws the pseudonym of a value, as within a sentence; a label where nothing is left.

        The private ``key`` is read by kinds with a loss or a secret shift alone.
        """
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
    """A kind whose values are written in a language.

    Attributes:
        language: Declared, such as ``"de"``; ``None``: as a text's public words tell, or English.
    """

    language: str | None = None

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
    """The pairs of one conversation, by both sides, and its secret numbers."""

    law: Keyed | None = None  # of what is drawn; ``None``: once, for this conversation
    _entropy: Entropy | None = None  # of the system

    def __init__(self) -> None:
        self.name = secrets.token_bytes(16)  # tells it from another one of the same conversation
        self.after_fork()
        self._clear()
        _forks.renewed[id(self)] = self

    def _clear(self) -> None:
        self.originals, self.pseudonyms = Names[Pair](), Names[Pair]()
        self._pairs: dict[str, Pair] = {}
        self._secrets: dict[str, int] = {}
        self._otherwise: dict[tuple[str, str], str] = {}

    def after_fork(self) -> None:
        """Makes the lock that is held while pairs are made, for a forked child too."""
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

    def once(self, name: str, n: int) -> int:
        """Draws uniformly from 0 .. n - 1, once for this conversation."""
        return self._number(f"once {name}", lambda: self.below(n))

    def first(self, name: str, value: int) -> int:
        """Returns the number that came first under this name."""
        return self._number(f"first {name}", lambda: value)

    def keep_otherwise(self, place: str, released: str, original: str) -> None:
        """Has an original of its own, which no pair restores, for a released place of a file."""
        if self._otherwise.get((place, released)) != original:
            self._otherwise[place, released] = original
            self._note([place, released, original])

    def otherwise(self, place: str, released: str) -> str:
        """Returns the original of what was released in a place of a file."""
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
            ordinary = spelled in frequencies.stop_words()  # "May" comes back as "may" by itself
            return not ordinary and spelled not in self.pseudonyms.values and spelled not in public

        if first is None and self.law is not None:
            pseudonym = self.law.pseudonym(kind, key, text, shape, free)
        elif first is None:
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
        self._note([kind.name, shape, key, text, pseudonym])
        return pair

    def add(self, pair: Pair) -> None:
        """Has a pair from now on, if its value has none."""
        if self._pairs.setdefault(pair.key, pair) is pair:
            self.originals.add(pair.original, pair)
            self.pseudonyms.add(pair.pseudonym, pair)

    def kept_in(self, entries: object, now: float) -> AbstractContextManager[object]:
        """Holds the lock; what is in memory alone is kept nowhere else."""
        return self.lock

    def load(self, entries: Any) -> None:
        """Reads what was kept elsewhere: here nothing."""

    def _note(self, record: list[Any]) -> None:
        """Notes what is to be kept elsewhere: here nothing."""

    def _number(self, name: str, make: Callable[[], int]) -> int:
        if name not in self._secrets:
            self._secrets[name] = make()
            self._note([name, self._secrets[name]])
        return self._secrets[name]


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
