"""Messages of pydantic-ai as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import messages as ai

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.errors import ParameterError

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
