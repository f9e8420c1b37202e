"""Originals in the place of their pseudonyms: in texts, streams and values of tools."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping as Dict
from typing import Any

from dp_middleware.pseudonyms.addresses import opening, stays
from dp_middleware.pseudonyms.mapping import Mapping, Pair

Write = Callable[[Pair, str], str]
"""The original of a pair, in the case of the pseudonym that was found for it."""

_CONTEXT = 3  # signs before a place that tell whether it continues a word or a number
_BEGINNING = 80  # signs that may begin an address
_ADDRESS = 300  # signs at the beginning and at the end of an open address that tell what it is


class Restorer:
    """Restores a text that comes in pieces; what could still become a pseudonym is held back.

    The pieces that it returns, joined, are the restored whole.

    Args:
        mapping: The pairs.
        write: How an original is written.
        text: The first piece.
        hosts: Of somebody who reads the text: in an address of another host a pseudonym stays.
            ``None``: nowhere.
    """

    def __init__(
        self,
        mapping: Mapping,
        write: Write,
        text: str = "",
        *,
        hosts: Container[str] | None = None,
    ) -> None:
        self._mapping, self._write, self._hosts = mapping, write, hosts
        self._text, self._done = text, 0

    def feed(self, piece: str) -> str:
        """Returns what is certain after a further piece."""
        self._text += piece
        with self._mapping.lock:
            limit = self._mapping.pseudonyms.open_at(self._text, self._done)
            return self._restored(limit, more=True)

    def close(self) -> str:
        """Returns the rest."""
        with self._mapping.lock:
            return self._restored(len(self._text), more=False)

    def _restored(self, limit: int, more: bool) -> str:
        names, text, out = self._mapping.pseudonyms, self._text, list[str]()
        for match in names.find(text, self._done):
            if match.start >= limit:
                break
            like = text[match.start : match.end]
            foreign = self._hosts is not None and stays(text, *match[:2], self._hosts, more)
            if foreign is None:
                limit = match.start
                break
            original = like if foreign else self._write(match.value, like)
            out += [text[self._done : match.start], original]
            self._done = match.end
            if match.end > limit:  # what was undecided has been decided by this match
                limit = names.open_at(text, match.end)
        out.append(text[self._done : max(limit, self._done)])
        self._done = max(limit, self._done)
        context = self._context()
        self._text, self._done = context + text[self._done :], len(context)
        return "".join(out)

    def _context(self) -> str:
        """What stands before the place where it goes on, as far as it matters."""
        begun = None if self._hosts is None else opening(self._text, self._done)
        if begun is None:
            kept = _CONTEXT if self._hosts is None else _BEGINNING
            return self._text[max(0, self._done - kept) : self._done]
        address = self._text[max(0, begun - _BEGINNING) : self._done]
        return address if len(address) <= 2 * _ADDRESS else address[:_ADDRESS] + address[-_ADDRESS:]


def restore(text: str, mapping: Mapping, write: Write) -> str:
    """Returns a whole text with the originals in place of their pseudonyms."""
    return Restorer(mapping, write, text).close()


def restore_stream(pieces: Iterable[str], mapping: Mapping, write: Write) -> Iterator[str]:
    """Yields the pieces of a text with the originals; empty ones are left out."""
    restorer = Restorer(mapping, write)
    for piece in pieces:
        if restored := restorer.feed(piece):
            yield restored
    if rest := restorer.close():
        yield rest


def restore_value(value: Any, restored: Callable[[str], str]) -> Any:
    """Returns a copy of nested dicts, lists and tuples with all strings restored, also keys."""
    if isinstance(value, str):
        return restored(value)
    if isinstance(value, Dict):
        return {restore_value(k, restored): restore_value(v, restored) for k, v in value.items()}
    if isinstance(value, list | tuple):
        values = [restore_value(each, restored) for each in value]
        return values if isinstance(value, list) else tuple(values)
    return value
