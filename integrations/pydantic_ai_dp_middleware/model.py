"""A model of pydantic-ai that hands another one released messages, and shows the originals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NoReturn

from pydantic_ai.messages import (
    BaseToolCallPart,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from dp_middleware.conversation.dialogue import Dialogue
from dp_middleware.errors import ParameterError
from pydantic_ai_dp_middleware._messages import released_messages, words_of

_GROWING: tuple[tuple[type, str, Any], ...] = (  # parts, where they grow, and by what
    (TextPart, "content", TextPartDelta),
    (ThinkingPart, "content", ThinkingPartDelta),
    (BaseToolCallPart, "args", ToolCallPartDelta),
)


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
        shown = replace(response, parts=[_shown(self._dialogue, part) for part in response.parts])
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
            shown = _ShownStream(self._dialogue, stream)
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


def _shown(dialogue: Dialogue, part: Any) -> Any:
    name = _field(part)
    if not name:
        return part
    value = getattr(part, name)
    is_json = name.startswith("args") and isinstance(value, str)
    shown = dialogue.shown_json(value) if is_json else dialogue.shown_value(value)
    return replace(part, **{name: shown})


def _field(piece: Any) -> str:
    """Where the text of a part or of a delta is; empty: it has none."""
    for part, name, delta in _GROWING:
        if isinstance(piece, part | delta):
            return name if isinstance(piece, part) else f"{name}_delta"
    return ""


def _inners(name: str) -> Any:
    return property(lambda stream: getattr(stream._inner, name), doc="As the remote model's.")


class _ShownStream(StreamedResponse):
    """A streamed answer with the originals; what could become a pseudonym is held back."""

    def __init__(self, dialogue: Dialogue, inner: StreamedResponse) -> None:
        super().__init__(inner.model_request_parameters)
        self._dialogue, self._inner, self._pieces = dialogue, inner, dialogue.pieces()

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        async for event in self._inner:
            for shown in self._events(event):
                self._parts_manager.apply_event(shown)
                yield shown

    def _events(self, event: Any) -> Iterator[Any]:
        """Ends of parts, and which one is the result, are told by the base class."""
        if isinstance(event, PartStartEvent):
            yield replace(event, part=self._piece(event.index, event.part))
        elif isinstance(event, PartDeltaEvent):
            yield replace(event, delta=self._piece(event.index, event.delta))
        elif isinstance(event, PartEndEvent) and (rest := self._pieces.close(event.index)):
            [(name, delta)] = [(n, d) for part, n, d in _GROWING if isinstance(event.part, part)]
            yield PartDeltaEvent(index=event.index, delta=delta(**{f"{name}_delta": rest}))

    def _piece(self, index: int, piece: Any) -> Any:
        name = _field(piece)
        value = getattr(piece, name, None)
        if not isinstance(value, str):
            return _shown(self._dialogue, piece)
        shown = self._pieces.feed(index, value, json=name.startswith("args"))
        return replace(piece, **{name: shown})

    def get(self) -> ModelResponse:
        """The answer as far as it was shown."""
        return replace(self._inner.get(), parts=self._parts_manager.get_parts())

    async def close_stream(self) -> None:
        """Cancel the remote model's."""
        await self._inner.cancel()

    usage = _inners("usage")
    model_name = _inners("model_name")
    provider_name = _inners("provider_name")
    provider_url = _inners("provider_url")
    timestamp = _inners("timestamp")
