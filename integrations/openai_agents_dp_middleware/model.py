"""A model of the OpenAI Agents SDK that hands another one released input; shows the originals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from agents import Model, ModelResponse, RunConfig
from pydantic import BaseModel

from dp_middleware.conversation.dialogue import Dialogue
from dp_middleware.errors import ParameterError
from dp_middleware.unrecorded.streams import aclosing
from openai_agents_dp_middleware._items import forms_of, released_items

_PIECE = "response.function_call_arguments.delta"  # of JSON
_ENDS = (".done", ".completed", ".incomplete")


class DPModel(Model):
    """Stands for a remote model: instructions, messages and outputs of functions are released.

    The model's own answers may go out again, no others. With pseudonyms, answers and arguments of
    tools have the originals, also in streams. Give the run :func:`private_run`'s configuration:
    spans of tools record raw text otherwise. Names and schemas of tools, handoffs and output types,
    the model's settings and a stored prompt's id are public.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or ``dp.Pseudonyms``.
        inner: The remote model.
        public_instructions: Instructions that are sent as they are, to the letter; others are
            released as a system message.
        conversation: Its public name; default a fresh one. Two conversations with one beginning
            need two models.

    Raises:
        DPMiddlewareError: From a call: the budget is exhausted, the release failed, an answer in
            the input is not the remote model's, or the input has another content than text. Nothing
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
            raise ParameterError(f"expected inner= an agents.Model, got {type(inner).__name__}")
        self._inner = inner
        self._dialogue = Dialogue(session, conversation=conversation, public=public_instructions)

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        """The inner model's answer to what was released."""
        sent = await self._released(system_instructions, input, options)
        response = await self._inner.get_response(*sent, *args, **options)
        response.output = [self._noted(item) for item in response.output]
        return response

    async def stream_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """The events of the inner model; what could become a pseudonym is held back."""
        sent = await self._released(system_instructions, input, options)
        events: AsyncIterator[Any] = self._inner.stream_response(*sent, *args, **options)
        pieces, last = self._dialogue.pieces(), dict[Any, Any]()
        async with aclosing(events):
            async for event in events:
                kind, index = event.type, getattr(event, "output_index", None)
                if kind.endswith(".delta") and isinstance(event.delta, str):
                    last[index, kind] = event
                    text = pieces.feed((index, kind), event.delta, json=kind == _PIECE)
                    yield event.model_copy(update={"delta": text})
                    continue
                if kind == "response.output_item.done":
                    self._noted(event.item)
                ended = [at for at in last if kind.endswith(_ENDS) and index in (None, at[0])]
                for at in ended:  # what was held back stands before the end of its item, or of all
                    begun = last.pop(at)
                    if rest := pieces.close(at):
                        yield begun.model_copy(update={"delta": rest})
                yield self._shown(event)

    async def close(self) -> None:
        """As the inner model."""
        await self._inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        """As the inner model."""
        return self._inner.get_retry_advice(request)

    async def _released(
        self, instructions: str | None, given: Any, options: Mapping[str, Any]
    ) -> tuple[str | None, list[Any]]:
        if options.get("previous_response_id") or options.get("conversation_id"):
            raise ParameterError("expected the whole transcript, got an id of one kept elsewhere")
        if (options.get("prompt") or {}).get("variables"):
            raise ParameterError("expected no variables of a stored prompt: they are not released")
        return await asyncio.to_thread(
            released_items, self._dialogue, instructions, given, "refuse"
        )

    def _noted(self, item: BaseModel) -> Any:
        """An item of an answer as it is shown; it may go out again, also without its id."""
        shown = self._shown(item)
        for form in zip(forms_of(item), forms_of(shown), strict=True):
            self._dialogue.note(*form)
        return shown

    def _shown(self, value: Any, name: str = "") -> Any:
        """A copy of an item, an event or a part with the originals; ``name``: of its field."""
        if not self._dialogue.session.restores:
            return value
        if isinstance(value, BaseModel):
            fields = {k: self._shown(getattr(value, k), k) for k in type(value).model_fields}
            return value.model_copy(update=fields)
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if isinstance(value, str) and name in ("text", "refusal"):
            return self._dialogue.shown(value)
        if isinstance(value, str) and name == "arguments":
            return self._dialogue.shown_json(value)
        return value


def private_run(session: object, inner: Model, **settings: Any) -> RunConfig:
    """A run's configuration: all its agents use one :class:`DPModel`, and spans hold no data.

    Args:
        session: As of :class:`DPModel`.
        inner: The remote model.
        settings: ``public_instructions`` and ``conversation`` are of :class:`DPModel`, others of
            ``agents.RunConfig``.

    Raises:
        ParameterError: Spans were asked to hold data, or another model is given.
    """
    if settings.get("trace_include_sensitive_data") or "model" in settings:
        raise ParameterError("expected neither trace_include_sensitive_data=True nor model=")
    names = ("public_instructions", "conversation")
    model = DPModel(session, inner, **{k: settings.pop(k) for k in names if k in settings})
    return RunConfig(**{**settings, "model": model, "trace_include_sensitive_data": False})
