"""Texts by themselves: ``/v1/completions``, ``/v1/embeddings`` and LiteLLM's guardrail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.guardrail import Rules, release_request, restore_response
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.conversation.session import Session
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.gateway import fields as f
from dp_middleware.gateway.failures import failure_of
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import Plan, in_thread, named, read, released


async def completions(call: Call) -> Response:
    """Releases the prompts, asks the upstream, shows what it wrote."""
    given = _completion(call.policy, call.gateway.settings.upstream.models)(call.body, "")
    turn = await released(call, partial(_plan_of, given, "prompt"))
    answer = await call.gateway.upstream.ask("/completions", turn.body)
    shown = await in_thread(lambda: read(_restored, turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


def _restored(exchange: Exchange, answer: dict[str, Any]) -> dict[str, Any]:
    choices = [{**c, "text": exchange.restore(c["text"])} for c in answer["choices"]]
    return {**answer, "choices": choices}


async def embeddings(call: Call) -> Response:
    """Releases the texts, and has what was released embedded: a function of public text."""
    given = _embedding(call.gateway.settings.upstream.models)(call.body, "")
    turn = await released(call, partial(_plan_of, given, "input"))
    answer = await call.gateway.upstream.ask("/embeddings", turn.body)
    return JSONResponse(answer, headers=turn.headers)


def _plan_of(given: dict[str, Any], name: str, call: Call) -> Plan:
    """Texts, each a new event, or in a conversation that the client has named the same again."""
    is_one = isinstance(given[name], str)
    texts, transcript = [given[name]] if is_one else given[name], list[Message]()
    for k, each in enumerate(texts):
        event = f"{name}\x1f{call.session.digest(each)}\x1f{k}" if named(call) else ONCE
        transcript.append(Message(role="user", texts=(each,), id=event))

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        released = [message.text for message in sent]
        return {**given, name: released[0] if is_one else released}

    return Plan(transcript=transcript, build=build)


# arrays of token ids are refused: they are text in another spelling
_TEXTS = f.either(str, f.text, f.many(f.text, most=2048))


@cache
def _completion(policy: Policy, models: tuple[str, ...]) -> f.Check:
    return f.record(
        {
            "model": f.one_of(*models),
            "prompt": _TEXTS,
            **f.SAMPLING,
            "stream": f.one_of(False),
            "max_tokens": f.whole(0, 10_000_000),
            "logprobs": f.whole(0, 20),
            "stop": f.stop(policy),
        },
        ("model", "prompt"),
    )


@cache
def _embedding(models: tuple[str, ...]) -> f.Check:
    return f.record(
        {
            "model": f.one_of(*models),
            "input": _TEXTS,
            "dimensions": f.whole(1, 100_000),
            "encoding_format": f.one_of("float", "base64"),
        },
        ("model", "input"),
    )


_FIELDS = (
    *("request_data", "texts", "structured_messages", "tool_calls", "tools", "images", "model"),
    *("request_headers", "additional_provider_specific_params"),
    *("litellm_call_id", "litellm_trace_id", "litellm_version"),
)
_GUARDED = f.record(  # other texts would pass by
    {"input_type": f.one_of("request", "response"), **dict.fromkeys(_FIELDS, f.anything)},
    ("input_type", "request_data"),
)


async def guardrail(call: Call) -> Response:
    """Releases the texts of a proxy's request, or restores those of an answer to it.

    An answer gets back the originals of the request of its ``litellm_call_id`` alone. Fails closed,
    whatever a proxy does with a status: what goes wrong is ``"BLOCKED"``, with a reason that has no
    text. Arguments of tools are not restored: the protocol has no way back for them.
    """
    try:
        shown = await in_thread(lambda: _intervened(call, _GUARDED(call.body, "")))
    except DPMiddlewareError as error:
        return JSONResponse({"action": "BLOCKED", "blocked_reason": failure_of(error).message})
    return JSONResponse({"action": "GUARDRAIL_INTERVENED", **shown})


def _intervened(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    session, whose = _caller(call, given)
    reference = f"{call.client.id}\x1f{given.get('litellm_call_id') or uuid4()}"
    if given["input_type"] == "response":
        shown = restore_response(session.exchange((), after=reference, whose=whose), given)
        shown.pop("tool_calls", None)
        return shown
    policy, started = call.policy, time.perf_counter()
    answers: Any = "pass" if policy.answers == "public" else "refuse"
    rules = Rules(system=policy.system, tools=policy.tools, answers=answers)
    released, exchange = release_request(session, given, rules, reference=reference, whose=whose)
    made, sent = (each.get("tool_calls") or () for each in (given, released))
    if [*map(_said, sent)] != [*map(_said, made)]:
        raise ParameterError("expected calls of tools as the remote model made them")
    call.count(exchange.receipt, exchange.receipt.nats, time.perf_counter() - started)
    return {"texts": released["texts"]}


def _said(call: dict[str, Any]) -> tuple[Any, ...]:
    return call["id"], call["function"]["name"], call["function"]["arguments"]


def _caller(call: Call, given: dict[str, Any]) -> tuple[Session, str]:
    about, session = given["request_data"], call.session
    subject = call.gateway.settings.guardrail_subject
    if subject is not None:
        if not about.get(subject):
            raise ParameterError(f"expected {subject} of the proxy's client, got none")
        session = session.for_subject(f"{call.client.subject}/{about[subject]}")
    headers = {name.lower(): value for name, value in given.get("request_headers", {}).items()}
    owner, own = about.get("user_api_key_hash"), headers.get("x-litellm-session-id")
    return session, f"{call.client.id}\x1flitellm\x1f{session.digest(str(owner), str(own))}"
