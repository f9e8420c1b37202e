"""A model of the OpenAI Agents SDK that hands another one released input; shows the originals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from agents import Model, ModelResponse, RunConfig
from pydantic import BaseModel

from dp_middleware._quiet import aclosing
from dp_middleware.conversation.events import checked_tools, public_texts
from dp_middleware.conversation.exchange import Exchange, Growing, Tools
from dp_middleware.conversation.messages import Message, Role, answer_of, item_of, printed
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "system"}
_SAID = ("output_text", "refusal")  # parts of an answer
_ARGUMENTS = "response.function_call_arguments.delta"
_ENDS = (".done", ".completed", ".incomplete")
_WORDS = ("text", "refusal")
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
        public_instructions: Instructions that are sent as they are.
        conversation: Its public name; else a run goes on in the one that its input continues.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        DPMiddlewareError: From a call, without text, and nothing was sent: content that is not
            text, an answer that is not the remote model's, or the release failed.
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
        self._inner, self._session = inner, session_of(session)
        self._public = public_texts(public_instructions, "public_instructions")
        self._options: Any = {"conversation": conversation, "tools": checked_tools(tools)}

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
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
        await self._inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner.get_retry_advice(request)

    async def _sent(
        self, instructions: str | None, given: Any, options: dict[str, Any]
    ) -> tuple[Exchange, str | None, list[Any]]:
        if options.get("previous_response_id") or options.get("conversation_id"):
            raise ParameterError("expected the whole transcript, got an id of one kept elsewhere")
        if (options.get("prompt") or {}).get("variables"):
            raise ParameterError("expected no variables of a stored prompt: they are not released")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        calls: set[str] = set()
        transcript = [_message(item, f"input item {k}", calls) for k, item in enumerate(items)]
        if self._session.restores:  # the SDK prints what a function returned
            transcript = [*map(printed, transcript)]
        if instructions is not None:
            told, public = (instructions,), instructions in self._public
            transcript.insert(0, Message(role="system", texts=told, aside=True, public=public))
        exchange = await self._session.aexchange(transcript, **self._options)
        sent = list(exchange.sent)
        rules = None if instructions is None else sent.pop(0).text
        return exchange, rules, [item_of(*pair) for pair in zip(items, sent, strict=True)]


class _ShownEvents:
    """The events of one answer with the originals."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._tools: dict[Any, str] = {}  # by the place of their call
        self._open: dict[Any, tuple[Any, Growing]] = {}  # by place and kind, with the last event

    def of(self, event: Any) -> Iterator[Any]:
        """Yields what is shown of an event, behind what was held back of what it ends."""
        kind, index = event.type, getattr(event, "output_index", None)
        if kind == "response.output_item.added":
            self._tools[index] = getattr(event.item, "name", "")
        if kind.endswith(".delta") and isinstance(event.delta, str):
            if (index, kind) in self._open:
                _, restorer = self._open[index, kind]
            elif kind == _ARGUMENTS:
                restorer = self._exchange.tool_restorer(self._tools.get(index, ""))
            else:
                restorer = self._exchange.restorer()
            self._open[index, kind] = event, restorer
            yield event.model_copy(update={"delta": restorer.feed(event.delta)})
            return
        if kind == "response.output_item.done":
            _answered(self._exchange, event.item)
        for place in [at for at in self._open if kind.endswith(_ENDS) and index in (None, at[0])]:
            begun, restorer = self._open.pop(place)
            if rest := restorer.close():
                yield begun.model_copy(update={"delta": rest})
        yield self._exchange.restore_fields(event, _WORDS, tool=self._tools.get(index, ""))


def _answered(exchange: Exchange, item: BaseModel) -> Any:
    """An item of an answer as it is shown; it may go out again, also without its id."""
    remote = answer_of(item.model_dump(mode="json", exclude_none=True))
    if remote is not None:
        nameless = {name: value for name, value in remote.extra.items() if name != "id"}
        for extra in (remote.extra, nameless):
            exchange.answer(replace(remote, extra=extra))
    return exchange.restore_fields(item, _WORDS)


def private_run(session: object, inner: Model, **settings: Any) -> RunConfig:
    """Makes a run's configuration: all agents use one :class:`DPModel`, and spans hold no data.

    ``settings`` are those of :class:`DPModel`, and of ``agents.RunConfig``. ParameterError: spans
    were asked to hold data, or another model is given.
    """
    if settings.get("trace_include_sensitive_data") or "model" in settings:
        raise ParameterError("expected neither trace_include_sensitive_data=True nor model=")
    model = DPModel(session, inner, **{k: settings.pop(k) for k in _OURS if k in settings})
    return RunConfig(**{**settings, "model": model, "trace_include_sensitive_data": False})


def _message(item: Any, where: str, calls: set[str]) -> Message:
    if not isinstance(item, Mapping):
        raise ParameterError(f"{where}: expected an item as a dict, got {type(item).__name__}")
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role in _ROLES:
        return Message(role=_ROLES[role], texts=_texts(item.get("content"), where))
    if kind == "function_call_output" and item.get("call_id") in calls:
        return Message(role="tool", texts=_texts(item.get("output"), where))
    answer = answer_of(item)
    said = item.get("content") if kind == "message" else ()
    if not isinstance(said, str) and any(part.get("type") not in _SAID for part in said or ()):
        raise ParameterError("only text and refusals of an answer can be sent again")
    if answer is None:
        raise ParameterError(f"{where}: expected a message of text, a call or its output after it")
    calls.update(call.id for call in answer.calls)
    return answer


def _texts(content: Any, where: str) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    for part in content if isinstance(content, list) else [None]:
        if not isinstance(part, Mapping) or part.get("type") != "input_text":
            raise ParameterError(f"{where}: only text can be released; take other content out")
    return tuple(part["text"] for part in content)
