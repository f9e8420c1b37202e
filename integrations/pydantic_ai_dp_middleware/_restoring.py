"""What is shown of an answer: the originals in texts, thoughts and arguments, also in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse

from dp_middleware.sessions.dialogue import Dialogue

_FIELDS: dict[type, str] = {TextPart: "content", ThinkingPart: "content", ToolCallPart: "args"}
_DELTAS: dict[type, type] = {
    TextPart: TextPartDelta,
    ThinkingPart: ThinkingPartDelta,
    ToolCallPart: ToolCallPartDelta,
}
_FIELDS |= {delta: f"{_FIELDS[part]}_delta" for part, delta in _DELTAS.items()}


def restored(dialogue: Dialogue, response: ModelResponse) -> ModelResponse:
    """A copy of an answer with the originals."""
    return replace(response, parts=[_part(dialogue, part) for part in response.parts])


def _part(dialogue: Dialogue, part: Any) -> Any:
    name = _FIELDS.get(type(part))
    if name is None:
        return part
    value = getattr(part, name)
    is_json = name == "args" and isinstance(value, str)
    shown = dialogue.shown_json(value) if is_json else dialogue.shown_value(value)
    return replace(part, **{name: shown})


def _inners(name: str) -> Any:
    return property(lambda stream: getattr(stream._inner, name), doc="As the remote model's.")


class ShownStream(StreamedResponse):
    """A streamed answer with the originals; what could become a pseudonym is held back.

    Args:
        dialogue: Its conversation.
        inner: The remote model's.
    """

    def __init__(self, dialogue: Dialogue, inner: StreamedResponse) -> None:
        super().__init__(inner.model_request_parameters)
        self._dialogue, self._inner = dialogue, inner
        self._pieces = dialogue.pieces()
        self._growing: dict[int, str] = {}  # what was shown of parts that have not ended

    def __aiter__(self) -> AsyncIterator[Any]:
        """The events, the same at every call."""
        if self._event_iterator is None:
            self._event_iterator = self._get_event_iterator()
        return self._event_iterator

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        async for event in self._inner:
            self.final_result_event = self._inner.final_result_event
            if isinstance(event, PartStartEvent):
                yield replace(event, part=self._piece(event.index, event.part))
            elif isinstance(event, PartDeltaEvent):
                yield replace(event, delta=self._piece(event.index, event.delta))
            elif isinstance(event, PartEndEvent):
                if rest := self._pieces.close(event.index):
                    kind = type(event.part)
                    delta: Any = _DELTAS[kind](**{_FIELDS[_DELTAS[kind]]: rest})
                    yield PartDeltaEvent(index=event.index, delta=delta)
                self._growing.pop(event.index, None)
                yield replace(event, part=_part(self._dialogue, event.part))
            else:
                yield event

    def _piece(self, index: int, piece: Any) -> Any:
        name = _FIELDS.get(type(piece))
        value = name and getattr(piece, name)
        if not name or not isinstance(value, str):
            return _part(self._dialogue, piece)
        shown = self._pieces.feed(index, value, json=name.startswith("args"))
        self._growing[index] = self._growing.get(index, "") + shown
        return replace(piece, **{name: shown})

    def get(self) -> ModelResponse:
        """The answer as far as it was shown."""
        response = self._inner.get()
        parts = [self._so_far(index, part) for index, part in enumerate(response.parts)]
        return replace(response, parts=parts)

    def _so_far(self, index: int, part: Any) -> Any:
        if index not in self._growing:
            return _part(self._dialogue, part)
        return replace(part, **{_FIELDS[type(part)]: self._growing[index]})

    async def cancel(self) -> None:
        """As the remote model's."""
        await self._inner.cancel()

    async def close_stream(self) -> None:
        """As the remote model's."""
        await self._inner.close_stream()

    cancelled = _inners("cancelled")
    usage = _inners("usage")
    model_name = _inners("model_name")
    provider_name = _inners("provider_name")
    provider_url = _inners("provider_url")
    timestamp = _inners("timestamp")
