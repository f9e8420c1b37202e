"""``/v1/responses``: whole or streamed, with tools; conversations by the ids of responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.responses import Response

from dp_middleware.conversation.messages import THOUGHT, Message, Role, answer_of, item_of
from dp_middleware.errors import EventRefused
from dp_middleware.gateway import fields
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import (
    Check,
    anything,
    by,
    either,
    flag,
    many,
    number,
    one_of,
    parts_of,
    record,
    text,
    whole,
)
from dp_middleware.gateway.response_answers import ShownResponse, call_event
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import Plan, answered, named, released


async def responses(call: Call) -> Response:
    """Releases instructions and input, asks the upstream, shows its response."""
    turn = await released(call, plan_of)
    shown = ShownResponse(
        turn.exchange,
        name=lambda upstream: call.sign("response", upstream.encode()),
        previous=call.body.get("previous_response_id"),
    )
    return await answered(turn, "/responses", shown)


def plan_of(call: Call) -> Plan:
    """Reads what is private in a request, and what is sent in its place."""
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models)(call.body, "")
    items, instructions = given.pop("input"), given.pop("instructions", None)
    before = given.pop("previous_response_id", None)
    fields.require_choice(given)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
        transcript = [Message(role="user", texts=(items[0]["content"],))]
    else:
        transcript, items = [_message(item) for item in items], call.body["input"]
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
        return {**given, **told, "input": [*map(item_of, items, sent[len(first) :])]}

    return Plan(
        transcript=[*first, *transcript],
        conversation=named(call) if before is None else None,
        build=build,
        after=before,
    )


def _message(item: dict[str, Any]) -> Message:
    if item.get("type") == "function_call_output":
        return Message(role="tool", texts=fields.texts_in(item["output"]))
    answer = answer_of(item)
    if answer is not None:
        return answer
    role: Role = "user" if item["role"] == "user" else "system"
    return Message(role=role, texts=fields.texts_in(item["content"]))


def _after(response: str, place: int, message: Message, call: Call) -> Message:
    """A message behind a response that the upstream keeps: known by that, and by its text."""
    if message.role == "assistant":
        return message
    return replace(message, id=f"{response}\x1f{place}\x1f{call.session.digest(*message.texts)}")


def _check_results(call: Call, items: list[dict[str, Any]], before: str | None) -> None:
    """The id of a call is public if the call is here, or came from the upstream."""
    here = {item.get("call_id") for item in items if item.get("type") == "function_call"}
    for place, item in enumerate(items):
        if item.get("type") != "function_call_output" or item["call_id"] in here:
            continue
        try:
            if before is None:
                raise EventRefused
            call.session.exchange((), after=call_event(before, item["call_id"]))
        except EventRefused:
            where = f"input[{place}].call_id"
            raise fields.refuse(where, "that of a call in this conversation") from None


def _known(call: Call, name: str) -> str:
    data = call.signed("response", name)
    if data is None:
        field = "previous_response_id"
        raise Failure(400, f"{field}: expected an id from this gateway", "not_found", param=field)
    return data.decode()


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> Check:
    included = one_of("reasoning.encrypted_content", "message.output_text.logprobs")
    return record(
        {
            "model": one_of(*models),
            "input": either(str, text, many(_ITEM, most=fields.MOST)),
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
            "include": many(included, least=0),
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
                    "format": fields.response_format(policy, flat=True),
                    "verbosity": one_of("low", "medium", "high"),
                }
            ),
            "tools": fields.tools_of(policy, flat=True),
            "tool_choice": fields.tool_choice(flat=True),
        },
        ("model", "input"),
    )


_INPUT = parts_of({"input_text": record({"type": text, "text": text}, ("text",))})
_OUTPUT_TEXT = {"type": text, "text": text, "annotations": anything, "logprobs": anything}
_SAID = parts_of(
    {
        "output_text": record(_OUTPUT_TEXT, ("text",)),
        "refusal": record({"type": text, "refusal": text}, ("refusal",)),
    }
)
_OF_ITEM = {"type": text, "id": text, "status": one_of("in_progress", "completed", "incomplete")}
_MESSAGE = record({"type": text, "role": text, "content": _INPUT}, ("content",))
_ASSISTANT = record({**_OF_ITEM, "role": text, "content": _SAID, "phase": anything}, ("content",))
_CALL = {"call_id": text, "name": text, "arguments": text}
_RESULT = {"call_id": text, "output": _INPUT}
_ROLES = dict.fromkeys(("system", "developer", "user"), _MESSAGE)
_ITEM = by(
    "type",
    {
        "message": by("role", {**_ROLES, "assistant": _ASSISTANT}),
        "function_call": record({**_OF_ITEM, **_CALL}, tuple(_CALL)),
        "function_call_output": record({**_OF_ITEM, **_RESULT}, tuple(_RESULT)),
        "reasoning": record({**_OF_ITEM, **dict.fromkeys(THOUGHT, anything)}),
    },
    "message",
)
