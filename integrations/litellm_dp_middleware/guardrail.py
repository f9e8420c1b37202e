"""A guardrail of LiteLLM's proxy: what is forwarded and logged was released before."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from fastapi import HTTPException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange, Tools, checked_tools
from dp_middleware.conversation.guardrail import Rules, release_request, restore_response
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import BudgetExhausted, DPMiddlewareError, EventRefused, ParameterError
from litellm_dp_middleware._requests import checked, cleared, logged, owner_of

_HOOKS = [GuardrailEventHooks.pre_call, GuardrailEventHooks.post_call]
_UNDER_WAY = 10_000  # calls that are under way


class DPGuardrail(CustomGuardrail):
    """Releases every text of a request by its role, and restores pseudonyms in the answer.

    For chat completions, responses, messages, completions and embeddings, whole or streamed. It is
    always on, before and after the call, whatever the configuration says. What a request may hold
    is a list: another field, images and other content than text are refused, and so is a call that
    the proxy did not show to the guardrail. Logs of successes and failures have released text.

    Callers are told apart by their key and LiteLLM's session id. The remote model's answers may go
    out again, by their words, and get back the originals that stood in their own request.
    Embeddings and completions are released anew at every call.

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

    Example:
        In a file beside ``config.yaml``, named there as ``guardrail: private.guardrail``::

            def guardrail(**options):
                return DPGuardrail(session, tools="public", **options)
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
        self,
        inputs: Any,
        request_data: dict[str, Any],
        input_type: str,
        logging_obj: Any = None,
    ) -> Any:
        """Released texts of a request, or the shown ones of an answer.

        Raises:
            HTTPException: 429 where the budget is exhausted, 400 for a refusal, 500 for a failure.
                Names no text.
        """
        try:
            if input_type != "request":
                return await asyncio.to_thread(guarded, self._response, inputs, request_data)
            released = await asyncio.to_thread(guarded, self._request, inputs, request_data)
            logged(request_data, logging_obj, released["texts"])
            return released
        except DPMiddlewareError as error:
            failure = _failure(error)
        cleared(request_data, logging_obj)
        raise failure

    def _request(self, inputs: Any, data: dict[str, Any]) -> dict[str, Any]:
        checked(data, inputs, tools=self._rules.tools)
        session, (about, caller) = self._session, owner_of(data)
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
        """The last step before a call: one that was not released is refused.

        Raises:
            HTTPException: It was not shown to the guardrail.
        """
        if str(kwargs.get("litellm_call_id")) not in self._exchanges:
            cleared(kwargs, kwargs.get("litellm_logging_obj"))
            raise HTTPException(400, "this kind of call cannot be released; it was not sent")
        return kwargs


def _failure(error: DPMiddlewareError) -> HTTPException:
    status = 500
    if isinstance(error, BudgetExhausted):
        status = 429
    elif isinstance(error, ParameterError | EventRefused):
        status = 400
    return HTTPException(status, f"{type(error).__name__}: {error}")
