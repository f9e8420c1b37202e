"""``/beta/litellm_basic_guardrail_api``: LiteLLM's generic guardrail, for proxies without us."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.guardrail import Rules, release_request, restore_response
from dp_middleware.conversation.session import Session
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.gateway.failures import failure_of
from dp_middleware.gateway.fields import anything, one_of, record
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.turns import in_thread

_FIELDS = (
    *("request_data", "texts", "structured_messages", "tool_calls", "tools", "images", "model"),
    *("request_headers", "additional_provider_specific_params"),
    *("litellm_call_id", "litellm_trace_id", "litellm_version"),
)
_REQUEST = record(  # other texts would pass by
    {"input_type": one_of("request", "response"), **dict.fromkeys(_FIELDS, anything)},
    ("input_type", "request_data"),
)


async def guardrail(call: Call) -> Response:
    """Releases the texts of a proxy's request, or restores those of an answer to it.

    Callers are told apart by the key that LiteLLM knows its client by and by the header
    ``x-litellm-session-id`` of that client; an answer belongs to the request of its
    ``litellm_call_id``, and gets back the originals of that request alone. Fails closed, whatever a
    proxy does with a status: what goes wrong is ``"BLOCKED"``, with a reason that has no text.
    Arguments of tools are not restored: the protocol has no way back for them.
    """
    try:
        shown = await in_thread(lambda: _answered(call, _REQUEST(call.body, "")))
    except DPMiddlewareError as error:
        return JSONResponse({"action": "BLOCKED", "blocked_reason": failure_of(error).message})
    return JSONResponse({"action": "GUARDRAIL_INTERVENED", **shown})


def _answered(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    session, whose = _caller(call, given)
    reference = f"{call.client.id}\x1f{given.get('litellm_call_id') or uuid4()}"
    if given["input_type"] == "response":
        shown = restore_response(session.exchange((), after=reference, whose=whose), given)
        shown.pop("tool_calls", None)
        return shown
    policy, started = call.policy, time.perf_counter()
    rules = Rules(
        system=policy.system,
        tools=policy.tools,
        answers="pass" if policy.answers == "public" else "refuse",
    )
    released, exchange = release_request(session, given, rules, reference=reference, whose=whose)
    made, sent = (each.get("tool_calls") or () for each in (given, released))
    if [*map(_said, sent)] != [*map(_said, made)]:
        raise ParameterError("expected calls of tools as the remote model made them")
    receipt = exchange.receipt
    call.count(receipt, receipt.nats, time.perf_counter() - started)
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
