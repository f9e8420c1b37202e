"""Addresses in an answer, which may carry what stands in them to whoever they name."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property

from dp_middleware._forks import StaysHere

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
# signs of an address: a text without any has none
POSSIBLE = re.compile(r"[/\\:?#(<]|www\.", re.IGNORECASE)


@dataclass(frozen=True)
class Hosts(StaysHere):
    """Names of the hosts in the texts of somebody who reads the answer, looked up if need be."""

    texts: tuple[str, ...] = field(repr=False)  # private

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset().union(*map(hosts_in, self.texts))

    def __contains__(self, host: object) -> bool:
        return host in self._names


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

    ``None`` where what follows decides, as the text, which has all of the address, may go on with
    ``more``. ``hosts`` stood in the request, or stand for those.
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
