"""A model of pydantic-ai that hands another one released messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.dialogue import Dialogue
from pydantic_ai_dp_middleware._messages import released_messages, words_of
from pydantic_ai_dp_middleware._restoring import ShownStream, restored


class DPModel(WrapperModel):
    """Stands for a remote model: instructions, prompts and what tools give are released.

    Stored messages stay raw; the remote model's answers may go out again, no others. With
    pseudonyms, answers and arguments of tools have the originals, also in streams. Spans of the
    inner model, made with ``InstrumentedModel(inner)``, hold released text; those of an agent with
    ``instrument=`` hold raw text: give it ``InstrumentationSettings(include_content=False)``.
    Definitions of tools and output types, and the model's settings, are public.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or ``dp.Pseudonyms``.
        inner: The remote model.
        public_instructions: Instructions and system prompts that are sent as they are, to the
            letter; others are released, each once.
        conversation: Its public name; default a fresh one. Two conversations with one beginning
            need two models.

    Raises:
        DPMiddlewareError: From a call: the budget is exhausted, the release failed, an answer in
            the messages is not the remote model's, or they have another content than text. Nothing
            was sent. Holds no text.
    """

    def __init__(
        self,
        session: object,
        inner: Model,
        *,
        public_instructions: Collection[str] = (),
        conversation: str | None = None,
    ) -> None:
        if isinstance(inner, DPModel) or not isinstance(inner, Model):
            raise ParameterError(f"expected inner= a model, got {type(inner).__name__}")
        super().__init__(inner)
        self._dialogue = Dialogue(session, conversation=conversation, public=public_instructions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The inner model's answer to what was released."""
        sent, parameters = await self._released(messages, model_request_parameters)
        response = await self.wrapped.request(sent, model_settings, parameters)
        shown = restored(self._dialogue, response)
        self._note(response, shown)
        return shown

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """As :meth:`request`, in pieces; noted as far as it went.

        The inner model is given no ``run_context``, which holds the raw prompt.
        """
        sent, parameters = await self._released(messages, model_request_parameters)
        async with self.wrapped.request_stream(sent, model_settings, parameters) as stream:
            shown = ShownStream(self._dialogue, stream)
            try:
                yield shown
            finally:
                self._note(stream.get(), shown.get())

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        """Of what was released: a vendor counts on its servers. A request after it is free."""
        sent, parameters = await self._released(messages, model_request_parameters)
        return await self.wrapped.count_tokens(sent, model_settings, parameters)

    async def compact_messages(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: what a server made of a conversation cannot be released.

        Raises:
            ParameterError: Always.
        """
        raise ParameterError("expected messages that are sent as they are, not compacted")

    async def _released(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[list[ModelMessage], ModelRequestParameters]:
        return await asyncio.to_thread(released_messages, self._dialogue, messages, parameters)

    def _note(self, remote: ModelResponse, shown: ModelResponse) -> None:
        with suppress(ParameterError):  # an answer that cannot be sent again
            self._dialogue.note(words_of(remote), words_of(shown), left=True)
