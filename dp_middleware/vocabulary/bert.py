"""Text to the WordPieces of an encoder, and back; :class:`Bert` is for an install without extras.

Its interface is the part of the ``tokenizers`` library that this package uses, and its numbers are
the library's but for some 500 signs that Unicode got after the library's tables were made.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware.vocabulary.tokenizers import LONGEST_WORD, LibraryTokenizer, clean, sections

UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
_DROPPED = ("Cc", "Cf", "Co", "Cs")
_IDEOGRAPH = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)
_WORD = re.compile(r"[^ -/:-@\[-`{-~]+|[^ ]")  # up to a blank or an ASCII sign, or such a sign
_PLAIN = re.compile(rf"[A-Za-z0-9]+|[{re.escape(string.punctuation)}]")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_MOST_RARE = 4  # a word in so many, or fewer, is cut by the library
_APOSTROPHE = re.compile(r"(?<=\w) (['’]) (?=\w)")  # don ' t
_AFTER_NO_BLANK = (*".?!,)]};:%", "n't", "'m", "'s", "'ve", "'re")  # how a token begins


class Encoding(NamedTuple):
    """Holds the numbers of a text's tokens, and where each begins and ends."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Bert:
    """Cuts texts as uncased BERT models do, by the rules of Devlin et al. (2019), tokenization.py.

    ``tokens`` are by number; ``"[UNK]"`` is among them.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(tokens)}

    def get_vocab(self) -> dict[str, int]:
        """Returns the number of each token."""
        return self._numbers

    def encode(self, text: str, add_special_tokens: bool = False) -> Encoding:
        """Cuts a text into its longest tokens, word by word."""
        encoding = Encoding([], [])
        for word, places in _words(text):
            for number, start, end in self._cut(word):
                encoding.ids.append(number)
                encoding.offsets.append((places[start], places[end - 1] + 1))
        return encoding

    def encode_batch(self, texts: Sequence[str], **options: bool) -> list[Encoding]:
        """Cuts several texts."""
        return [self.encode(text) for text in texts]

    encode_batch_fast = encode_batch

    def _cut(self, word: str) -> list[tuple[int, int, int]]:
        pieces, start, unknown = list[tuple[int, int, int]](), 0, self._numbers[UNKNOWN]
        while start < len(word) <= LONGEST_WORD:
            for end in range(len(word), start, -1):
                number = self._numbers.get(f"##{word[start:end]}" if start else word[:end])
                if number is not None:
                    break
            else:
                break
            pieces.append((number, start, end))
            start = end
        return pieces if start == len(word) else [(unknown, 0, len(word))]


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


class WordPieceTokenizer(LibraryTokenizer):
    """Reads the WordPieces of an encoder, by ``tokenizers`` or :class:`Bert`."""

    continuation = "##"

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._is_ours = isinstance(tokenizer, Bert)
        self._added = [] if self._is_ours else [*tokenizer.get_added_tokens_decoder().values()]
        unknown = UNKNOWN if self._is_ours else tokenizer.model.unk_token
        numbers = {n: token for token, n in tokenizer.get_vocab().items() if token != unknown}
        spelt = [numbers.get(n) for n in range(1 + max(tokenizer.get_vocab().values()))]
        super().__init__(f"wordpiece:{name}", tokenizer, spelt)

    @property
    def texts(self) -> dict[int, str]:
        """Lists the tokens that are text, by number: no special, added or unused ones."""
        special = {*SPECIAL} if self._is_ours else {token.content for token in self._added}
        return {
            number: token
            for number, token in super().texts.items()
            if token not in special and not token.startswith("[unused")
        }

    @cached_property
    def _plain(self) -> dict[str, int]:
        """Numbers of ASCII words and signs that are always a token; none for another splitting."""
        longest = LONGEST_WORD
        if not self._is_ours:
            rules = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
            kinds = [type(rule).__name__ for rule in rules]
            longest = self._tokenizer.model.max_input_chars_per_word
            is_bert = kinds == ["BertNormalizer", "BertPreTokenizer"]
            if not is_bert or not all(token.special for token in self._added):
                return {}
        return {
            token: number
            for token, number in self._tokenizer.get_vocab().items()
            if _PLAIN.fullmatch(token) and len(token) <= longest
        }

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Lists those of a text; looks up words that are a token, in a tenth of the time."""
        text = " ".join([part for _, part in sections(clean(text))])
        if not self._plain:
            return super().numbers(text)
        if self._is_ours or self._tokenizer.normalizer.lowercase:
            text = text.lower() if text.isascii() else text.translate(_LOWER)
        words = _WORD.findall(text)
        numbers = np.fromiter(map(self._plain.get, words, repeat(-1)), np.int64, len(words))
        rare = (numbers < 0).nonzero()[0]
        if not len(rare):
            return numbers
        if _MOST_RARE * len(rare) > len(words):
            return super().numbers(text)
        cut = [self._tokenizer.encode(words[place], add_special_tokens=False).ids for place in rare]
        counts = np.ones(len(words), dtype=np.int64)
        counts[rare] = [*map(len, cut)]
        numbers = np.repeat(numbers, counts)
        numbers[numbers < 0] = [*chain.from_iterable(cut)]
        return numbers

    def written(self, token: str) -> str:
        """Puts a blank before a token, unless it continues a word or is a sign that follows one."""
        if token.startswith(self.continuation):
            return token.removeprefix(self.continuation)
        return token if token.startswith(_AFTER_NO_BLANK) else f" {token}"

    def finish(self, text: str) -> str:
        """Drops the blank before the first token, and those around brackets and apostrophes."""
        text = text.removeprefix(" ")
        for bracket in "([{":
            if bracket in text:  # one sign is looked for in a tenth of the time
                text = text.replace(bracket + " ", bracket)
        if any(sign in text and f" {sign} " in text for sign in "'’"):
            text = _APOSTROPHE.sub(r"\1", text)
        return text
