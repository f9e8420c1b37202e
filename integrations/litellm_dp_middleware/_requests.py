"""What a request of the proxy may hold, whose it is, and how it is taken out of logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from dp_middleware.errors import ParameterError

_TEXTS = ("messages", "input", "prompt", "system", "instructions")
_PUBLIC = (
    *("model", "stream", "stream_options", "encoding_format", "dimensions", "n", "seed", "stop"),
    *("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "logprobs"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "top_logprobs"),
    *("reasoning_effort", "service_tier", "truncation", "store"),
)
_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "text")
_PROXYS = ("metadata", "litellm_metadata", "litellm_session_id", "litellm_trace_id")
_ABOUT = ("headers", "used_client_oauth_token", "session_id", "trace_id")  # kept of metadata
_KINDS = ("text", "input_text", "output_text", "message", "function", "function_call_output")
_IDS = ("id", "tool_call_id", "call_id")
_NESTED = ("content", "text", "output", "tool_calls", "function")


def checked(data: Mapping[str, Any], inputs: Mapping[str, Any], *, tools: str) -> None:
    """Raise for a request with anything that is neither released nor public.

    Args:
        data: Of the proxy.
        inputs: What of it the proxy shows to the guardrail.
        tools: Whether tools are public.

    Raises:
        ParameterError: Names known fields only.
    """
    body = (data.get("proxy_server_request") or {}).get("body")
    if not isinstance(body, Mapping):
        raise ParameterError("expected a request of the proxy, got none")
    allowed = {*_TEXTS, *_PUBLIC, *(_TOOLS if tools == "public" else ())}
    about, _ = owner_of(data)
    if {*body} - allowed - {*_PROXYS} or {*(about.get("requester_metadata") or ())} - {*_ABOUT}:
        more = "" if tools == "public" else "; for tools and formats say tools='public'"
        raise ParameterError(f"expected no other fields than {sorted(allowed)}{more}")
    shown = {*(inputs.get("texts") or ())}
    for call in inputs.get("tool_calls") or ():
        values = call if isinstance(call, Mapping) else call.model_dump()
        shown |= {*values["function"].values(), values["id"]}
    for field in _TEXTS:
        if any(text not in shown for text in _leaves(data.get(field) or ())):
            raise ParameterError(f"{field}: expected text, calls of functions and what they gave")


def _leaves(value: Any) -> Iterator[Any]:
    """Everything in a field that must have been shown to the guardrail; ``None``: it cannot be."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaf(name, each, is_function="arguments" in value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _leaf(name: str, value: Any, *, is_function: bool) -> Iterator[Any]:
    if name in ("role", "index") or (name == "type" and value in _KINDS) or not value:
        return
    if name in _NESTED:
        yield from _leaves(value)
    elif name in _IDS or (is_function and name in ("name", "arguments")):
        yield value
    else:
        yield None


def owner_of(data: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, str]]:
    """What the proxy knows of its client, and the name of the conversation: a key and an id."""
    about: dict[str, Any] = {}
    for field in ("metadata", "litellm_metadata"):
        about |= data.get(field) or {}
    owner = about.get("user_api_key_hash") or about.get("user_api_key")
    return about, (str(owner), str(get_session_id_from_request_data(dict(data))))


def logged(data: Mapping[str, Any], logging: Any, texts: Sequence[str]) -> None:
    """Put texts in the place of the raw ones where the proxy keeps them for its logs."""
    body = (data.get("proxy_server_request") or {}).get("body")
    if isinstance(body, dict):
        for field in _TEXTS:
            body.pop(field, None)
    if logging is None:
        return
    said = [{"role": "user", "content": text} for text in texts]
    logging.messages = said
    with suppress(AttributeError):
        for field in _TEXTS:
            if field in logging.model_call_details:
                logging.model_call_details[field] = said


def cleared(data: dict[str, Any], logging: Any) -> None:
    """Take a request out of what the proxy logs of its failure: all that is not public."""
    body = (data.get("proxy_server_request") or {}).get("body") or {}
    private = {*_TEXTS, *body} - {*_PUBLIC, *_PROXYS}
    logged(data, logging, [])
    for field in private:
        body.pop(field, None)
        value = data.get(field)
        if isinstance(value, list):
            value.clear()  # the proxy has more than one copy of the request
        elif value is not None:
            data[field] = ""
