"""A model of the OpenAI Agents SDK that hands another one released input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from agents import Model, ModelResponse, RunConfig

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.dialogue import Dialogue
from dp_middleware.unrecorded.streams import aclosing
from openai_agents_dp_middleware._answers import Events, note, restored
from openai_agents_dp_middleware._items import released_items


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
        for item in response.output:
            note(self._dialogue, item)
        response.output = [restored(self._dialogue, item) for item in response.output]
        return response

    async def stream_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """The events of the inner model; what could become a pseudonym is held back."""
        sent = await self._released(system_instructions, input, options)
        events: AsyncIterator[Any] = self._inner.stream_response(*sent, *args, **options)
        shown = Events(self._dialogue)
        async with aclosing(events):
            async for event in events:
                for each in shown.feed(event):
                    yield each

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
