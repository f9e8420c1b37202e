"""A kind of entity: how a mention is cut into parts, and from which law a part is replaced."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from dp_middleware.pseudonyms.matching import normal

LABEL = re.compile(r"[A-Z][A-Z_ -]*_[0-9]+")
"""What stands for a value that no law of its kind can replace."""

Free = Callable[[str], bool]
"""Whether a pseudonym may be used: no other entity has it, and the public text does not hold it."""


class Draws(Protocol):
    """The randomness of one session."""

    def below(self, n: int) -> int:
        """Uniform in 0 .. n - 1, new at every call."""

    def once(self, name: str, n: int) -> int:
        """Uniform in 0 .. n - 1, secret, drawn once for a session and then the same."""

    def first(self, name: str, value: int) -> int:
        """The value that came first with this name in the session, which keeps it secret."""


class Part(NamedTuple):
    """Characters of a mention that are replaced by one pseudonym.

    Attributes:
        start: Offset of the first in the mention.
        end: Offset behind the last.
        shape: What of them is declared public and kept, such as the format of a number.
    """

    start: int
    end: int
    shape: str


@dataclass(frozen=True, kw_only=True)
class Kind(ABC):
    """What stands for the entities of one public kind.

    Guarantee:
        Given the kind, the shapes and which parts are equal, the law of all pseudonyms of a
        session is the same whatever the values are, so nothing is lost (0 nats); for a kind that
        keeps something near its value, the loss is exactly :attr:`loss` per distinct value.
    """

    name: ClassVar[str]
    keeps_digits: ClassVar[bool] = False  # parts that end in digits get pseudonyms that do
    numeric: ClassVar[bool] = False  # a number alone gets a pseudonym that is one
    keeps: ClassVar[str]  # what is revealed beside the kind, for the certificate's assumptions

    @property
    def loss(self) -> float:
        """Nats per distinct value, between any two values of one shape."""
        return 0.0

    @abstractmethod
    def parts(self, mention: str) -> list[Part]:
        """What is replaced in a mention, in reading order; the rest of it stays."""

    def key(self, text: str, shape: str) -> str:
        """What equal values have in common: parts with one key get one pseudonym. Private."""
        return normal(text)

    @abstractmethod
    def draw(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        """The pseudonym of a value, as it is written in the middle of a sentence.

        Args:
            key: Of the value, private; only a kind with a loss or a secret shift reads it.
            shape: Public.
            free: Refuses what is in use; what is drawn instead depends on public things only.
            draws: The randomness.
        """

    def respelled(self, pseudonym: str, was: str, shape: str, free: Free, draws: Draws) -> str:
        """The pseudonym of a value whose key is known in another shape; made of public things.

        Args:
            pseudonym: What was drawn for the value.
            was: The shape that it was drawn for.
            shape: Of the value as it is written now.
            free: As of :meth:`draw`.
            draws: The randomness.
        """
        return pseudonym

    def written(self, text: str, like: str) -> str:
        """A pseudonym or a restored value in the case of another spelling of what it stands for.

        Labels such as "DATE_46" have one spelling, and their capitals are nobody's.
        """
        if LABEL.fullmatch(text) or LABEL.fullmatch(like):
            return text
        if len(like) > 1 and like.isupper():
            return text.upper()
        return text.lower() if like.islower() else text
