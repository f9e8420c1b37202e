"""Addresses in an answer, which may carry what stands in them to whoever they name."""

from __future__ import annotations

import re
from collections.abc import Container

_SCHEME = r"(?:https?|ftps?|wss?|file):[/\\]*"
_AUTHORITY = r"([^/\\?#\s<>\"'`)\]|]*)"
_HEAD = re.compile(rf"(?:{_SCHEME}|[/\\]{{2,}}|(?=\bwww\.)){_AUTHORITY}", re.IGNORECASE)
_BEGUN = re.compile(rf"{_SCHEME}|//|\\\\|\bwww\.|\]\(", re.IGNORECASE)
_ENDS = " \t\n\r\v\f<>\"'`|"
_ATTRIBUTE = re.compile(
    r"\b(?:src|srcset|href|action|formaction|background|poster|data|cite|ping)\s*=\s*[\"']\Z",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"(?::\d+)?[.,;:!?]*")
_PERSONAL = ("", "<", "mailto:", "tel:", "sms:")
_NAMED = re.compile(
    r"(?:(?<=@)|(?<=//)|\b)((?:[\w-]+\.)+[^\W\d_][\w-]+|localhost)\b", re.IGNORECASE
)


def hosts_in(text: str) -> set[str]:
    """Returns the names of the hosts in a text, in lower case."""
    named = {match[1].lower() for match in _NAMED.finditer(text)}
    return named | {host for match in _HEAD.finditer(text) if (host := _host(match[1]))}


def opening(text: str, place: int) -> int | None:
    """Returns where the address begins that a place stands in; ``None`` where it is in none."""
    token = max(text.rfind(sign, 0, place) for sign in _ENDS) + 1
    begun = _BEGUN.search(text, token, place)
    if begun is not None:
        is_target = begun.group() == "]("
        return begun.end() if is_target else token + _lead(text[token : begun.start()])
    target = text.rfind("](", 0, place)
    if target >= 0 and not {")", "\n"} & set(text[target:place]):
        return target + 2
    quote = max(text.rfind(sign, 0, place) for sign in "\"'")
    if quote >= 0 and _ATTRIBUTE.search(text, max(0, quote - 20), quote + 1) is not None:
        return quote + 1
    return None


def _lead(before: str) -> int:
    """Signs of a token in front of an address in it, such as a bracket."""
    return max(before.rfind(sign) for sign in "([{,;=") + 1


def stays(text: str, start: int, end: int, hosts: Container[str]) -> bool:
    """Tells whether a pseudonym stays in an answer: it stands in an address of a foreign host.

    Args:
        text: The answer, from the beginning of the address on.
        start: Offset of the pseudonym.
        end: Offset behind it.
        hosts: Those that stood in the request, with those in place of them.
    """
    begin = opening(text, start)
    if begin is None or text[begin:start].strip().lower() in _PERSONAL:
        return False
    head = _HEAD.search(text, begin)
    if head is None or head.start() > start or not head[1]:
        return True
    first, behind = head.span(1)
    if start < behind:  # in the name of the host, which it must be as a whole
        return start != first or _BEHIND.fullmatch(text, end, behind) is None
    return _host(head[1]) not in hosts


def _host(authority: str) -> str:
    """The host of an authority; empty where it is spelled in another way than plainly."""
    if "%" in authority or "@" in authority:
        return ""
    return re.sub(r":\d*\Z", "", authority.rstrip(".,;:!?")).rstrip(".").lower()
