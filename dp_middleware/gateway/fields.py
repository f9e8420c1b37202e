"""What a request may hold: an allow-list. A refusal names the place, never a value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dp_middleware.conversation.messages import Message
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.settings import Limits, Policy
from dp_middleware.gateway.upstream import parsed

Check = Callable[[Any, str], Any]
"""The value, if it is what it should be in this place; else :class:`Failure`."""

MOST = 2000  # messages, parts of one or calls in one

_MOST_TOOLS = 256
_DEEPEST = 50  # arrays and objects in each other
_JSON = "a JSON object in UTF-8, of finite numbers, without lone surrogates, not nested deeply"
_FREE_TEXT = frozenset({  # refused fields of OpenAI's protocol; only these are called by name
    "user", "metadata", "safety_identifier", "prompt_cache_key", "logit_bias", "name", "names",
    "suffix", "prediction", "functions", "function_call", "audio", "modalities",
    "web_search_options", "conversation", "prompt", "background", "include", "truncation",
    "moderation",
})  # fmt: skip


async def body_of(request: Request, limits: Limits) -> dict[str, Any]:
    """Reads a request's JSON object; or raises :class:`Failure`: too large, too slow, none."""
    heads, most, data = request.headers, limits.body_bytes, bytearray()
    kind = heads.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or heads.get("content-encoding", "identity") != "identity":
        message = "expected content-type application/json and no content-encoding"
        raise Failure(415, message, "invalid_content_type")
    too_large = Failure(413, f"expected a body of at most {most} bytes", "too_large")
    announced = heads.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 20 or int(announced) > most:
        raise too_large
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise too_large
    except (TimeoutError, ClientDisconnect):
        data.clear()
        raise Failure(408, "the request's body took too long", "timeout") from None
    value = parsed(bytes(data), _DEEPEST)
    if value is None:
        raise Failure(400, f"expected {_JSON}", "invalid_json")
    return value


def refuse(where: str, expected: str) -> Failure:
    """The refusal of a value."""
    return Failure(400, f"{where}: expected {expected}", "invalid_field", param=where)


def _value(is_so: Callable[[Any], bool], expected: str) -> Check:
    def check(value: Any, where: str) -> Any:
        if not is_so(value):
            raise refuse(where, expected)
        return value

    return check


def number(low: float, high: float) -> Check:
    """A number in a range."""
    expected = f"a number in {low:g} .. {high:g}"
    return _value(lambda x: type(x) in (int, float) and low <= x <= high, expected)


def whole(low: int, high: int) -> Check:
    """A whole number in a range."""
    return _value(lambda x: type(x) is int and low <= x <= high, f"a whole number {low} .. {high}")


def one_of(*allowed: Any) -> Check:
    """One of a few public words."""
    expected = f"one of {', '.join(map(str, allowed))}"
    return _value(lambda x: any(type(x) is type(a) and x == a for a in allowed), expected)


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
        values = {key: entry for key, entry in value.items() if entry is not None}
        for key in [key for key in values if key not in allowed]:
            raise _unknown(key, where, f"{dot}{key}")
        for key in [key for key in required if key not in values]:
            raise refuse(f"{dot}{key}", "a value")
        return {key: allowed[key](entry, f"{dot}{key}") for key, entry in values.items()}

    return check


def either(kind: type, check: Check, other: Check) -> Check:
    """One check for values of a type, another one for all others."""
    return lambda value, where: (check if isinstance(value, kind) else other)(value, where)


def by(key: str, kinds: Mapping[str, Check], default: str | None = None) -> Check:
    """An object whose check depends on the word at a key."""

    def check(value: Any, where: str) -> Any:
        word = value.get(key, default) if isinstance(value, dict) else None
        return kinds[one_of(*kinds)(word, f"{where}.{key}")](value, where)

    return check


def parts_of(kinds: Mapping[str, Check]) -> Check:
    """A text, or a list of parts of these kinds; always given as parts."""
    parts = many(by("type", kinds), most=MOST)
    return either(str, lambda value, where: [{"text": text(value, where)}], parts)


def texts_in(parts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the texts of checked parts."""
    return tuple(part["text"] for part in parts)


def instructions(texts: tuple[str, ...] | None, policy: Policy) -> list[Message]:
    """Returns the message that stands outside of a transcript, if there is one."""
    public = policy.system == "public"
    return [Message(role="system", texts=texts, aside=True, public=public)] if texts else []


def anything(value: Any, _: str) -> Any:
    """Whatever it is; for what was declared public."""
    return value


flag = _value(lambda x: isinstance(x, bool), "true or false")
text = _value(lambda x: isinstance(x, str), "a text")
json_object = _value(lambda x: isinstance(x, dict), "an object")
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


def _unknown(key: str, where: str, name: str) -> Failure:
    if key in _FREE_TEXT:
        message = f"{name} is refused: it may hold private text, and would go out as it is"
        return Failure(400, message, "unsupported_field", param=name)
    message = f"{where or 'the request'}: expected fields that this gateway knows, got another"
    return Failure(400, message, "unknown_field", param=where or None)


def declared(is_public: bool, check: Check, option: str) -> Check:
    """A value that the operator has declared public; refused where that was not done."""

    def refuse_undeclared(_: Any, where: str) -> Any:
        message = (
            f"{where} goes out as it is and was not declared public; the operator allows it "
            f'with {option} = "public" in the policy'
        )
        raise Failure(400, message, "not_declared_public", param=where)

    return check if is_public else refuse_undeclared


def _of_type(kind: str, field: str, inner: dict[str, Check], flat: bool) -> Check:
    if flat:
        return record({"type": one_of(kind), **inner}, ("type", "name"))
    return record({"type": one_of(kind), field: record(inner, ("name",))}, ("type", field))


def tools_of(policy: Policy, *, flat: bool = False) -> Check:
    """Definitions of functions, where they were declared public; flat in the Responses API."""
    function = {"name": text, "description": text, "parameters": json_object, "strict": flag}
    tool = _of_type("function", "function", function, flat)
    return declared(policy.tools == "public", many(tool, least=0, most=_MOST_TOOLS), "tools")


def response_format(policy: Policy, *, flat: bool = False) -> Check:
    """Words are public anyway, a schema where that was declared; flat in the Responses API."""
    form = {"name": text, "description": text, "schema": json_object, "strict": flag}
    own = _of_type("json_schema", "json_schema", form, flat)
    schema = declared(policy.response_format == "public", own, "response_format")
    plain = record({"type": one_of("text", "json_object")}, ("type",))
    return by("type", {"text": plain, "json_object": plain, "json_schema": schema})


def stop(policy: Policy) -> Check:
    """One sequence or several, where they were declared public."""
    return declared(policy.stop == "public", either(str, text, many(text, most=4)), "stop")


def tool_choice(*, flat: bool = False) -> Check:
    """A word, or the name of a tool of this request; flat in the Responses API."""
    own = _of_type("function", "function", {"name": text}, flat)
    return either(dict, own, one_of("none", "auto", "required"))


def require_choice(body: Mapping[str, Any]) -> None:
    """Checks that a tool is chosen by a name that was declared public with it."""
    choice = body.get("tool_choice")
    names = {tool.get("function", tool)["name"] for tool in body.get("tools", ())}
    chosen = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    if chosen is not None and chosen not in names:
        raise refuse("tool_choice", "a tool of this request")
