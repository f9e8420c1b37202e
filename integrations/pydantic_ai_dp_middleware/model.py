"""A model of pydantic-ai that hands another one released messages, and shows the originals."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from pydantic_ai import messages as ai
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from dp_middleware.conversation.events import checked_tools, public_texts, with_outputs
from dp_middleware.conversation.exchange import Exchange, Growing, Tools
from dp_middleware.conversation.messages import (
    Cross,
    Message,
    Role,
    ToolCall,
    copy_of,
    transcript_of,
)
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError

_GROWING: tuple[tuple[type, str, Any], ...] = (  # parts, where they grow, and by what
    (ai.TextPart, "content", ai.TextPartDelta),
    (ai.ThinkingPart, "content", ai.ThinkingPartDelta),
    (ai.BaseToolCallPart, "args", ai.ToolCallPartDelta),
)
_THOUGHT = ("content", "id", "signature", "provider_name")  # what of it is sent again


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
        public_instructions: Instructions and system prompts that are sent as they are.
        conversation: Its public name; else messages go on in the conversation that they continue.
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
        shown = replace(response, parts=[_whole(exchange, part) for part in response.parts])
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
        given = list(messages)

        def copy(cross: Cross) -> tuple[list[ai.ModelMessage], ModelRequestParameters]:
            return _Request(self._public, cross).copy(given, parameters)

        tools = with_outputs(self._tools, [tool.name for tool in parameters.output_tools])
        exchange = await self._session.aexchange(
            transcript_of(copy), conversation=self._conversation, tools=tools
        )
        return exchange, *copy_of(copy, exchange.sent)


def _note(exchange: Exchange, remote: ai.ModelResponse, shown: ai.ModelResponse) -> None:
    with suppress(ParameterError):  # an answer that cannot be sent again
        exchange.note(answer_of(remote), answer_of(shown), left=True)


def _restorer(exchange: Exchange, part: Any) -> Growing:
    is_call = isinstance(part, ai.BaseToolCallPart)
    return exchange.tool_restorer(part.tool_name) if is_call else exchange.restorer()


def _whole(exchange: Exchange, part: Any) -> Any:
    restorer = _restorer(exchange, part)
    shown, rest = _fed(exchange, restorer, part), restorer.close()
    return replace(shown, **{n: getattr(shown, n) + rest for n in _field(part)}) if rest else shown


def _field(piece: Any) -> list[str]:
    """Returns where the text of a part or of a delta is, if it has any."""
    names = [n for part, n, _ in _GROWING if isinstance(piece, part)]
    return names or [f"{n}_delta" for _, n, delta in _GROWING if isinstance(piece, delta)]


def _fed(exchange: Exchange, restorer: Growing, piece: Any) -> Any:
    """Returns what is shown of a part or of a delta."""
    for name in _field(piece):
        value = getattr(piece, name)
        if isinstance(value, str):
            return replace(piece, **{name: restorer.feed(value)})
        if value is not None and restorer.restores:
            return replace(piece, **{name: exchange.restore_value(value, shown=False)})
    return piece


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
            if (shown := self._shown(event)) is not None:
                self._parts_manager.apply_event(shown)
                yield shown

    def _shown(self, event: Any) -> Any:
        """Shows an event; ends of parts, and which is the result, tells the base class."""
        if isinstance(event, ai.PartStartEvent):
            self._open[event.index] = restorer = _restorer(self._exchange, event.part)
            return replace(event, part=_fed(self._exchange, restorer, event.part))
        if isinstance(event, ai.PartDeltaEvent):
            delta = _fed(self._exchange, self._open[event.index], event.delta)
            return replace(event, delta=delta)
        if isinstance(event, ai.PartEndEvent) and (rest := self._open[event.index].close()):
            [(name, kind)] = [(n, d) for part, n, d in _GROWING if isinstance(event.part, part)]
            return ai.PartDeltaEvent(index=event.index, delta=kind(**{f"{name}_delta": rest}))
        return None

    def get(self) -> ai.ModelResponse:
        return replace(self._inner.get(), parts=self._parts_manager.get_parts())

    async def close_stream(self) -> None:
        await self._inner.cancel()

    usage, model_name, timestamp = _inners("usage"), _inners("model_name"), _inners("timestamp")
    provider_name, provider_url = _inners("provider_name"), _inners("provider_url")


@dataclass(frozen=True)
class _Request:
    """Copies a request; every text and every answer in it crosses as a message."""

    public: Collection[str]
    cross: Cross
    tools: dict[str, str] = field(default_factory=dict)  # by the ids of their calls, the model's

    def copy(
        self, messages: Sequence[Any], parameters: ModelRequestParameters
    ) -> tuple[list[ai.ModelMessage], ModelRequestParameters]:
        given = parameters.instruction_parts
        if given is not None:  # those of the messages themselves are not sent
            parts = [replace(part, content=self._rules(part.content)) for part in given]
            parameters = replace(parameters, instruction_parts=parts)
        copies = [self._message(m, f"message {k}", given is None) for k, m in enumerate(messages)]
        return copies, parameters

    def _message(self, message: Any, where: str, instructed: bool) -> ai.ModelMessage:
        if isinstance(message, ai.ModelResponse):
            calls = [part for part in message.parts if type(part) is ai.ToolCallPart]
            self.tools.update({call.tool_call_id: call.tool_name for call in calls})
            return response_of(self.cross(answer_of(message)))
        if not isinstance(message, ai.ModelRequest):
            raise ParameterError(f"{where}: expected a ModelRequest or a ModelResponse")
        parts = [self._part(part, where) for part in message.parts]
        rules = message.instructions if instructed else None
        return ai.ModelRequest(parts, instructions=rules and self._rules(rules))

    def _part(self, part: Any, where: str) -> Any:
        """Copies a part; what is to be tried again goes out as text, or it would say so twice."""
        kind, retried = type(part), type(part) is ai.RetryPromptPart
        if kind is ai.SystemPromptPart:
            return ai.SystemPromptPart(self._rules(part.content))
        if kind is ai.UserPromptPart:
            if isinstance(part.content, str):
                return ai.UserPromptPart(*self._texts("user", part.content))
            texts = [t.content if isinstance(t, ai.TextContent) else t for t in part.content]
            if all(isinstance(text, str) for text in texts):
                return ai.UserPromptPart(list(self._texts("user", *texts)))
        elif retried and part.tool_name is None:
            return ai.UserPromptPart(*self._texts("user", part.model_response()))
        elif kind is ai.ToolReturnPart or retried:
            return self._result(part, where, retried)
        raise ParameterError(f"{where}: only text can be released; take other content out")

    def _result(self, part: Any, where: str, retried: bool) -> ai.ToolReturnPart:
        if self.tools.get(part.tool_call_id) != part.tool_name:
            raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
        if not retried and part.files:
            raise ParameterError(f"{where}: only text can be released; take other content out")
        outcome: Any = "failed" if retried else part.outcome
        said = part.model_response() if retried else part.model_response_str(wrap_if_error=False)
        [sent] = self._texts("tool", said)
        made = ai.ToolReturnPart(part.tool_name, sent, part.tool_call_id)
        return replace(made, outcome=outcome)

    def _rules(self, text: str) -> str:
        [sent] = self._texts("system", text, aside=True, public=text in self.public)
        return sent

    def _texts(self, role: Role, *texts: str, **fields: Any) -> tuple[str, ...]:
        return self.cross(Message(role=role, texts=texts, **fields)).texts


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
