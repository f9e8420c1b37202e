"""What of a request goes out as it is, where the operator has declared it public."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import Check, either, flag, many, one_of, record, refuse, text
from dp_middleware.gateway.settings import Policy

_MOST_TOOLS = 256


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
    """Checks that a tool is chosen by a name that was declared public with it."""
    choice = body.get("tool_choice")
    names = {tool.get("function", tool)["name"] for tool in body.get("tools", ())}
    if isinstance(choice, dict) and choice.get("function", choice)["name"] not in names:
        raise refuse("tool_choice", "a tool of this request")


_FUNCTION = {"name": text, "description": text, "parameters": json_object, "strict": flag}
_PLAIN_FORMAT = record({"type": one_of("text", "json_object")}, ("type",))
_IS_SCHEMA = {"type": one_of("json_schema")}
_FORM = {"name": text, "description": text, "schema": json_object, "strict": flag}
