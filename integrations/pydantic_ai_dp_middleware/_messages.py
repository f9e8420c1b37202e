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

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.boundary import guarded
from dp_middleware.sessions.dialogue import Dialogue, Said

_PARTS: dict[str, tuple[Any, tuple[str, ...]]] = {  # of an answer, with what is sent again
    "text": (TextPart, ("content",)),
    "thinking": (ThinkingPart, ("content", "id", "signature", "provider_name")),
    "tool-call": (ToolCallPart, ("tool_name", "args", "tool_call_id")),
}

Calls = dict[str, str]
"""Names of tools by the ids of their calls, both in the remote model's words."""


def released_messages(
    dialogue: Dialogue, messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """What may be sent: new messages, and the parameters with released instructions.

    Raises:
        ParameterError: A part of another kind, named by its place.
        DPMiddlewareError: The release failed. Holds no text.
    """
    calls: Calls = {}
    given = parameters.instruction_parts
    rules, history = [part.content for part in given or ()], list[Said]()
    for k, message in enumerate(messages):
        system, said = guarded(_read, message, f"message {k}", calls, given is None)
        rules += system
        history += said
    told, sent = (iter(texts) for texts in dialogue.release(rules, history))
    parts = given and [replace(part, content=next(told)) for part in given]
    built = [_built(message, told, sent, given is None) for message in messages]
    return built, replace(parameters, instruction_parts=parts)


def _read(
    message: ModelMessage, where: str, calls: Calls, instructed: bool
) -> tuple[list[str], list[Said]]:
    """The instructions in a message, and its other texts with their roles."""
    if isinstance(message, ModelResponse):
        calls.update(
            {p.tool_call_id: p.tool_name for p in message.parts if type(p) is ToolCallPart}
        )
        return [], [("assistant", words_of(message))]
    if not isinstance(message, ModelRequest):
        raise ParameterError(f"{where}: expected a ModelRequest or a ModelResponse")
    system, said = list[str](), list[Said]()
    for part in message.parts:
        if type(part) is SystemPromptPart:
            system.append(part.content)
        else:
            said += _texts(part, where, calls)
    if instructed and message.instructions is not None:
        system.append(message.instructions)
    return system, said


def _texts(part: Any, where: str, calls: Calls) -> list[Said]:
    if type(part) is UserPromptPart:
        content = [part.content] if isinstance(part.content, str) else part.content
        texts = [each.content if isinstance(each, TextContent) else each for each in content]
        if all(isinstance(text, str) for text in texts):
            return [("user", str(text)) for text in texts]
    elif type(part) is RetryPromptPart and part.tool_name is None:
        return [("user", part.model_response())]
    elif type(part) in (ToolReturnPart, RetryPromptPart):
        if calls.get(part.tool_call_id) != part.tool_name:
            raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
        if type(part) is RetryPromptPart:
            return [("tool", part.model_response())]
        if not part.files:
            return [("tool", part.model_response_str(wrap_if_error=False))]
    raise ParameterError(f"{where}: only text can be released; take other content out")


def _built(message: ModelMessage, told: Any, sent: Any, instructed: bool) -> ModelMessage:
    if isinstance(message, ModelResponse):
        return _answer(next(sent))
    parts = [_part(part, told, sent) for part in message.parts]
    has = instructed and message.instructions is not None
    return ModelRequest(parts=parts, instructions=next(told) if has else None)


def _part(part: Any, told: Any, sent: Any) -> Any:
    """What is to be tried again is sent as text: as such a part it would say so twice."""
    if isinstance(part, SystemPromptPart):
        return SystemPromptPart(next(told))
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        return UserPromptPart([next(sent) for _ in part.content])
    if isinstance(part, UserPromptPart) or part.tool_name is None:
        return UserPromptPart(next(sent))
    outcome: Any = getattr(part, "outcome", "failed")
    return ToolReturnPart(
        part.tool_name, next(sent), tool_call_id=part.tool_call_id, outcome=outcome
    )


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


def _answer(words: str) -> ModelResponse:
    """The message again, from what :func:`words_of` gave for it and nothing else."""
    said = json.loads(words)
    return ModelResponse(parts=[_PARTS[part.pop("kind")][0](**part) for part in said])
