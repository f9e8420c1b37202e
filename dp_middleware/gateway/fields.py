"""What a field of a request may be: an allow-list. A refusal names the place, never a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dp_middleware.gateway.failures import Failure

Check = Callable[[Any, str], Any]
"""The value, if it is what it should be in this place; else :class:`Failure`."""

FREE_TEXT = frozenset({
    "user", "metadata", "safety_identifier", "prompt_cache_key", "logit_bias", "name", "names",
    "suffix", "prediction", "functions", "function_call", "audio", "modalities",
    "web_search_options", "conversation", "prompt", "background", "include", "truncation",
    "moderation",
})  # fmt: skip
"""Fields of OpenAI's protocol that are refused; only these are called by name."""


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
        given = {key: entry for key, entry in value.items() if entry is not None}
        for key in required:
            if key not in given:
                raise refuse(f"{dot}{key}", "a value")
        return {key: allowed[key](entry, f"{dot}{key}") for key, entry in given.items()}

    return check


def declared(is_public: bool, check: Check, option: str) -> Check:
    """A value that the operator has declared public; refused where that was not done."""

    def check_declared(value: Any, where: str) -> Any:
        if is_public:
            return check(value, where)
        raise Failure(
            400,
            f"{where} goes out as it is and was not declared public; the operator allows it "
            f'with {option} = "public" in the policy',
            "not_declared_public",
            param=where,
        )

    return check_declared


def anything(value: Any, _where: str) -> Any:
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
