"""A model of the OpenAI Agents SDK that hands another one released input; shows the originals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from typing import Any

from agents import Model, ModelResponse, RunConfig
from pydantic import BaseModel

from dp_middleware._quiet import aclosing
from dp_middleware.conversation.exchange import RESTORATION, Exchange, Tools, WayBack
from dp_middleware.conversation.response_items import answer_of
from dp_middleware.errors import ParameterError, guarded
from openai_agents_dp_middleware._items import ReleasedItems

_ARGUMENTS = "response.function_call_arguments.delta"
_ENDS = (".done", ".completed", ".incomplete")
_OURS = ("public_instructions", "conversation", "tools")


class DPModel(Model):
    """Stands for a remote model: instructions, messages and outputs of functions are released.

    The model's own answers may go out again, no others. With pseudonyms, answers have the originals
    that stood in their own input, and so have the arguments of ``tools``. Give the run the
    configuration of :func:`private_run`: spans of tools record raw text otherwise. Schemas of
    tools, handoffs and output types, settings and a stored prompt's id are public.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or ``dp.Pseudonyms``.
        inner: The remote model.
        public_instructions: Instructions that are sent as they are, to the letter.
        conversation: Its public name; else a run goes on in the conversation that its input
            continues.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        DPMiddlewareError: From a call: the release failed, the input has another content than text,
            or an answer that is not the remote model's. Nothing was sent. Holds no text.
    """

    def __init__(
        self,
        session: object,
        inner: Model,
        *,
        public_instructions: Collection[str] = (),
        conversation: str | None = None,
        tools: Tools = (),
    ) -> None:
        if isinstance(inner, DPModel) or not isinstance(inner, Model):
            raise ParameterError(f"expected inner= an agents.Model, got {type(inner).__name__}")
        self._inner = inner
        self._released = ReleasedItems(session, public_instructions, conversation, "refuse", tools)

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        """Returns the inner model's answer to what was released."""
        exchange, rules, items = await self._sent(system_instructions, input, options)
        response = await self._inner.get_response(rules, items, *args, **options)
        response.output = [_answered(exchange, item) for item in response.output]
        return response

    async def stream_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """Yields events of the inner model; what could become a pseudonym is held back."""
        exchange, rules, items = await self._sent(system_instructions, input, options)
        events: AsyncIterator[Any] = self._inner.stream_response(rules, items, *args, **options)
        shown = _ShownEvents(exchange)
        async with aclosing(events):
            async for event in events:
                for piece in shown.of(event):
                    yield piece

    async def close(self) -> None:
        """Does as the inner model."""
        await self._inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        """Does as the inner model."""
        return self._inner.get_retry_advice(request)

    async def _sent(
        self, instructions: str | None, given: Any, options: dict[str, Any]
    ) -> tuple[Exchange, str | None, list[Any]]:
        if options.get("previous_response_id") or options.get("conversation_id"):
            raise ParameterError("expected the whole transcript, got an id of one kept elsewhere")
        if (options.get("prompt") or {}).get("variables"):
            raise ParameterError("expected no variables of a stored prompt: they are not released")
        return await self._released.of(instructions, given)


class _ShownEvents:
    """The events of one answer with the originals."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._tools: dict[Any, str] = {}  # by the place of their call
        self._open: dict[Any, tuple[Any, WayBack]] = {}  # by place and kind, with the last event

    def of(self, event: Any) -> Iterator[Any]:
        """Yields what is shown of an event, behind what was held back of what it ends."""
        kind, index = event.type, getattr(event, "output_index", None)
        if kind == "response.output_item.added":
            self._tools[index] = getattr(event.item, "name", "")
        if kind.endswith(".delta") and isinstance(event.delta, str):
            _, restorer = self._open.get((index, kind)) or (None, self._restorer(kind, index))
            self._open[index, kind] = event, restorer
            shown = guarded(restorer.feed, event.delta, what=RESTORATION)
            yield event.model_copy(update={"delta": shown})
            return
        if kind == "response.output_item.done":
            _answered(self._exchange, event.item)
        for place in [at for at in self._open if kind.endswith(_ENDS) and index in (None, at[0])]:
            begun, restorer = self._open.pop(place)
            if rest := guarded(restorer.close, what=RESTORATION):
                yield begun.model_copy(update={"delta": rest})
        yield _shown(self._exchange, event, self._tools.get(index, ""))

    def _restorer(self, kind: str, index: Any) -> WayBack:
        if kind != _ARGUMENTS:
            return self._exchange.restorer()
        return self._exchange.tool_restorer(self._tools.get(index, ""))


def _answered(exchange: Exchange, item: BaseModel) -> Any:
    """An item of an answer as it is shown; it may go out again, also without its id."""
    remote = answer_of(item.model_dump(mode="json", exclude_none=True))
    if remote is not None:
        nameless = {name: value for name, value in remote.extra.items() if name != "id"}
        for extra in (remote.extra, nameless):
            exchange.answer(replace(remote, extra=extra))
    return _shown(exchange, item)


def _shown(exchange: Exchange, value: Any, tool: str = "", name: str = "") -> Any:
    """A copy of an item, an event or a part with the originals; ``name``: of its field."""
    if not exchange.restores:
        return value
    if isinstance(value, BaseModel):
        tool = getattr(value, "name", None) or tool
        fields = type(value).model_fields
        return value.model_copy(
            update={k: _shown(exchange, getattr(value, k), tool, k) for k in fields}
        )
    if isinstance(value, list):
        return [_shown(exchange, part) for part in value]
    if isinstance(value, str) and name in ("text", "refusal"):
        return exchange.restore(value)
    if isinstance(value, str) and name == "arguments":
        return exchange.arguments(tool, value)
    return value


def private_run(session: object, inner: Model, **settings: Any) -> RunConfig:
    """Makes a run's configuration: all agents use one :class:`DPModel`, and spans hold no data.

    Args:
        session: As of :class:`DPModel`, and so ``inner``.
        settings: Those of :class:`DPModel`, and of ``agents.RunConfig``.

    Raises:
        ParameterError: Spans were asked to hold data, or another model is given.
    """
    if settings.get("trace_include_sensitive_data") or "model" in settings:
        raise ParameterError("expected neither trace_include_sensitive_data=True nor model=")
    model = DPModel(session, inner, **{k: settings.pop(k) for k in _OURS if k in settings})
    return RunConfig(**{**settings, "model": model, "trace_include_sensitive_data": False})
