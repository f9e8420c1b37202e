"""Texts read as the uncased BERT models read them, in Python: what the install without extras has.

The interface is the part of the ``tokenizers`` library that this package uses, and the numbers are
the library's but for some 500 signs that Unicode got after the library's tables were made.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

LONGEST = 100  # characters of a word; a longer one is unknown
UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
_DROPPED = ("Cc", "Cf", "Co", "Cs")
_IDEOGRAPH = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)


class Encoding(NamedTuple):
    """Holds the tokens of a text: their numbers, strings, and where each begins and ends."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]


class Bert:
    """Cuts texts as uncased BERT models do, without special tokens.

    ``tokens`` are by number; ``"[UNK]"`` is among them.

    Reference:
        Devlin et al. (2019), NAACL; the rules are those of its tokenization.py.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._numbers = {token: number for number, token in enumerate(tokens)}

    def get_vocab(self) -> dict[str, int]:
        """Returns the number of each token."""
        return self._numbers

    def encode(self, text: str, add_special_tokens: bool = False) -> Encoding:
        """Cuts a text into its longest tokens, word by word."""
        encoding = Encoding([], [], [])
        for word, places in _words(text):
            start = 0
            for number in self._cut(word):
                token = self._tokens[number]
                end = len(word) if token == UNKNOWN else start + len(token) - 2 * (start > 0)
                encoding.ids.append(number)
                encoding.tokens.append(token)
                encoding.offsets.append((places[start], places[end - 1] + 1))
                start = end
        return encoding

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = False
    ) -> list[Encoding]:
        """Cuts several texts."""
        return [self.encode(text, add_special_tokens) for text in texts]

    encode_batch_fast = encode_batch

    def _cut(self, word: str) -> list[int]:
        numbers, start, unknown = list[int](), 0, [self._numbers[UNKNOWN]]
        if len(word) > LONGEST:
            return unknown
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = f"##{word[start:end]}" if start else word[:end]
                if piece in self._numbers:
                    break
            else:
                return unknown
            numbers.append(self._numbers[piece])
            start = end
        return numbers


@cache
def default_bert() -> Bert:
    """Reads the WordPieces of the default encoder, which come with the package."""
    listed = (Path(__file__).parent / "data" / "wordpieces.txt").read_text(encoding="utf-8")
    return Bert(listed.removesuffix("\n").split("\n"))


def _words(text: str) -> list[tuple[str, list[int]]]:
    """Words and signs in lower case without accents, with the place of each character."""
    words, word, places = list[tuple[str, list[int]]](), "", list[int]()
    for place, character in enumerate(text):
        for sign in _normalized(character):
            alone = not sign.isalnum() if sign.isascii() else unicodedata.category(sign)[0] == "P"
            if alone and word:
                words.append((word, places))
                word, places = "", []
            if not alone:
                word += sign
                places.append(place)
            elif sign != " ":
                words.append((sign, [place]))
    return [*words, (word, places)] if word else words


def _normalized(character: str) -> str:
    if character.isascii():
        if character.isalnum():
            return character.lower()
        return " " if character.isspace() else character if character.isprintable() else ""
    if character.isspace():
        return " "
    if character == "\ufffd" or unicodedata.category(character) in _DROPPED:
        return ""
    decomposed = unicodedata.normalize("NFD", character)
    kept = "".join(c for c in decomposed if unicodedata.category(c) != "Mn").lower()
    return f" {kept} " if _IDEOGRAPH.match(character) else kept
