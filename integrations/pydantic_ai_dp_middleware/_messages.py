"""Released copies of messages; the remote model's own are known by what they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from pydantic_ai.models import ModelRequestParameters

from dp_middleware.conversation.dialogue import INSTRUCTIONS, Dialogue, Say
from dp_middleware.errors import ParameterError

_PARTS: dict[str, tuple[Any, tuple[str, ...]]] = {  # of an answer, with what is sent again
    "text": (TextPart, ("content",)),
    "thinking": (ThinkingPart, ("content", "id", "signature", "provider_name")),
    "tool-call": (ToolCallPart, ("tool_name", "args", "tool_call_id")),
}


def released_messages(
    dialogue: Dialogue, messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """What may be sent: new messages, and the parameters with released instructions.

    Raises:
        ParameterError: A part of another kind, named by its place.
        DPMiddlewareError: The release failed. Holds no text.
    """
    given = parameters.instruction_parts

    def build(say: Say) -> tuple[list[ModelMessage], ModelRequestParameters]:
        calls: dict[str, str] = {}  # names of tools by the ids of their calls, the remote model's
        parts = given and [replace(p, content=say(INSTRUCTIONS, p.content)) for p in given]
        sent = [
            _copy(message, f"message {k}", calls, say, instructed=given is None)
            for k, message in enumerate(messages)
        ]
        return sent, replace(parameters, instruction_parts=parts)

    return dialogue.rewritten(build)


def _copy(
    message: Any, where: str, calls: dict[str, str], say: Say, *, instructed: bool
) -> ModelMessage:
    if isinstance(message, ModelResponse):
        made = [part for part in message.parts if type(part) is ToolCallPart]
        calls.update({call.tool_call_id: call.tool_name for call in made})
        said = json.loads(say("assistant", words_of(message)))
        return ModelResponse(parts=[_PARTS[part.pop("kind")][0](**part) for part in said])
    if not isinstance(message, ModelRequest):
        raise ParameterError(f"{where}: expected a ModelRequest or a ModelResponse")
    parts = [_part(part, where, calls, say) for part in message.parts]
    given = message.instructions if instructed else None
    return ModelRequest(parts, instructions=None if given is None else say(INSTRUCTIONS, given))


def _part(part: Any, where: str, calls: dict[str, str], say: Say) -> Any:
    """What is to be tried again is sent as text: as such a part it would say so twice."""
    kind, retried = type(part), type(part) is RetryPromptPart
    if kind is SystemPromptPart:
        return SystemPromptPart(say(INSTRUCTIONS, part.content))
    if kind is UserPromptPart:
        if isinstance(part.content, str):
            return UserPromptPart(say("user", part.content))
        texts = [each.content if isinstance(each, TextContent) else each for each in part.content]
        if all(isinstance(text, str) for text in texts):
            return UserPromptPart([say("user", str(text)) for text in texts])
    elif retried and part.tool_name is None:
        return UserPromptPart(say("user", part.model_response()))
    elif kind is ToolReturnPart or retried:
        if calls.get(part.tool_call_id) != part.tool_name:
            raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
        if retried or not part.files:
            outcome: Any = "failed" if retried else part.outcome
            if retried:
                text = part.model_response()
            else:
                text = part.model_response_str(wrap_if_error=False)
            copy = ToolReturnPart(part.tool_name, say("tool", text), part.tool_call_id)
            return replace(copy, outcome=outcome)
    raise ParameterError(f"{where}: only text can be released; take other content out")


def words_of(message: ModelResponse) -> str:
    """All that a model is told of its answer, as JSON.

    Raises:
        ParameterError: There are parts other than text, thoughts and calls of functions.
    """
    said = []
    for part in message.parts:
        kind, names = _PARTS.get(part.part_kind, (None, ()))
        if type(part) is not kind:
            raise ParameterError("only text, thoughts and calls of an answer can be sent again")
        said.append({"kind": part.part_kind, **{name: getattr(part, name) for name in names}})
    return json.dumps(said, sort_keys=True)
