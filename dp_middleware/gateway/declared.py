"""What of a request goes out as it is, where the operator has declared it public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import (
    Check,
    either,
    flag,
    json_object,
    many,
    one_of,
    record,
    refuse,
    text,
)
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


def _of_type(kind: str, field: str, inner: dict[str, Check], flat: bool) -> Check:
    """An object of a type, whose named fields stand in one of its own unless it is flat."""
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

    def check(value: Any, where: str) -> Any:
        is_schema = isinstance(value, dict) and value.get("type") == "json_schema"
        return (schema if is_schema else plain)(value, where)

    return check


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
