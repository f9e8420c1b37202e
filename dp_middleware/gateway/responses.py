"""``/v1/responses``: whole or streamed, with tools; conversations by the ids of responses."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.messages import Message
from dp_middleware.errors import EventRefused
from dp_middleware.gateway import fields
from dp_middleware.gateway.chat import response_format, tools_of
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import Check, flag, number, one_of, record, text, whole
from dp_middleware.gateway.response_answers import ResponseShower, ResponseStream, call_event
from dp_middleware.gateway.response_items import items_of, transcript_of
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.streaming import EventStream
from dp_middleware.gateway.turns import Plan, in_thread, named, released

PATH = "/responses"
_MAC = 16  # bytes
_LONGEST = 1000  # characters of an id


async def responses(call: Call) -> Response:
    """Release instructions and input, ask the upstream, show its response."""
    turn = await released(call, lambda: plan_of(call))
    shower = ResponseShower(
        exchange=turn.exchange,
        name=lambda upstream: response_id(call, upstream),
        previous=call.body.get("previous_response_id"),
    )
    if turn.body.get("stream"):
        return EventStream(turn, PATH, ResponseStream(shower))
    answer = await call.gateway.upstream.ask(PATH, turn.body)

    def show() -> dict[str, Any]:
        shown = shower.response(answer)
        shower.note(answer)
        return shown

    return JSONResponse(await in_thread(show), headers=turn.headers)


def plan_of(call: Call) -> Plan:
    """What is private in a request, and what is sent in its place.

    Raises:
        Failure: Something that cannot be released.
    """
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models)(call.body, "")
    items, instructions = given.pop("input"), given.pop("instructions", None)
    transcript = transcript_of(items)
    before = given.pop("previous_response_id", None)
    _check_choice(given)
    if before is not None:
        before = given["previous_response_id"] = _known(call, before)
        transcript = [_after(before, k, message, call) for k, message in enumerate(transcript)]
    first: list[Message] = []
    if instructions is not None:
        public = policy.system == "public"
        first = [Message(role="system", texts=(instructions,), aside=True, public=public)]
    _check_results(call, items, before)

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        told = {"instructions": sent[0].text} if first else {}
        return {**given, **told, "input": items_of(items, sent[len(first) :])}

    return Plan(
        transcript=[*first, *transcript],
        conversation=named(call) if before is None else None,
        build=build,
        after=before,
    )


def _after(response: str, place: int, message: Message, call: Call) -> Message:
    """A message behind a response that the upstream keeps: known by that, and by its text."""
    if message.role == "assistant":
        return message
    return replace(message, id=f"{response}\x1f{place}\x1f{call.session.digest(*message.texts)}")


def _check_results(call: Call, items: Any, before: str | None) -> None:
    """The id of a call is public if the call is here, or came from the upstream."""
    given = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    here = {item.get("call_id") for item in given if item.get("type") == "function_call"}
    for place, item in enumerate(given):
        if item.get("type") != "function_call_output" or item["call_id"] in here:
            continue
        try:
            if before is None:
                raise EventRefused
            call.session.exchange((), after=call_event(before, item["call_id"]))
        except EventRefused:
            where = f"input[{place}].call_id"
            raise fields.refuse(where, "that of a call in this conversation") from None


def _check_choice(given: dict[str, Any]) -> None:
    """A tool is chosen by a name that was declared public with it."""
    choice = given.get("tool_choice")
    names = {tool["name"] for tool in given.get("tools", ())}
    if isinstance(choice, dict) and choice["name"] not in names:
        raise fields.refuse("tool_choice", "a tool of this request")


def response_id(call: Call, upstream: str) -> str:
    """A response's id for its client: the upstream's, signed."""
    data = upstream.encode()
    signed = base64.urlsafe_b64encode(_mac(call, data) + data).decode().rstrip("=")
    return f"resp_{signed}"


def _known(call: Call, name: str) -> str:
    """Inverse of :func:`response_id`.

    Raises:
        Failure: This client was not given it.
    """
    data = b""
    if name.startswith("resp_") and len(name) <= _LONGEST:
        try:
            coded = name.removeprefix("resp_")
            data = base64.b64decode(coded + "=" * (-len(coded) % 4), b"-_", validate=True)
        except (ValueError, binascii.Error):
            data = b""
    if not hmac.compare_digest(data[:_MAC], _mac(call, data[_MAC:])):
        field = "previous_response_id"
        raise Failure(400, f"{field}: expected an id from this gateway", "not_found", param=field)
    return data[_MAC:].decode()


def _mac(call: Call, data: bytes) -> bytes:
    secret = call.gateway.secret.encode()
    key = hmac.digest(secret, b"response " + call.client.id.encode(), "sha256")
    return hmac.digest(key, data, "sha256")[:_MAC]


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> Check:
    """The allow-list under a policy."""
    included = one_of("reasoning.encrypted_content", "message.output_text.logprobs")
    return record(
        {
            "model": one_of(*models),
            "input": fields.anything,
            "instructions": text,
            "previous_response_id": text,
            "stream": flag,
            "stream_options": record({"include_obfuscation": flag}),
            "temperature": number(0, 2),
            "top_p": number(0, 1),
            "max_output_tokens": whole(1, 10_000_000),
            "max_tool_calls": whole(1, 1000),
            "parallel_tool_calls": flag,
            "store": flag,
            "background": one_of(False),
            "truncation": one_of("auto", "disabled"),
            "include": fields.many(included, least=0),
            "top_logprobs": whole(0, 20),
            "service_tier": one_of("auto", "default", "flex", "priority"),
            "reasoning": record(
                {
                    "effort": one_of("none", "minimal", "low", "medium", "high", "xhigh"),
                    "summary": one_of("auto", "concise", "detailed"),
                }
            ),
            "text": record(
                {
                    "format": response_format(policy, flat=True),
                    "verbosity": one_of("low", "medium", "high"),
                }
            ),
            "tools": tools_of(policy, flat=True),
            "tool_choice": _tool_choice,
        },
        ("model", "input"),
    )


def _tool_choice(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return _NAMED(value, where)
    return one_of("none", "auto", "required")(value, where)


_NAMED = record({"type": one_of("function"), "name": text}, ("type", "name"))
