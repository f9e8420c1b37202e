"""Addresses in an answer, which may carry what stands in them to whoever they name."""

from __future__ import annotations

import re
from collections.abc import Callable

_SCHEME = r"(?:https?|ftps?|wss?|file):[/\\]*"
_BARE = r"(?=\bwww\.|\b(?:[\w-]+\.)+[^\W\d_]{2,24}(?::\d+)?[/?#])"  # without a scheme
_AUTHORITY = r"([^/\\?#\s<>\"'`)\]|]*)"
_HEAD = re.compile(rf"(?:{_SCHEME}|[/\\]{{2,}}|{_BARE}){_AUTHORITY}", re.IGNORECASE)
_BEGUN = re.compile(rf"{_SCHEME}|//|\\\\|(?:mailto|xmpp|tel|sms):|{_BARE}|\]\(", re.IGNORECASE)
_ENDS = " \t\n\r\v\f<>"
_AROUND = "\"'`|"  # an address behind one of them ends with the next
_TAG = re.compile(r"<[a-z][^\s<>/]*[\s/]", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|[\"'].*", re.DOTALL)
_NESTED_TAGS = 3  # tags in attributes of tags
_LONGEST = 4_000  # signs of a tag
_BEHIND = re.compile(r"(?::\d+)?[.,;:!?]*")
_PERSONAL = ("", "<", "mailto:", "xmpp:", "tel:", "sms:")
_ELSEWHERE = "\\\t\n\r"  # behind a host: browsers and others do not agree on what it is
_NAMED = re.compile(
    r"(?:(?<=@)|(?<=//)|\b)((?:[\w-]+\.)+[^\W\d_][\w-]+|localhost)\b", re.IGNORECASE
)
# signs of an address: a text without any has none
POSSIBLE = re.compile(r"[/\\:?#(<]|www\.", re.IGNORECASE)

# names of the hosts that somebody who reads the answer named, looked up if need be
Hosts = Callable[[], set[str]]


def hosts_in(*texts: str) -> set[str]:
    """Returns the names of the hosts in texts, in lower case."""
    named = {match[1].lower() for text in texts for match in _NAMED.finditer(text)}
    return named | {_host(match[1]) for text in texts for match in _HEAD.finditer(text)} - {""}


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
    tags = [*_TAG.finditer(text, max(0, place - _LONGEST), place)]
    for tag in tags[: -_NESTED_TAGS - 1 : -1]:  # in whose attributes it may stand
        attributes = text[tag.end() : place]
        if "=" in attributes and ">" not in _QUOTED.sub("", attributes):
            return tag.start()
    return None


def stays(text: str, start: int, end: int, hosts: Hosts, more: bool) -> bool | None:
    """Tells whether a pseudonym stays: in an address of a foreign host; ``None``: more decides."""
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
        return text[behind] in _ELSEWHERE or _host(head[1]) not in hosts()
    if more and behind == len(text):
        return None
    return start != first or _BEHIND.fullmatch(text, end, behind) is None  # not the whole host


def _host(authority: str) -> str:
    """The host of an authority; empty where it is spelled in another way than plainly."""
    if "%" in authority or "@" in authority:
        return ""
    return re.sub(r":\d*\Z", "", authority.rstrip(".,;:!?")).rstrip(".").lower()
