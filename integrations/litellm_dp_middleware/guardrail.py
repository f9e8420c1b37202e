"""A guardrail of LiteLLM's proxy: what is forwarded and logged was released before."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fastapi import HTTPException
from litellm.integrations.custom_guardrail import CustomGuardrail, get_session_id_from_request_data
from litellm.types.guardrails import GuardrailEventHooks

from dp_middleware.conversation.events import checked_tools
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.guardrail import Rules, release_request, restore_response
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import (
    BudgetExhausted,
    DPMiddlewareError,
    EventRefused,
    ParameterError,
    guarded,
)

_HOOKS = [GuardrailEventHooks.pre_call, GuardrailEventHooks.post_call]
_UNDER_WAY = 10_000  # calls that are under way
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
_NESTED = ("content", "text", "output", "tool_calls", "function")


class DPGuardrail(CustomGuardrail):
    """Releases every text of a request by its role, and restores pseudonyms in the answer.

    For chat completions, responses, messages, completions and embeddings, whole or streamed; always
    on, before and after the call. What a request may hold is a list: another field, images and
    other content than text are refused, and so is a call that the proxy did not show to the
    guardrail. Logs have released text. Callers are told apart by their key and LiteLLM's session
    id. The remote model's answers may go out again, by their words, and get back the originals that
    stood in their own request. Embeddings and completions are new releases at every call.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or ``dp.Pseudonyms``. One for all calls.
        subject: The field of LiteLLM's metadata whose value is charged, such as
            ``"user_api_key_user_id"``; default the session's own subject.
        public_system: System messages that are sent as they are, to the letter.
        tools: ``"public"`` sends tools and formats of answers as they are; ``"refuse"`` none.
        answers: ``"refuse"`` or ``"pass"``: assistants' messages that were not noted.
        tool_originals: Names of the tools that are called with the originals of pseudonyms, or
            ``"all"``.
        options: What LiteLLM gives: a name, and its configuration.
    """

    def __init__(
        self,
        session: object,
        *,
        subject: str | None = None,
        public_system: Collection[str] = (),
        tools: Any = "refuse",
        answers: Any = "refuse",
        tool_originals: Tools = (),
        **options: Any,
    ) -> None:
        super().__init__(
            **{**options, "event_hook": _HOOKS, "default_on": True, "run_in_parallel": False}
        )
        self._session, self._subject = session_of(session), subject
        self._rules = Rules(
            public_system=frozenset(public_system),
            tools=tools,
            answers=answers,
            originals=checked_tools(tool_originals),
        )
        self._exchanges: OrderedDict[str, Exchange] = OrderedDict()  # by the ids of calls
        restores = self._session.restores
        self.streaming_transform_mode = "incremental_diff" if restores else "block_only"
        self.streaming_end_of_stream_only = not restores  # it is noted as a whole
        self.streaming_sampling_rate = 1

    async def apply_guardrail(
        self, inputs: Any, request_data: dict[str, Any], input_type: str, logging_obj: Any = None
    ) -> Any:
        """Returns released texts of a request, or the shown ones of an answer.

        HTTPException, without text: 429 for an exhausted budget, 400 a refusal, 500 a failure.
        """
        try:
            if input_type != "request":
                return await asyncio.to_thread(guarded, self._response, inputs, request_data)
            released = await asyncio.to_thread(guarded, self._request, inputs, request_data)
            _log(request_data, logging_obj, released["texts"])
            return released
        except DPMiddlewareError as error:
            refused = isinstance(error, ParameterError | EventRefused)
            status = 429 if isinstance(error, BudgetExhausted) else 400 if refused else 500
            failure = HTTPException(status, f"{type(error).__name__}: {error}")
        _clear(request_data, logging_obj)
        raise failure

    def _request(self, inputs: Any, data: dict[str, Any]) -> dict[str, Any]:
        _check(data, inputs, tools=self._rules.tools)
        session, (about, caller) = self._session, _owner_of(data)
        if self._subject is not None:
            if not about.get(self._subject):
                raise ParameterError(f"expected {self._subject} of the client, got none")
            session = session.for_subject(str(about[self._subject]))
        call, whose = str(data.get("litellm_call_id")), session.digest("litellm", *caller)
        released, exchange = release_request(
            session, inputs, self._rules, reference=call, whose=whose
        )
        self._exchanges[call] = exchange
        if len(self._exchanges) > _UNDER_WAY:
            self._exchanges.popitem(last=False)
        return {**inputs, **released}

    def _response(self, inputs: Any, data: dict[str, Any]) -> dict[str, Any]:
        exchange = self._exchanges.get(str(data.get("litellm_call_id")))
        if exchange is None:
            raise ParameterError("expected an answer to a call that was released, got another")
        return {**inputs, **restore_response(exchange, inputs)}

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
        """Refuses a call that was not shown to the guardrail: the last step before it."""
        if str(kwargs.get("litellm_call_id")) not in self._exchanges:
            _clear(kwargs, kwargs.get("litellm_logging_obj"))
            raise HTTPException(400, "this kind of call cannot be released; it was not sent")
        return kwargs


def _check(data: Mapping[str, Any], inputs: Mapping[str, Any], *, tools: str) -> None:
    """Raises for a request with anything that is neither shown to the guardrail nor public."""
    body = (data.get("proxy_server_request") or {}).get("body")
    if not isinstance(body, Mapping):
        raise ParameterError("expected a request of the proxy, got none")
    allowed = {*_TEXTS, *_PUBLIC, *(_TOOLS if tools == "public" else ())}
    about, _ = _owner_of(data)
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
    """Yields all in a field that must have been shown to the guardrail; ``None``: it cannot be."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
        return
    if not isinstance(value, Mapping):
        yield value
        return
    for name, part in value.items():
        if name in ("role", "index") or (name == "type" and part in _KINDS) or not part:
            continue
        if name in _NESTED:
            yield from _leaves(part)
            continue
        is_call = name in ("name", "arguments") and "arguments" in value
        yield part if is_call or name in ("id", "tool_call_id", "call_id") else None


def _owner_of(data: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, str]]:
    """Returns what the proxy knows of its client, and whose conversation it is: a key and an id."""
    about: dict[str, Any] = {}
    for field in ("metadata", "litellm_metadata"):
        about |= data.get(field) or {}
    owner = about.get("user_api_key_hash") or about.get("user_api_key")
    return about, (str(owner), str(get_session_id_from_request_data(dict(data))))


def _log(data: Mapping[str, Any], logging: Any, texts: Sequence[str]) -> None:
    """Puts texts in the place of the raw ones where the proxy keeps them for its logs."""
    body = (data.get("proxy_server_request") or {}).get("body")
    if isinstance(body, dict):
        for field in _TEXTS:
            body.pop(field, None)
    if logging is None:
        return
    said = [{"role": "user", "content": text} for text in texts]
    logging.messages = said
    with suppress(AttributeError):
        for field in {*_TEXTS} & {*logging.model_call_details}:
            logging.model_call_details[field] = said


def _clear(data: dict[str, Any], logging: Any) -> None:
    """Takes all that is not public out of what the proxy logs of a request that failed."""
    body = (data.get("proxy_server_request") or {}).get("body") or {}
    _log(data, logging, [])
    for field in {*_TEXTS, *body} - {*_PUBLIC, *_PROXYS}:
        body.pop(field, None)
        value = data.get(field)
        if isinstance(value, list):
            value.clear()  # the proxy has more than one copy of the request
        elif value is not None:
            data[field] = ""
