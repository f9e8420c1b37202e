"""How a mention is cut into parts, what is drawn for one, at random or by a key, and sealed."""

from __future__ import annotations

import hmac
import itertools
import math
import re
import secrets
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from dp_middleware._forks import LeavesWithout
from dp_middleware.errors import ParameterError, needs
from dp_middleware.sampling.entropy import below, expanded

EDGES = "()[]{}<>\"'“”\u2018’«»„.,;:!?¡¿…"  # stay around what is replaced
_NO_EDGE = rf"[^\s{re.escape(EDGES)}]"
# a text without blanks and punctuation around
CORE = re.compile(rf"{_NO_EDGE}(?:.*{_NO_EDGE})?", re.DOTALL)
ALPHABETS = {
    "9": "0123456789",
    "1": "123456789",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a": "abcdefghijklmnopqrstuvwxyz",
}

# whether a pseudonym may be used: no other entity has it, and the public text does not hold it
Free = Callable[[str], bool]


class Draws:
    """The randomness of one session, which keeps it secret, and what is drawn with it."""

    agree: ClassVar[bool] = False  # whether others draw the same for a value

    def below(self, n: int) -> int:
        """Draws uniformly from 0 .. n - 1, anew at every call."""
        raise NotImplementedError

    def once(self, name: str, n: int) -> int:
        """Draws uniformly from 0 .. n - 1, once for a session."""
        return self._number(f"once {name}", lambda: self.below(n))

    def first(self, name: str, value: int) -> int:
        """Returns what came first with this name in the session."""
        return self._number(f"first {name}", lambda: value)

    def _number(self, name: str, make: Callable[[], int]) -> int:
        raise NotImplementedError  # the one that was made first with this name

    def choice(self, values: Sequence[str]) -> str:
        """Draws a uniform one."""
        return values[self.below(len(values))]

    def pick(self, weights: Sequence[int]) -> int:
        """Draws a place with probability proportional to its weight, exactly."""
        ends = [*itertools.accumulate(weights)]
        return bisect_right(ends, self.below(ends[-1]))

    def left(self, values: Sequence[str], free: Free) -> str | None:
        """Draws a uniform one of those that may be used."""
        rest = [value for value in values if free(value)]
        return self.choice(rest) if rest else None

    def fill(self, shape: str) -> str:
        """Draws a uniform text of a pattern."""
        return "".join(self.choice(ALPHABETS[c]) if c in ALPHABETS else c for c in shape)


class Part(NamedTuple):
    """Characters of a mention, by their offsets in it, that are replaced by one pseudonym."""

    start: int
    end: int
    shape: str  # what of them is declared public and kept, such as the format of a number


def words(text: str) -> frozenset[str]:
    """Returns a list of words that are public."""
    return frozenset(text.split())


