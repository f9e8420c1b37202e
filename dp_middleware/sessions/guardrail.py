"""Texts as a proxy hands them to a guardrail: a request's are released, an answer's restored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.boundary import guarded
from dp_middleware.sessions.dialogue import Dialogue, Said
from dp_middleware.sessions.transcript import Unknown

_ROLES = {
    "user": "user",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "assistant": "assistant",
}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What of a request is public.

    Attributes:
        tools: ``"public"``: names and schemas of tools pass as they are; ``"refuse"`` raises.
        answers: What happens to an assistant's message that was not noted; see
            :meth:`Session.release_many`.
    """

    tools: Literal["refuse", "public"] = "refuse"
    answers: Unknown = "refuse"

    def __post_init__(self) -> None:
        if self.tools not in ("refuse", "public") or self.answers not in ("refuse", "pass"):
            raise ParameterError(
                "expected tools='refuse' or 'public', and answers='refuse' or 'pass'"
            )


def release_request(dialogue: Dialogue, inputs: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """What may be sent in the place of a request's texts and calls of tools.

    Args:
        dialogue: Its conversation.
        inputs: ``texts`` in the order of the request, and, for a chat, ``structured_messages``, the
            whole transcript in OpenAI's form, which tells their roles. Without it they are texts
            that never come again, each a new release.
        rules: What is public.

    Returns:
        ``texts``, and ``tool_calls`` where there are any, as many as in ``inputs``.

    Raises:
        ParameterError: Images, tools that are not public, another content than text, or messages
            that do not have these texts. Nothing was charged for.
        DPMiddlewareError: The release failed. Holds no text.
    """
    if inputs.get("images"):
        raise ParameterError("images cannot be released; take them out of the request")
    if inputs.get("tools") and rules.tools != "public":
        raise ParameterError(
            "tools are sent as they are: say tools='public' in the guardrail's configuration"
        )
    texts, messages = list(inputs.get("texts") or ()), inputs.get("structured_messages")
    if not all(isinstance(text, str) for text in texts):
        raise ParameterError("expected texts of type str")
    if messages is None:
        if inputs.get("tool_calls"):
            raise ParameterError("expected the messages with their calls of tools")
        return {"texts": dialogue.release_once(texts)}
    return guarded(_released_chat, dialogue, texts, messages, inputs, rules)


def _released_chat(
    dialogue: Dialogue,
    texts: Sequence[str],
    messages: Sequence[Any],
    inputs: Mapping[str, Any],
    rules: Rules,
) -> dict[str, Any]:
    read = [_read(message, f"message {k}") for k, message in enumerate(messages)]
    said = [each for parts, calls in read for each in (*parts, *map(_of_call, calls))]
    calls = [call for _, found in read for call in found]
    if [text for parts, _ in read for _, text in parts] != list(texts):
        raise ParameterError("expected the texts of the messages, got others")
    if len(calls) != len(inputs.get("tool_calls") or ()):
        raise ParameterError("expected the calls of tools of the messages, got others")
    rests = [each for each in said if each[0] != "system"]
    told, sent = dialogue.release(
        [text for role, text in said if role == "system"], rests, unknown=rules.answers
    )
    rules_sent, others = iter(told), iter(sent)
    released: dict[str, Any] = {"texts": []}
    sent_calls = []
    for parts, found in read:
        for role, _ in parts:
            released["texts"].append(next(rules_sent if role == "system" else others))
        sent_calls += [_call(next(others)) for _ in found]
    if sent_calls:
        released["tool_calls"] = sent_calls
    return released


def _read(message: Any, where: str) -> tuple[list[Said], list[Any]]:
    """The texts of a message with their role, and its calls of tools."""
    role = _ROLES.get(_get(message, "role") or "")
    content, calls = _get(message, "content"), _get(message, "tool_calls") or []
    if role is None or (calls and role != "assistant") or _get(message, "function_call"):
        raise ParameterError(f"{where}: expected a user's, system, tool's or assistant's message")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for part in parts:
        if _get(part, "type") not in ("text", "input_text", "output_text"):
            raise ParameterError(f"{where}: only text can be released; take other content out")
    return [(role, _get(part, "text")) for part in parts], list(calls)


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _of_call(call: Any) -> Said:
    """All that a model is told of a call, in the session's words."""
    function = _get(call, "function")
    said = {"id": _get(call, "id"), "name": _get(function, "name")}
    arguments = _get(function, "arguments")
    return "assistant", json.dumps({"call": {**said, "arguments": arguments}}, sort_keys=True)


def _call(words: str) -> dict[str, Any]:
    """The call again, from what :func:`_of_call` gave for it."""
    said = json.loads(words)["call"]
    function = {"name": said["name"], "arguments": said["arguments"]}
    return {"id": said["id"], "type": "function", "function": function}


def restore_response(dialogue: Dialogue, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the client is shown of an answer, which may go out again from now on.

    Args:
        dialogue: The conversation of the request.
        inputs: ``texts`` and ``tool_calls`` of the answer, whole or as far as it went.

    Returns:
        ``texts`` and ``tool_calls``, and ``stream_holdback_chars``: how many characters at the end
        of each text may still become a pseudonym.
    """
    shown, held = list[str](), list[int]()
    for text in inputs.get("texts") or ():
        pieces = dialogue.pieces()
        certain, rest = pieces.feed("text", text), pieces.close("text")
        shown.append(certain + rest)
        held.append(len(rest))
        dialogue.note(text, shown[-1])
    found: dict[str, Any] = {"texts": shown, "stream_holdback_chars": held}
    calls = []
    for call in inputs.get("tool_calls") or ():
        said = _call(_of_call(call)[1])
        said["function"]["arguments"] = dialogue.shown_json(said["function"]["arguments"] or "")
        calls.append(said)
        dialogue.note(_of_call(call)[1], _of_call(said)[1])
    if calls:
        found["tool_calls"] = calls
    return found
