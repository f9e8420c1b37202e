"""``/v1/chat/completions``: whole or streamed, with tools and forms of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.gateway import fields
from dp_middleware.gateway.answers import shown_chat
from dp_middleware.gateway.extraction import Extraction
from dp_middleware.gateway.fields import Check, declared, flag, number, one_of, record, text, whole
from dp_middleware.gateway.messages import copies_of, transcript_of
from dp_middleware.gateway.pieces import ChatStream
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.streaming import DONE, EventStream, sse
from dp_middleware.gateway.turns import Plan, Turn, in_thread, named, released

PATH = "/chat/completions"
_ANSWERS = 8  # to one request
_TOOLS = 256


async def chat(call: Call) -> Response:
    """Release the messages, ask the upstream, show its answer."""
    turn = await released(call, lambda: plan_of(call))
    extraction = call.gateway.sessions.extraction(call.policy_name)
    if extraction is not None:
        return await _extracted(turn, extraction)
    if turn.body.get("stream"):
        return EventStream(turn, PATH, ChatStream(turn.exchange), ends=DONE)
    answer = await call.gateway.upstream.ask(PATH, turn.body)
    shown = await in_thread(lambda: shown_chat(turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


async def _extracted(turn: Turn, extraction: Extraction) -> Response:
    """The answer that a local model made of the upstream's, which is waited for whole."""
    whole = {k: value for k, value in turn.body.items() if k not in ("stream", "stream_options")}
    answer = await turn.call.gateway.upstream.ask(PATH, whole)
    transcript = turn.plan.transcript
    shown = await in_thread(
        lambda: shown_chat(turn.exchange, answer, lambda said: extraction.fitted(said, transcript)),
        extraction.threads,
    )
    if not turn.body.get("stream"):
        return JSONResponse(shown, headers=turn.headers)
    text = "".join(map(sse, _chunks(shown))) + DONE
    return Response(text, media_type="text/event-stream", headers=turn.headers)


def _chunks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole answer as the events of a stream: one for each choice, and one for its end."""
    head = {k: value for k, value in answer.items() if k not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choice in answer["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": k, **call} for k, call in enumerate(calls)]
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": None}
        yield {**head, "choices": [{**end, "delta": delta}]}
        yield {**head, "choices": [{**end, "finish_reason": choice.get("finish_reason")}]}


def plan_of(call: Call) -> Plan:
    """What is private in a request, and what is sent in its place.

    Raises:
        Failure: Something that cannot be released.
    """
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models)(call.body, "")
    messages = given.pop("messages")
    transcript = transcript_of(messages, public_system=policy.system == "public")
    _check_choice(given)
    return Plan(
        transcript=transcript,
        conversation=named(call),
        build=lambda sent: {**given, "messages": copies_of(messages, sent)},
    )


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> Check:
    """The allow-list under a policy."""
    penalty, tokens = number(-2, 2), whole(1, 10_000_000)
    return record(
        {
            "model": one_of(*models),
            "messages": fields.anything,
            "stream": flag,
            "stream_options": record({"include_usage": flag, "include_obfuscation": flag}),
            "temperature": number(0, 2),
            "top_p": number(0, 1),
            "presence_penalty": penalty,
            "frequency_penalty": penalty,
            "n": whole(1, _ANSWERS),
            "max_tokens": tokens,
            "max_completion_tokens": tokens,
            "seed": whole(-(2**63), 2**63 - 1),
            "logprobs": flag,
            "top_logprobs": whole(0, 20),
            "parallel_tool_calls": flag,
            "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh"),
            "verbosity": one_of("low", "medium", "high"),
            "service_tier": one_of("auto", "default", "flex", "priority"),
            "store": flag,
            "stop": stop(policy),
            "response_format": response_format(policy),
            "tools": tools_of(policy),
            "tool_choice": _tool_choice,
        },
        ("model", "messages"),
    )


def tools_of(policy: Policy, *, flat: bool = False) -> Check:
    """Definitions of functions, where they were declared public; flat in the Responses API."""
    is_function = {"type": one_of("function")}
    tool = record({**is_function, **_FUNCTION}, ("type", "name"))
    if not flat:
        tool = record(
            {**is_function, "function": record(_FUNCTION, ("name",))}, ("type", "function")
        )
    tools = fields.many(tool, least=0, most=_TOOLS)
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


def _object(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise fields.refuse(where, "an object")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        value = None
    if value is None:
        raise fields.refuse(where, "an object of texts without lone surrogates, finite numbers")
    return value


def stop(policy: Policy) -> Check:
    """One sequence or several, where they were declared public."""

    def check(value: Any, where: str) -> Any:
        if isinstance(value, str):
            return text(value, where)
        return fields.many(text, most=4)(value, where)

    return declared(policy.stop == "public", check, "stop")


def _tool_choice(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return _CHOICE(value, where)
    return one_of("none", "auto", "required")(value, where)


def _check_choice(given: dict[str, Any]) -> None:
    """A tool is chosen by a name that was declared public with it."""
    choice = given.get("tool_choice")
    names = {tool["function"]["name"] for tool in given.get("tools", ())}
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        raise fields.refuse("tool_choice", "a tool of this request")


_FUNCTION = {"name": text, "description": text, "parameters": _object, "strict": flag}
_CHOICE = record(
    {"type": one_of("function"), "function": record({"name": text}, ("name",))},
    ("type", "function"),
)
_PLAIN_FORMAT = record({"type": one_of("text", "json_object")}, ("type",))
_IS_SCHEMA = {"type": one_of("json_schema")}
_FORM = {"name": text, "description": text, "schema": _object, "strict": flag}
