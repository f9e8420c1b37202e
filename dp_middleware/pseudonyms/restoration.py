"""Originals in the place of their pseudonyms: in texts, streams and values of tools.

Addresses in an answer may carry what stands in them to whoever they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping as Dict
from typing import Any

from dp_middleware.pseudonyms.mapping import Mapping, Pair

Write = Callable[[Pair, str], str]
"""The original of a pair, in the case of the pseudonym that was found for it."""

_CONTEXT = 3  # signs before a place that tell whether it continues a word or a number
_BEGINNING = 80  # signs that may begin an address
_ADDRESS = 300  # signs at the beginning and at the end of an open address that tell what it is

_SCHEME = r"(?:https?|ftps?|wss?|file):[/\\]*"
_BARE = r"(?=\bwww\.|\b(?:[\w-]+\.)+[^\W\d_]{2,24}(?::\d+)?[/?#])"  # without a scheme
_AUTHORITY = r"([^/\\?#\s<>\"'`)\]|]*)"
_HEAD = re.compile(rf"(?:{_SCHEME}|[/\\]{{2,}}|{_BARE}){_AUTHORITY}", re.IGNORECASE)
_BEGUN = re.compile(rf"{_SCHEME}|//|\\\\|(?:mailto|xmpp|tel|sms):|{_BARE}|\]\(", re.IGNORECASE)
_ENDS = " \t\n\r\v\f<>"
_AROUND = "\"'`|"  # an address behind one of them ends with the next
_TAG = re.compile(r"<[a-z][^\s<>/]*[\s/]", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|[\"'].*", re.DOTALL)
_NESTED = 3  # tags in attributes of tags
_LONGEST = 4_000  # signs of a tag
_BEHIND = re.compile(r"(?::\d+)?[.,;:!?]*")
_PERSONAL = ("", "<", "mailto:", "xmpp:", "tel:", "sms:")
_ELSEWHERE = "\\\t\n\r"  # behind a host: browsers and others do not agree on what it is
_NAMED = re.compile(
    r"(?:(?<=@)|(?<=//)|\b)((?:[\w-]+\.)+[^\W\d_][\w-]+|localhost)\b", re.IGNORECASE
)


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
        with self._mapping.lock:
            return self._restored(piece, more=True)

    def close(self) -> str:
        """Returns the rest."""
        with self._mapping.lock:
            return self._restored("", more=False)

    def _restored(self, piece: str, more: bool) -> str:
        context = self._context()
        self._text, self._done = context + self._text[self._done :] + piece, len(context)
        names, text, out = self._mapping.pseudonyms, self._text, list[str]()
        limit = names.open_at(text, self._done) if more else len(text)
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


def hosts_in(text: str) -> set[str]:
    """Returns the names of the hosts in a text, in lower case."""
    named = {match[1].lower() for match in _NAMED.finditer(text)}
    return named | {host for match in _HEAD.finditer(text) if (host := _host(match[1]))}


def opening(text: str, place: int) -> int | None:
    """Returns where the address begins that a place stands in; ``None`` where it is in none."""
    done = max(text.rfind(sign, 0, place) for sign in _ENDS) + 1
    while (begun := _BEGUN.search(text, done, place)) is not None:
        if begun.group() == "](":
            return begun.end()
        before = text[begun.start() - 1 : begun.start()]
        if not before or before not in _AROUND or before not in text[begun.end() : place]:
            return begun.start()
        done = text.index(before, begun.end())
    target = text.rfind("](", 0, place)
    if target >= 0 and not {")", "\n"} & set(text[target:place]):
        return target + 2
    return _tag(text, place)


def _tag(text: str, place: int) -> int | None:
    """Where the tag begins in whose attributes a place stands."""
    for tag in [*_TAG.finditer(text, max(0, place - _LONGEST), place)][: -_NESTED - 1 : -1]:
        attributes = text[tag.end() : place]
        if "=" in attributes and ">" not in _QUOTED.sub("", attributes):
            return tag.start()
    return None


def stays(text: str, start: int, end: int, hosts: Container[str], more: bool) -> bool | None:
    """Tells whether a pseudonym stays in an answer: it stands in an address of a foreign host.

    Args:
        text: The answer, from the beginning of the address on.
        start: Offset of the pseudonym.
        end: Offset behind it.
        hosts: Those that stood in the request, with those in place of them.
        more: Whether the text may go on.

    Returns:
        ``None`` where what follows decides.
    """
    begin = opening(text, start)
    if begin is None:
        return False
    if text[begin:start].strip().lower() in _PERSONAL:
        return text[end : end + 1] in ("@", "%")
    head = _HEAD.match(text, begin)
    if head is None or not head[1]:
        return True
    first, behind = head.span(1)
    if start >= behind:
        return text[behind] in _ELSEWHERE or _host(head[1]) not in hosts
    if more and behind == len(text):
        return None
    return start != first or _BEHIND.fullmatch(text, end, behind) is None  # not the whole host


def _host(authority: str) -> str:
    """The host of an authority; empty where it is spelled in another way than plainly."""
    if "%" in authority or "@" in authority:
        return ""
    return re.sub(r":\d*\Z", "", authority.rstrip(".,;:!?")).rstrip(".").lower()
