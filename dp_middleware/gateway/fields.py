"""What a request may hold: an allow-list. A refusal names the place, never a value."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dp_middleware.gateway.failures import Failure, not_json
from dp_middleware.gateway.settings import Limits

Check = Callable[[Any, str], Any]
"""The value, if it is what it should be in this place; else :class:`Failure`."""

_MOST_PARTS = 2000
_DEEPEST = 50  # arrays and objects in each other

FREE_TEXT = frozenset({
    "user", "metadata", "safety_identifier", "prompt_cache_key", "logit_bias", "name", "names",
    "suffix", "prediction", "functions", "function_call", "audio", "modalities",
    "web_search_options", "conversation", "prompt", "background", "include", "truncation",
    "moderation",
})  # fmt: skip
"""Fields of OpenAI's protocol that are refused; only these are called by name."""


async def body_of(request: Request, limits: Limits) -> dict[str, Any]:
    """Reads a request's JSON object.

    Raises:
        Failure: Too large, too slow, or not a JSON object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Failure(415, "expected content-type application/json", "invalid_content_type")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Failure(415, "expected a body without content-encoding", "invalid_encoding")
    most = limits.body_bytes
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 20 or int(announced) > most:
        raise _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise _too_large(most)
    except (TimeoutError, ClientDisconnect):
        data.clear()
        raise Failure(408, "the request's body took too long", "timeout") from None
    return _object(bytes(data))


def _too_large(most: int) -> Failure:
    return Failure(413, f"expected a body of at most {most} bytes", "too_large")


def _object(data: bytes) -> dict[str, Any]:
    """Parses a body; leaves no trace of what it holds if it cannot be parsed."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=not_json)
        if isinstance(value, dict) and not _is_deep(value):
            return value
    except (ValueError, RecursionError):
        value = None
    raise Failure(400, "expected a JSON object in UTF-8, not nested deeply", "invalid_json")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = [(v.values() if isinstance(v, dict) else v) for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
        if not level:
            return False
    return True


def refuse(where: str, expected: str) -> Failure:
    """The refusal of a value."""
    return Failure(400, f"{where}: expected {expected}", "invalid_field", param=where)


def text(value: Any, where: str) -> str:
    """A text that UTF-8 can spell."""
    if not isinstance(value, str):
        raise refuse(where, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        pass
    else:
        return value
    raise refuse(where, "a text without lone surrogates")


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise refuse(where, "true or false")
    return value


def number(low: float, high: float) -> Check:
    """A number in a range."""

    def check(value: Any, where: str) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise refuse(where, f"a number in {low:g} .. {high:g}")
        return value

    return check


def whole(low: int, high: int) -> Check:
    """A whole number in a range."""

    def check(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refuse(where, f"a whole number in {low} .. {high}")
        return value

    return check


def one_of(*allowed: Any) -> Check:
    """One of a few public words."""

    def check(value: Any, where: str) -> Any:
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise refuse(where, f"one of {', '.join(map(str, allowed))}")
        return value

    return check


def many(check: Check, least: int = 1, most: int = 10_000) -> Check:
    """A list."""

    def check_all(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise refuse(where, f"a list of {least} to {most}")
        return [check(each, f"{where}[{place}]") for place, each in enumerate(value)]

    return check_all


def record(allowed: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    """An object with these keys only; a null is as good as none, where none is required."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refuse(where, "an object")
        dot = f"{where}." if where else ""
        for key, entry in value.items():
            if key not in allowed and entry is not None:
                raise _unknown(key, where)
        values = {key: entry for key, entry in value.items() if entry is not None}
        for key in required:
            if key not in values:
                raise refuse(f"{dot}{key}", "a value")
        return {key: allowed[key](entry, f"{dot}{key}") for key, entry in values.items()}

    return check


def either(kind: type, check: Check, other: Check) -> Check:
    """One check for values of a type, another one for all others."""
    return lambda value, where: (check if isinstance(value, kind) else other)(value, where)


def parts_of(kinds: Mapping[str, Check]) -> Check:
    """A text, or a list of parts of these kinds; always given as parts."""

    def check_part(value: Any, where: str) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        return kinds[one_of(*kinds)(kind, f"{where}.type")](value, where)

    def check(value: Any, where: str) -> list[dict[str, Any]]:
        if isinstance(value, str):
            return [{"text": text(value, where)}]
        parts: list[dict[str, Any]] = many(check_part, most=_MOST_PARTS)(value, where)
        return parts

    return check


def texts_in(parts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the texts of checked parts."""
    return tuple(part["text"] for part in parts)


STREAM_OPTIONS = record({"include_usage": flag, "include_obfuscation": flag})
SAMPLING: dict[str, Check] = {
    "stream": flag,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "n": whole(1, 8),
    "seed": whole(-(2**63), 2**63 - 1),
}
"""Fields that chats and completions have in common."""


def anything(value: Any, _: str) -> Any:
    """Whatever it is; for what was declared public."""
    return value


def _unknown(key: str, where: str) -> Failure:
    if key in FREE_TEXT:
        name = f"{where}.{key}" if where else key
        message = f"{name} is refused: it may hold private text, and would go out as it is"
        return Failure(400, message, "unsupported_field", param=name)
    place = where or "the request"
    message = f"{place}: expected fields that this gateway knows, got another"
    return Failure(400, message, "unknown_field", param=where or None)
