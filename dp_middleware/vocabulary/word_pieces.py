"""Text to the WordPieces of an encoder, and back."""

from __future__ import annotations

import re
import string
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.vocabulary.bert import LONGEST, SPECIAL, UNKNOWN, Bert
from dp_middleware.vocabulary.tokenizers import LibraryTokenizer, clean, sections

_WORD = re.compile(r"[^ -/:-@\[-`{-~]+|[^ ]")  # up to a blank or an ASCII sign, or such a sign
_PLAIN = re.compile(rf"[A-Za-z0-9]+|[{re.escape(string.punctuation)}]")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_MOST_RARE = 4  # a word in so many, or fewer, is cut by the library
_APOSTROPHE = re.compile(r"(?<=\w) (['’]) (?=\w)")  # don ' t
_AFTER_NO_BLANK = (*".?!,)]};:%", "n't", "'m", "'s", "'ve", "'re")  # how a token begins


class WordPieceTokenizer(LibraryTokenizer):
    """Reads the WordPieces of an encoder, by ``tokenizers`` or :class:`Bert`."""

    continuation = "##"

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name, self._tokenizer = f"wordpiece:{name}", tokenizer
        self._is_ours = isinstance(tokenizer, Bert)

    @property
    def _added(self) -> list[Any]:
        return [] if self._is_ours else [*self._tokenizer.get_added_tokens_decoder().values()]

    @cached_property
    def spellings(self) -> list[str | None]:  # type: ignore[override]
        """Gives the string of each number."""
        numbers = self._tokenizer.get_vocab()
        unknown = UNKNOWN if self._is_ours else self._tokenizer.model.unk_token
        spelt: list[str | None] = [None] * (1 + max(numbers.values()))
        for token, number in numbers.items():
            spelt[number] = None if token == unknown else token
        return spelt

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
        longest = LONGEST
        if not self._is_ours:
            rules = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
            kinds = [type(rule).__name__ for rule in rules]
            plain = kinds == ["BertNormalizer", "BertPreTokenizer"]
            longest = self._tokenizer.model.max_input_chars_per_word
            if not plain or not all(token.special for token in self._added):
                return {}
        return {
            token: number
            for token, number in self._tokenizer.get_vocab().items()
            if _PLAIN.fullmatch(token) and len(token) <= longest
        }

    @cached_property
    def _lower(self) -> bool:
        return self._is_ours or bool(self._tokenizer.normalizer.lowercase)

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Lists those of a text; looks up words that are a token, in a tenth of the time."""
        text = " ".join([part for _, part in sections(clean(text))])
        if not self._plain:
            return super().numbers(text)
        if self._lower:
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
