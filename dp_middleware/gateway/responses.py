"""``/v1/responses``: whole or streamed, with tools; conversations by the ids of responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.messages import Message
from dp_middleware.errors import EventRefused
from dp_middleware.gateway import declared, fields
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import Check, flag, number, one_of, record, text, whole
from dp_middleware.gateway.response_answers import ResponseShower, ResponseStream, call_event
from dp_middleware.gateway.response_items import items_of, transcript_of
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import EventStream, Plan, in_thread, named, released

PATH = "/responses"


async def responses(call: Call) -> Response:
    """Release instructions and input, ask the upstream, show its response."""
    turn = await released(call, plan_of)
    shower = ResponseShower(
        exchange=turn.exchange,
        name=lambda upstream: call.sign("response", upstream.encode()),
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
    """What is private in a request, and what is sent in its place."""
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models)(call.body, "")
    items, instructions = given.pop("input"), given.pop("instructions", None)
    transcript = transcript_of(items)
    before = given.pop("previous_response_id", None)
    declared.require_choice(given)
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


def _known(call: Call, name: str) -> str:
    """The upstream's id of a response."""
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
                    "format": declared.response_format(policy, flat=True),
                    "verbosity": one_of("low", "medium", "high"),
                }
            ),
            "tools": declared.tools_of(policy, flat=True),
            "tool_choice": declared.tool_choice(flat=True),
        },
        ("model", "input"),
    )
