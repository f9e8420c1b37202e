"""Messages of pydantic-ai as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.errors import ParameterError

_THOUGHT = ("content", "id", "signature", "provider_name")  # what of it is sent again

Built = Callable[[Message], Any]
"""Makes a part of what goes out for it."""


class Reading:
    """The texts of a request, in their order, and how its copy is made.

    Args:
        public: Instructions and system prompts that are sent as they are, to the letter.
    """

    def __init__(self, public: frozenset[str]) -> None:
        self.transcript: list[Message] = []
        self._public = public
        self._builds: list[Built] = []
        self._tools: dict[str, str] = {}  # by the ids of their calls, the remote model's

    def instructions(self, text: str, build: Callable[[str], Any]) -> int:
        """Reads instructions; their place."""
        public = text in self._public
        message = Message(role="system", texts=(text,), aside=True, public=public)
        return self._add(message, lambda sent: build(sent.text))

    def _add(self, message: Message, build: Built) -> int:
        self.transcript.append(message)
        self._builds.append(build)
        return len(self._builds) - 1

    def message(
        self, message: Any, where: str, *, instructed: bool
    ) -> Callable[[Sequence[Any]], ModelMessage]:
        """Reads a message; from what was built for all places, the function makes its copy.

        Args:
            message: Private.
            where: Names it in errors.
            instructed: Whether its own instructions are sent.

        Raises:
            ParameterError: A part of another kind.
        """
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if type(part) is ToolCallPart]
            self._tools.update({call.tool_call_id: call.tool_name for call in calls})
            place = self._add(answer_of(message), response_of)
            return lambda built: built[place]
        if not isinstance(message, ModelRequest):
            raise ParameterError(f"{where}: expected a ModelRequest or a ModelResponse")
        places = [self._part(part, where) for part in message.parts]
        if not instructed or message.instructions is None:
            return lambda built: ModelRequest([built[place] for place in places])
        rules = self.instructions(message.instructions, str)
        return lambda built: ModelRequest([built[k] for k in places], instructions=built[rules])

    def built(self, sent: Sequence[Message]) -> list[Any]:
        """Makes the parts of all places."""
        return [build(message) for build, message in zip(self._builds, sent, strict=True)]

    def _part(self, part: Any, where: str) -> int:
        """What is to be tried again is sent as text: as such a part it would say so twice."""
        kind, retried = type(part), type(part) is RetryPromptPart
        if kind is SystemPromptPart:
            return self.instructions(part.content, SystemPromptPart)
        if kind is UserPromptPart:
            content = [part.content] if isinstance(part.content, str) else part.content
            texts = [each.content if isinstance(each, TextContent) else each for each in content]
            if all(isinstance(text, str) for text in texts):
                return self._texts("user", texts, lambda sent: UserPromptPart(_listed(part, sent)))
        elif retried and part.tool_name is None:
            text = part.model_response()
            return self._texts("user", [text], lambda sent: UserPromptPart(sent.text))
        elif kind is ToolReturnPart or retried:
            return self._result(part, where, retried)
        raise ParameterError(f"{where}: only text can be released; take other content out")

    def _texts(self, role: Role, texts: Sequence[str], build: Built) -> int:
        return self._add(Message(role=role, texts=tuple(texts)), build)

    def _result(self, part: Any, where: str, retried: bool) -> int:
        if self._tools.get(part.tool_call_id) != part.tool_name:
            raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
        if not retried and part.files:
            raise ParameterError(f"{where}: only text can be released; take other content out")
        outcome: Any = "failed" if retried else part.outcome
        said = part.model_response() if retried else part.model_response_str(wrap_if_error=False)

        def build(sent: Message) -> ToolReturnPart:
            made = ToolReturnPart(part.tool_name, sent.text, part.tool_call_id)
            return replace(made, outcome=outcome)

        return self._texts("tool", [said], build)


def _listed(part: UserPromptPart, sent: Message) -> Any:
    return sent.text if isinstance(part.content, str) else list(sent.texts)


def answer_of(message: ModelResponse) -> Message:
    """Returns all that a model is told again of its answer.

    Raises:
        ParameterError: There are parts other than text, thoughts and calls of functions.
    """
    texts, calls, thoughts = [], [], []
    for part in message.parts:
        if type(part) is TextPart:
            texts.append(part.content)
        elif type(part) is ToolCallPart:
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif type(part) is ThinkingPart:
            thoughts.append({name: getattr(part, name) for name in _THOUGHT})
        else:
            raise ParameterError("only text, thoughts and calls of an answer can be sent again")
    extra = {"thoughts": thoughts} if thoughts else {}
    return Message(role="assistant", texts=tuple(texts), calls=tuple(calls), extra=extra)


def response_of(sent: Message) -> ModelResponse:
    """Makes an answer again: its thoughts, its text, its calls."""
    parts: list[Any] = [ThinkingPart(**each) for each in sent.extra.get("thoughts", ())]
    parts += [TextPart(sent.text)] if sent.text else []
    parts += [ToolCallPart(call.name, call.arguments, call.id) for call in sent.calls]
    return ModelResponse(parts=parts)
