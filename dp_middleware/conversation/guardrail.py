"""Texts as a proxy hands them to a guardrail: a request's are released, an answer's restored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dp_middleware import _validate
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.dialogue import INSTRUCTIONS, Dialogue, Said, Say
from dp_middleware.errors import ParameterError

_ROLES = {
    "user": "user",
    "system": INSTRUCTIONS,
    "developer": INSTRUCTIONS,
    "tool": "tool",
    "function": "tool",
    "assistant": "assistant",
}
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id")
_PART = ("type", "text")
_CALL = ("id", "type", "index", "function")
_FUNCTION = ("name", "arguments")
_TEXTS = ("text", "input_text", "output_text")  # kinds of parts


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What of a request is public.

    Attributes:
        system: ``"public"``: instructions pass as they are; ``"release"`` releases them.
        tools: ``"public"``: names and schemas of tools pass as they are; ``"refuse"`` raises.
        answers: What happens to an assistant's message that was not noted; see
            :meth:`Session.release_many`. Under pseudonyms calls of tools must be noted: a name
            could hide in their JSON.
    """

    system: Literal["release", "public"] = "release"
    tools: Literal["refuse", "public"] = "refuse"
    answers: Literal["refuse", "pass"] = "refuse"

    def __post_init__(self) -> None:
        _validate.one_of(("release", "public"), system=self.system)
        _validate.one_of(("refuse", "public"), tools=self.tools)
        _validate.one_of(("refuse", "pass"), answers=self.answers)


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
    known: set[Any] = set()  # ids of calls, which are the remote model's
    read = [_read(message, f"message {k}", known) for k, message in enumerate(messages)]
    calls = [call for _, made in read for call in made]
    if [text for parts, _ in read for _, text in parts] != list(texts):
        raise ParameterError("expected the texts of the messages, got others")
    if len(calls) != len(inputs.get("tool_calls") or ()):
        raise ParameterError("expected the calls of tools of the messages, got others")
    if dialogue.session.restores:
        dialogue.release([], [_of_call(call) for call in calls])  # free; refuses others
    public = INSTRUCTIONS if rules.system == "public" else None

    def build(say: Say) -> dict[str, Any]:
        sent, sent_calls = list[str](), list[dict[str, Any]]()
        for parts, made in read:
            sent += [text if role == public else say(role, text) for role, text in parts]
            sent_calls += [_call(say(*_of_call(call))) for call in made]
        return {"texts": sent, **({"tool_calls": sent_calls} if sent_calls else {})}

    return dialogue.rewritten(build, unknown=rules.answers)


def _read(message: Any, where: str, known: set[Any]) -> tuple[list[Said], list[dict[str, Any]]]:
    """The texts of a message with their role, and its calls of tools."""
    said = _fields(message, _MESSAGE, where)
    role = _ROLES.get(said.get("role") or "")
    content, calls = said.get("content"), said.get("tool_calls") or []
    if role is None or (calls and role != "assistant"):
        raise ParameterError(f"{where}: expected a user's, system, tool's or assistant's message")
    if said.get("tool_call_id") and (role != "tool" or said["tool_call_id"] not in known):
        raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
    made = [_fields(call, _CALL, where) for call in calls]
    for call in made:
        _fields(call.get("function"), _FUNCTION, where)
        known.add(call.get("id"))
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    read = [_fields(part, _PART, where) for part in parts]
    if any(part.get("type") not in _TEXTS for part in read):
        raise ParameterError(f"{where}: only text can be released; take other content out")
    return [(role, part.get("text", "")) for part in read], made


def _fields(value: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """An object's fields; any other that says something would go out as it is."""
    given = dict(value if isinstance(value, Mapping) else value.model_dump())
    if any(each and name not in names for name, each in given.items()):
        raise ParameterError(f"{where}: expected no other fields than {', '.join(names)}")
    return given


def _of_call(call: Mapping[str, Any]) -> Said:
    """All that a model is told of a call, in the session's words."""
    function = call["function"]
    said = {"id": call.get("id"), "name": function["name"], "arguments": function["arguments"]}
    return "assistant", json.dumps({"call": said}, sort_keys=True)


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
        _, remote = _of_call(call if isinstance(call, Mapping) else call.model_dump())
        said = _call(remote)
        said["function"]["arguments"] = dialogue.shown_json(said["function"]["arguments"] or "")
        calls.append(said)
        dialogue.note(remote, _of_call(said)[1])
    if calls:
        found["tool_calls"] = calls
    return found
