"""``/v1/responses``: whole or streamed, with tools; conversations by the ids of responses."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.session import Item
from dp_middleware.errors import EventRefused
from dp_middleware.gateway import fields
from dp_middleware.gateway.chat import response_format, tools_of
from dp_middleware.gateway.conversations import conversation_of
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import Check, flag, number, one_of, record, text, whole
from dp_middleware.gateway.response_answers import ResponseShower, ResponseStream, call_event
from dp_middleware.gateway.response_items import Entry, entries_of
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.streaming import EventStream
from dp_middleware.gateway.turns import Plan, in_thread, released

PATH = "/responses"
_MAC = 16  # bytes
_LONGEST = 1000  # characters of an id


async def responses(call: Call) -> Response:
    """Release instructions and input, ask the upstream, show its response."""
    turn = await released(call, lambda: plan_of(call))
    reference = (turn.plan.conversation or "").rpartition("\x1f")[2]
    shower = ResponseShower(
        turn=turn,
        name=lambda upstream: response_id(call, upstream, reference),
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
    entries, instructions = entries_of(given.pop("input")), given.pop("instructions", None)
    before = given.pop("previous_response_id", None)
    _check_choice(given)
    events: list[Item] = [(None, each.role, text) for each in entries for text in each.texts]
    digest = call.session.digest
    first: list[Item] = []
    if instructions is not None and policy.system != "public":
        first = [(f"\x1finstructions\x1f{digest(instructions)}", "system", instructions)]
    if before is None:
        reference = digest(conversation_of(call, [*first, *events]))[:32]
    else:
        upstream_id, reference = _known(call, before)
        given["previous_response_id"] = upstream_id
        events = [
            (None if role == "assistant" else f"{upstream_id}\x1f{k}\x1f{digest(text)}", role, text)
            for k, (_, role, text) in enumerate(events)
        ]
    conversation = f"{call.client.id}\x1fresponses\x1f{reference}"
    _check_results(call, entries, conversation)

    def build(texts: Iterator[str]) -> dict[str, Any]:
        body = dict(given)
        if instructions is not None:
            body["instructions"] = next(texts) if first else instructions
        return {**body, "input": [entry.build(texts) for entry in entries]}

    return Plan(transcripts=[[*first, *events]], conversation=conversation, build=build)


def _check_results(call: Call, entries: Sequence[Entry], conversation: str) -> None:
    """The id of a call is public if the call is here, or came from the upstream."""
    here = {entry.call_id for entry in entries}
    for place, entry in enumerate(entries):
        if entry.answers is None or entry.answers in here:
            continue
        try:
            known: Item = (call_event(entry.answers), "assistant", "")
            call.session.check([known], conversation=conversation)
        except EventRefused:
            where = f"input[{place}].call_id"
            raise fields.refuse(where, "that of a call in this conversation") from None


def _check_choice(given: dict[str, Any]) -> None:
    """A tool is chosen by a name that was declared public with it."""
    choice = given.get("tool_choice")
    names = {tool["name"] for tool in given.get("tools", ())}
    if isinstance(choice, dict) and choice["name"] not in names:
        raise fields.refuse("tool_choice", "a tool of this request")


def response_id(call: Call, upstream: str, reference: str) -> str:
    """A response's id for its client: the upstream's and the conversation, signed."""
    data = json.dumps([upstream, reference]).encode()
    signed = base64.urlsafe_b64encode(_mac(call, data) + data).decode().rstrip("=")
    return f"resp_{signed}"


def _known(call: Call, name: str) -> tuple[str, str]:
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
    upstream, reference = json.loads(data[_MAC:])
    return upstream, reference


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
