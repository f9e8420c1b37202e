"""A model of pydantic-ai that hands another one released messages, and shows the originals."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NoReturn

from pydantic_ai import messages as ai
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from dp_middleware.conversation.events import checked_tools, public_texts, with_outputs
from dp_middleware.conversation.exchange import Exchange, Growing, Tools
from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError

_GROWING: tuple[tuple[type, str, Any], ...] = (  # parts, where they grow, and by what
    (ai.TextPart, "content", ai.TextPartDelta),
    (ai.ThinkingPart, "content", ai.ThinkingPartDelta),
    (ai.BaseToolCallPart, "args", ai.ToolCallPartDelta),
)


class DPModel(WrapperModel):
    """Stands for a remote model: instructions, prompts and what tools give are released.

    Stored messages stay raw; the remote model's answers may go out again, no others. With
    pseudonyms, answers have the originals that stood in their own messages, and so have the
    arguments of ``tools``, also in streams. Spans of ``InstrumentedModel(inner)`` hold released
    text; those of an agent with ``instrument=`` hold raw text, also without content: leave it off.
    Definitions of tools and output types, and settings, are public.

    Args:
        session: A ``dp.Session``, a ``dp.Sanitizer`` or ``dp.Pseudonyms``.
        inner: The remote model.
        public_instructions: Instructions and system prompts that are sent as they are, to the
            letter.
        conversation: Its public name; else messages go on in the conversation that they continue.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        DPMiddlewareError: From a call: the release failed, the messages have another content than
            text, or an answer that is not the remote model's. Nothing was sent. Holds no text.
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
            raise ParameterError(f"expected inner= a model, got {type(inner).__name__}")
        super().__init__(inner)
        self._session = session_of(session)
        self._public = public_texts(public_instructions, "public_instructions")
        self._conversation, self._tools = conversation, checked_tools(tools)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"

    async def request(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> ai.ModelResponse:
        """Asks the inner model what was released."""
        exchange, sent, parameters = await self._released(messages, model_request_parameters)
        response = await self.wrapped.request(sent, model_settings, parameters)
        parts = [_fed(exchange, _restorer(exchange, p), p, closes=True) for p in response.parts]
        shown = replace(response, parts=parts)
        _note(exchange, response, shown)
        return shown

    @asynccontextmanager
    async def request_stream(
        self,
        messages: Any,
        model_settings: Any,
        model_request_parameters: Any,
        run_context: Any = None,  # the inner model is given none: it holds the raw prompt
    ) -> AsyncGenerator[StreamedResponse]:
        exchange, sent, parameters = await self._released(messages, model_request_parameters)
        async with self.wrapped.request_stream(sent, model_settings, parameters) as stream:
            shown = _ShownStream(exchange, stream)
            try:
                yield shown
            finally:
                _note(exchange, stream.get(), shown.get())

    async def count_tokens(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> RequestUsage:
        """Counts what was released: a vendor does on its servers. A request after it is free."""
        _, sent, parameters = await self._released(messages, model_request_parameters)
        return await self.wrapped.count_tokens(sent, model_settings, parameters)

    async def compact_messages(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: what a server made of a conversation cannot be released."""
        raise ParameterError("expected messages that are sent as they are, not compacted")

    async def _released(
        self, messages: list[ai.ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[Exchange, list[ai.ModelMessage], ModelRequestParameters]:
        """Makes what may be sent: new messages, and parameters with released instructions."""
        reading, given = ModelReading(self._public), parameters.instruction_parts
        rules = [reading.instructions(part.content) for part in given or ()]
        copies = [
            reading.message(message, f"message {k}", instructed=given is None)
            for k, message in enumerate(messages)
        ]
        tools = with_outputs(self._tools, [tool.name for tool in parameters.output_tools])
        exchange = await self._session.aexchange(
            reading.transcript, conversation=self._conversation, tools=tools
        )
        sent = iter(exchange.sent)
        if given is not None:
            parts = [replace(p, content=r(sent)) for p, r in zip(given, rules, strict=True)]
            parameters = replace(parameters, instruction_parts=parts)
        return exchange, [copy(sent) for copy in copies], parameters


def _note(exchange: Exchange, remote: ai.ModelResponse, shown: ai.ModelResponse) -> None:
    with suppress(ParameterError):  # an answer that cannot be sent again
        exchange.note(answer_of(remote), answer_of(shown), left=True)


def _field(piece: Any) -> str:
    """Returns where the text of a part or of a delta is; nothing: it has none."""
    for part, name, delta in _GROWING:
        if isinstance(piece, part | delta):
            return name if isinstance(piece, part) else f"{name}_delta"
    return ""


def _restorer(exchange: Exchange, part: Any) -> Growing:
    if not isinstance(part, ai.BaseToolCallPart):
        return exchange.restorer()
    return exchange.tool_restorer(part.tool_name)


def _fed(exchange: Exchange, restorer: Growing, piece: Any, *, closes: bool = False) -> Any:
    """Returns what is shown of a part or of a delta; ``closes``: it is all there is."""
    name = _field(piece)
    value = getattr(piece, name, None)
    if isinstance(value, str):
        shown = restorer.feed(value)
        return replace(piece, **{name: shown + restorer.close() if closes else shown})
    if value is None or not restorer.restores:
        return piece
    return replace(piece, **{name: exchange.restore_value(value, shown=False)})


def _inners(name: str) -> Any:
    return property(lambda stream: getattr(stream._inner, name), doc="As the remote model's.")


class _ShownStream(StreamedResponse):
    """A streamed answer with the originals; what could become a pseudonym is held back."""

    def __init__(self, exchange: Exchange, inner: StreamedResponse) -> None:
        super().__init__(inner.model_request_parameters)
        self._exchange, self._inner = exchange, inner
        self._open: dict[int, Growing] = {}  # by the place of a part

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        async for event in self._inner:
            for shown in self._events(event):
                self._parts_manager.apply_event(shown)
                yield shown

    def _events(self, event: Any) -> Iterator[Any]:
        """Yields what is shown; ends of parts, and which is the result, tells the base class."""
        if isinstance(event, ai.PartStartEvent):
            self._open[event.index] = restorer = _restorer(self._exchange, event.part)
            yield replace(event, part=_fed(self._exchange, restorer, event.part))
        elif isinstance(event, ai.PartDeltaEvent):
            restorer = self._open[event.index]
            yield replace(event, delta=_fed(self._exchange, restorer, event.delta))
        elif isinstance(event, ai.PartEndEvent):
            rest = self._open[event.index].close()
            if not rest:
                return
            [(name, delta)] = [(n, d) for part, n, d in _GROWING if isinstance(event.part, part)]
            yield ai.PartDeltaEvent(index=event.index, delta=delta(**{f"{name}_delta": rest}))

    def get(self) -> ai.ModelResponse:
        return replace(self._inner.get(), parts=self._parts_manager.get_parts())

    async def close_stream(self) -> None:
        await self._inner.cancel()

    usage, model_name, timestamp = _inners("usage"), _inners("model_name"), _inners("timestamp")
    provider_name, provider_url = _inners("provider_name"), _inners("provider_url")


_THOUGHT = ("content", "id", "signature", "provider_name")  # what of it is sent again

Sent = Iterator[Message]
"""What goes out for a transcript, in its order."""


class ModelReading:
    """Reads a request; the functions that its methods return make its copy of what goes out."""

    def __init__(self, public: Collection[str]) -> None:
        self.transcript: list[Message] = []
        self._public = public
        self._tools: dict[str, str] = {}  # by the ids of their calls, the remote model's

    def instructions(self, text: str) -> Callable[[Sent], str]:
        public = text in self._public
        return self._texts("system", [text], lambda sent: sent.text, aside=True, public=public)

    def message(
        self, message: Any, where: str, *, instructed: bool
    ) -> Callable[[Sent], ai.ModelMessage]:
        """Reads a message; ``instructed``: its own instructions are sent."""
        if isinstance(message, ai.ModelResponse):
            calls = [part for part in message.parts if type(part) is ai.ToolCallPart]
            self._tools.update({call.tool_call_id: call.tool_name for call in calls})
            self.transcript.append(answer_of(message))
            return lambda sent: response_of(next(sent))
        if not isinstance(message, ai.ModelRequest):
            raise ParameterError(f"{where}: expected a ModelRequest or a ModelResponse")
        parts = [self._part(part, where) for part in message.parts]
        if not instructed or message.instructions is None:
            return lambda sent: ai.ModelRequest([build(sent) for build in parts])
        rules = self.instructions(message.instructions)
        return lambda sent: ai.ModelRequest([b(sent) for b in parts], instructions=rules(sent))

    def _part(self, part: Any, where: str) -> Callable[[Sent], Any]:
        """Reads a part; what is to be tried again goes out as text, or it would say so twice."""
        kind, retried = type(part), type(part) is ai.RetryPromptPart
        if kind is ai.SystemPromptPart:
            rules = self.instructions(part.content)
            return lambda sent: ai.SystemPromptPart(rules(sent))
        if kind is ai.UserPromptPart:
            if isinstance(part.content, str):
                return self._texts("user", [part.content], lambda m: ai.UserPromptPart(m.text))
            texts = [t.content if isinstance(t, ai.TextContent) else t for t in part.content]
            if all(isinstance(text, str) for text in texts):
                return self._texts("user", texts, lambda m: ai.UserPromptPart(list(m.texts)))
        elif retried and part.tool_name is None:
            text = part.model_response()
            return self._texts("user", [text], lambda sent: ai.UserPromptPart(sent.text))
        elif kind is ai.ToolReturnPart or retried:
            return self._result(part, where, retried)
        raise ParameterError(f"{where}: only text can be released; take other content out")

    def _result(self, part: Any, where: str, retried: bool) -> Callable[[Sent], Any]:
        if self._tools.get(part.tool_call_id) != part.tool_name:
            raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
        if not retried and part.files:
            raise ParameterError(f"{where}: only text can be released; take other content out")
        outcome: Any = "failed" if retried else part.outcome
        said = part.model_response() if retried else part.model_response_str(wrap_if_error=False)

        def build(sent: Message) -> ai.ToolReturnPart:
            made = ai.ToolReturnPart(part.tool_name, sent.text, part.tool_call_id)
            return replace(made, outcome=outcome)

        return self._texts("tool", [said], build)

    def _texts(
        self, role: Role, texts: Sequence[str], build: Callable[[Message], Any], **fields: Any
    ) -> Callable[[Sent], Any]:
        self.transcript.append(Message(role=role, texts=tuple(texts), **fields))
        return lambda sent: build(next(sent))


def answer_of(message: ai.ModelResponse) -> Message:
    """Returns all that a model is told again of its answer."""
    texts, calls, thoughts = [], [], []
    for part in message.parts:
        if type(part) is ai.TextPart:
            texts.append(part.content)
        elif type(part) is ai.ToolCallPart:
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif type(part) is ai.ThinkingPart:
            thoughts.append({name: getattr(part, name) for name in _THOUGHT})
        else:
            raise ParameterError("only text, thoughts and calls of an answer can be sent again")
    extra = {"thoughts": thoughts} if thoughts else {}
    return Message(role="assistant", texts=tuple(texts), calls=tuple(calls), extra=extra)


def response_of(sent: Message) -> ai.ModelResponse:
    """Makes an answer again: its thoughts, its text, its calls."""
    parts: list[Any] = [ai.ThinkingPart(**thought) for thought in sent.extra.get("thoughts", ())]
    parts += [ai.TextPart(sent.text)] if sent.text else []
    parts += [ai.ToolCallPart(call.name, call.arguments, call.id) for call in sent.calls]
    return ai.ModelResponse(parts=parts)
