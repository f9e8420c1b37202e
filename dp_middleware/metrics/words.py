"""Words of a text, for attacks and metrics that count them: also in scripts without blanks."""

from __future__ import annotations

import re

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana, Chinese characters
_UNSEEN = "\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff"  # joiners, variation selectors
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+|[^\x00-\x7f\w\s{_UNSEEN}]")
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; beyond ASCII also each symbol."""
    return _WORD.findall(text.lower())


class Words:
    """The interface that ``rouge-score`` asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        """As :func:`words`."""
        return words(text)


def pieces(text: str) -> list[str]:
    """What stands between blanks."""
    return _PIECE.findall(text)
