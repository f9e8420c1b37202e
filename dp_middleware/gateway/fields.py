"""What a field of a request may be: an allow-list. A refusal names the place, never a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.settings import Policy

Check = Callable[[Any, str], Any]
"""The value, if it is what it should be in this place; else :class:`Failure`."""

_MOST_TOOLS, _MOST_PARTS = 256, 2000

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


def tools_of(policy: Policy, *, flat: bool = False) -> Check:
    """Definitions of functions, where they were declared public; flat in the Responses API."""
    is_function = {"type": one_of("function")}
    tool = record({**is_function, **_FUNCTION}, ("type", "name"))
    if not flat:
        tool = record(
            {**is_function, "function": record(_FUNCTION, ("name",))}, ("type", "function")
        )
    tools = many(tool, least=0, most=_MOST_TOOLS)
    return declared(policy.tools == "public", tools, "tools")


def response_format(policy: Policy, *, flat: bool = False) -> Check:
    """Words are public anyway, a schema where that was declared; flat in the Responses API."""
    form = record({**_IS_SCHEMA, **_FORM}, ("type", "name"))
    if not flat:
        form = record({**_IS_SCHEMA, "json_schema": record(_FORM, ("name",))}, ("json_schema",))
    schema = declared(policy.response_format == "public", form, "response_format")

    def check(value: Any, where: str) -> Any:
        if isinstance(value, dict) and value.get("type") == "json_schema":
            return schema(value, where)
        return _PLAIN_FORMAT(value, where)

    return check


def json_object(value: Any, where: str) -> Any:
    """An object of JSON that can be spelled again."""
    if not isinstance(value, dict):
        raise refuse(where, "an object")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        value = None
    if value is None:
        raise refuse(where, "an object of texts without lone surrogates, finite numbers")
    return value


def stop(policy: Policy) -> Check:
    """One sequence or several, where they were declared public."""
    return declared(policy.stop == "public", either(str, text, many(text, most=4)), "stop")


def tool_choice(*, flat: bool = False) -> Check:
    """A word, or the name of a tool of this request; flat in the Responses API."""
    own = record({"type": one_of("function"), "name": text}, ("type", "name"))
    if not flat:
        own = record(
            {"type": one_of("function"), "function": record({"name": text}, ("name",))},
            ("type", "function"),
        )
    return either(dict, own, one_of("none", "auto", "required"))


def require_choice(body: Mapping[str, Any]) -> None:
    """Checks that a tool is chosen by a name that was declared public with it.

    Raises:
        Failure: By another.
    """
    choice = body.get("tool_choice")
    names = {tool.get("function", tool)["name"] for tool in body.get("tools", ())}
    if isinstance(choice, dict) and choice.get("function", choice)["name"] not in names:
        raise refuse("tool_choice", "a tool of this request")


_FUNCTION = {"name": text, "description": text, "parameters": json_object, "strict": flag}
_PLAIN_FORMAT = record({"type": one_of("text", "json_object")}, ("type",))
_IS_SCHEMA = {"type": one_of("json_schema")}
_FORM = {"name": text, "description": text, "schema": json_object, "strict": flag}
