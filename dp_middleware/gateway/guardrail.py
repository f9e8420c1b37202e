"""LiteLLM's generic guardrail: its request as JSON, and the answer to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dp_middleware.errors import DPMiddlewareError
from dp_middleware.sessions.boundary import guarded, session_of
from dp_middleware.sessions.dialogue import Dialogue
from dp_middleware.sessions.guardrail import Rules, release_request, restore_response

_OWNER = "user_api_key_hash"
_SESSION = "x-litellm-session-id"


def answer_guardrail(
    session: object,
    request: Mapping[str, Any],
    *,
    subject: str | None = None,
    public_system: Collection[str] = (),
    rules: Rules | None = None,
) -> dict[str, Any]:
    """What ``POST /beta/litellm_basic_guardrail_api`` answers.

    A conversation is named by the key that LiteLLM knows its client by and by the header
    ``x-litellm-session-id``. The proxy hands over texts and tools only, no other field of a
    request: what else its clients may send, the proxy must restrict. Fails closed: whatever goes
    wrong is ``"BLOCKED"``; set ``unreachable_fallback: fail_closed`` and ``fail_on_error: true``
    there, which are its defaults, and ``streaming_transform_mode: incremental_diff`` for
    pseudonyms. Arguments of tools are not restored: the protocol has no way back for them.

    Args:
        session: A session, a sanitizer or pseudonyms. One for all requests: it remembers.
        request: As it came, parsed.
        subject: Name of the field of ``request_data`` that tells whose budget is charged, such as
            ``"user_api_key_user_id"``; default the session's own subject. It must be there.
        public_system: System messages that are sent as they are, to the letter.
        rules: What is public.

    Returns:
        ``action``, ``texts``, and ``stream_holdback_chars`` or ``blocked_reason``, which has no
        text of the request.
    """
    try:
        return guarded(_answered, session, request, subject, public_system, rules or Rules())
    except DPMiddlewareError as error:
        return {"action": "BLOCKED", "blocked_reason": f"{type(error).__name__}: {error}"}


def _answered(
    session: object,
    request: Mapping[str, Any],
    subject: str | None,
    public_system: Collection[str],
    rules: Rules,
) -> dict[str, Any]:
    about, headers = request.get("request_data") or {}, request.get("request_headers") or {}
    own = session_of(session)
    if subject is not None:
        if not about.get(subject):
            raise DPMiddlewareError(f"expected {subject} of the proxy's client, got none")
        own = own.for_subject(str(about[subject]))
    names = {name.lower(): value for name, value in headers.items()}
    conversation = own.digest("litellm", str(about.get(_OWNER)), str(names.get(_SESSION)))
    dialogue = Dialogue(own, conversation=conversation, public=public_system)
    if request.get("input_type") == "request":
        found = release_request(dialogue, request, rules)
    elif request.get("input_type") == "response":
        found = restore_response(dialogue, request)
    else:
        raise DPMiddlewareError("expected input_type 'request' or 'response'")
    found.pop("tool_calls", None)
    return {"action": "GUARDRAIL_INTERVENED", **found}