def core(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns offsets without blanks and punctuation around; of punctuation alone nothing."""
    return match.span() if (match := CORE.search(text, start, end)) else (end, end)


def whole(mention: str, shape: str = "") -> list[Part]:
    """Returns all but blanks and punctuation around; punctuation where there is nothing else."""
    start, end = core(mention, 0, len(mention))
    if start == end:
        end = len(mention.rstrip())
        start = len(mention) - len(mention.lstrip())
    return [Part(start, end, shape)] if start < end else []


def pattern(text: str) -> str:
    """Returns digits as 9, capitals as A, other letters and rare signs as a, the rest as it is."""
    return "".join(map(_class, text))


def _class(sign: str) -> str:
    if sign.isdecimal():
        return "9"
    if sign in " \t\r\n+=$<>|~^`" or unicodedata.category(sign)[0] in "PZ":
        return sign
    return "A" if sign.isupper() else "a"


SHORTEST = 16  # bytes of a key
SMALLEST = 1_000_000  # texts of a format that is encrypted: SP 800-38G Rev. 1 asks for so many
STEPS = 2000  # of a walk through a format
NONCE, TAG = 12, 16  # bytes at the beginning and at the end of what is sealed
_ROUNDS = range(10)
_NO_KEY = "expected the process that has the key: a pickle leaves it behind"
Slot = tuple[int, str]  # offset of a sign that is encrypted, and the signs that may stand there
Cipher = Callable[[int, int, bytes, bool], int]


class _KeyedDraws(Draws):
    """The randomness of one value: the same wherever the key is."""

    agree = True

    def __init__(self, key: bytes, value: str) -> None:
        self._key = key
        self._entropy = expanded(hmac.digest(key, b"draw " + value.encode(), "sha256"))

    def below(self, n: int) -> int:
        return below(n, self._entropy)

    def once(self, name: str, n: int) -> int:
        return below(n, expanded(hmac.digest(self._key, b"once " + name.encode(), "sha256")))

    def first(self, name: str, value: int) -> int:
        return value  # what came before it in a conversation does not count


class Keyed(LeavesWithout):
    """A law of which every draw follows from a secret key, the kind and the value.

    Guarantee:
        Computational: with AES and HMAC-SHA-256 pseudorandom, pseudonyms look drawn once for each
        value to whoever has no key and cannot ask for the pseudonyms of values of their choice.
        The key is in no ``repr`` or error, and a pickle leaves it behind.
    """

    _instead: ClassVar[dict[str, Any]] = {"_key": None, "_cipher": None}

    def __init__(self, key: Any) -> None:
        if not isinstance(key, bytes) or len(key) < SHORTEST:
            found = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise ParameterError(
                f'expected key= of {SHORTEST} secret bytes or more with law="keyed", got {found}; '
                "make one with secrets.token_bytes(32)"
            )
        self._key: bytes | None = key
        self._cipher: Cipher | None = ff1(hmac.digest(key, b"cipher", "sha256"))
        self.name = hmac.digest(key, b"name", "sha256").hex()[:16]
        """Public: tells one key from another."""

    def pseudonym(self, kind: Any, key: str, text: str, shape: str, free: Free) -> str:
        """Returns the encryption of a value, or a label if it has none or a used one; or draws."""
        if self._key is None:
            raise ParameterError(_NO_KEY)
        draws = _KeyedDraws(self._key, f"{kind.name}\0{key}")
        encrypted = kind.ciphered(text, shape, self, back=False)
        if encrypted is not None:
            return str(encrypted if encrypted and free(encrypted) else kind.label(free, draws))
        drawn: str = kind.draw(key, shape, lambda _: True, draws)
        return drawn if free(drawn) else str(kind.draw(key, shape, free, draws))

    def permuted(
        self, text: str, slots: Sequence[Slot], fits: Callable[[str], bool], tweak: str, back: bool
    ) -> str | None:
        """Encrypts or decrypts signs of a text until it fits; each public tweak is another key.

        ``None``: the format has too few texts. Empty: it has other signs, or the walk has no end.
        """
        sizes = [len(signs) for _, signs in slots]
        if (total := math.prod(sizes)) < SMALLEST:
            return None
        if self._cipher is None:
            raise ParameterError(_NO_KEY)
        number, bits, public = 0, (total - 1).bit_length(), tweak.encode()
        for place, signs in slots:
            if (digit := signs.find(text[place])) < 0:
                return ""
            number = number * len(signs) + digit
        for _ in range(STEPS):
            number = self._cipher(number, bits, public, back)
            if number < total:
                written, rest = [*text], number
                for place, signs in reversed(slots):
                    rest, digit = divmod(rest, len(signs))
                    written[place] = signs[digit]
                if fits("".join(written)):
                    return "".join(written)
        return ""


def slots_of(shape: str) -> list[Slot]:
    """Returns the slots of a pattern: its digits and letters."""
    return [(n, ALPHABETS[sign]) for n, sign in enumerate(shape) if sign in ALPHABETS]


def ff1(key: bytes, radix: int = 2) -> Cipher:
    """Returns FF1 of NIST SP 800-38G under a key of AES: numbers of so many digits, permuted."""
    with needs("detect"):
        from cryptography.hazmat.primitives.ciphers import Cipher as Block, algorithms, modes
    aes = algorithms.AES(key)
    one = Block(aes, modes.ECB()).encryptor()

    def mac(data: bytes) -> bytes:
        return Block(aes, modes.CBC(bytes(16))).encryptor().update(data)[-16:]

    def permuted(number: int, length: int, tweak: bytes, back: bool) -> int:
        u = length // 2
        v = length - u
        b = ((radix**v - 1).bit_length() + 7) // 8
        d = 4 * -(-b // 4) + 4
        head = bytes([1, 2, 1]) + radix.to_bytes(3, "big") + bytes([10, u % 256])
        head += length.to_bytes(4, "big") + len(tweak).to_bytes(4, "big") + tweak
        head += bytes((-len(tweak) - b - 1) % 16)
        left, right = divmod(number, radix**v)
        for n in reversed(_ROUNDS) if back else _ROUNDS:
            read, moved = (left, right) if back else (right, left)
            block = mac(head + bytes([n]) + read.to_bytes(b, "big"))
            stream = block
            for j in range(1, -(-d // 16)):
                stream += one.update((int.from_bytes(block, "big") ^ j).to_bytes(16, "big"))
            y = int.from_bytes(stream[:d], "big")
            moved = (moved - y if back else moved + y) % radix ** (v if n % 2 else u)
            left, right = (moved, read) if back else (read, moved)
        return int(left * radix**v + right)

    return permuted


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
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._cipher.encrypt(nonce, data, conversation)

    def opened(self, sealed: bytes, conversation: bytes) -> bytes:
        """Undoes :meth:`closed`; raises ParameterError for a changed byte, or another key."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], conversation)
        except self._refusals:
            raise ParameterError(
                "expected a mapping as it was written with this key, got one that does not "
                "decrypt: its file was changed, or the key is another; take a copy of the file"
            ) from None
