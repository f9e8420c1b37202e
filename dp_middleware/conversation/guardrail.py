"""Texts as a proxy hands them to a guardrail: a request's are released, an answer's restored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dp_middleware import _validate
from dp_middleware.conversation.exchange import Exchange, Reply, Tools
from dp_middleware.conversation.messages import ONCE, Message, ToolCall, is_structured, role_of
from dp_middleware.conversation.session import Session
from dp_middleware.errors import ParameterError, guarded

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
        public_system: Instructions that pass as they are in any case, to the letter.
        tools: ``"public"``: names and schemas of tools pass as they are; ``"refuse"`` raises.
        answers: Of an assistant's message that was not noted; see :meth:`Session.release_many`.
        originals: Names of the tools that are called with originals, or ``"all"``.
    """

    system: Literal["release", "public"] = "release"
    public_system: frozenset[str] = frozenset()
    tools: Literal["refuse", "public"] = "refuse"
    answers: Literal["refuse", "pass"] = "refuse"
    originals: Tools = ()

    def __post_init__(self) -> None:
        _validate.one_of(("release", "public"), system=self.system)
        _validate.one_of(("refuse", "public"), tools=self.tools)
        _validate.one_of(("refuse", "pass"), answers=self.answers)

    def is_public(self, message: Message) -> bool:
        """Tells whether instructions pass as they are."""
        return message.role == "system" and (
            self.system == "public" or set(message.texts) <= self.public_system
        )


def release_request(
    session: Session, inputs: Mapping[str, Any], rules: Rules, *, reference: str, whose: str
) -> tuple[dict[str, Any], Exchange]:
    """Releases a request's texts and calls of tools; also returns what restores the answer.

    ``inputs`` have ``texts`` in the order of the request, and, for a chat, the whole transcript in
    OpenAI's form, ``structured_messages``; without it they are texts that never come again. What is
    no text, or not public, or in no message, is refused before anything is charged.
    """
    if inputs.get("images"):
        raise ParameterError("images cannot be released; take them out of the request")
    if inputs.get("tools") and rules.tools != "public":
        raise ParameterError("tools are sent as they are: say tools='public' in the configuration")
    transcript = guarded(_transcript, inputs, rules)
    alone = all(message.id is ONCE for message in transcript)
    notes_calls = session.restores and rules.answers == "pass"  # their words pass alone
    exchange = session.exchange(
        transcript,
        conversation=f"call\x1f{whose}\x1f{reference}" if alone else None,
        unknown=(lambda words: not is_structured(words)) if notes_calls else rules.answers,
        tools=rules.originals,
        whose=whose,
    )
    exchange.keep(reference)
    texts = [text for message in exchange.sent if not message.calls for text in message.texts]
    calls = [call.to_openai() for message in exchange.sent for call in message.calls]
    return {"texts": texts, **({"tool_calls": calls} if calls else {})}, exchange


def _transcript(inputs: Mapping[str, Any], rules: Rules) -> list[Message]:
    texts, messages = list(inputs.get("texts") or ()), inputs.get("structured_messages")
    if not all(isinstance(text, str) for text in texts):
        raise ParameterError("expected texts of type str")
    if messages is None:
        if inputs.get("tool_calls"):
            raise ParameterError("expected the messages with their calls of tools")
        return [Message(role="user", texts=(text,), id=ONCE) for text in texts]
    known: set[Any] = set()  # ids of calls, which are the remote model's
    transcript = [
        part
        for k, message in enumerate(messages)
        for part in _read(message, f"message {k}", known, rules)
    ]
    if [text for message in transcript for text in message.texts] != texts:
        raise ParameterError("expected the texts of the messages, got others")
    calls = sum(len(message.calls) for message in transcript)
    if calls != len(inputs.get("tool_calls") or ()):
        raise ParameterError("expected the calls of tools of the messages, got others")
    return transcript


def _read(message: Any, where: str, known: set[Any], rules: Rules) -> list[Message]:
    """A message; an answer's texts and calls each by itself, as a proxy shows them."""
    said = _fields(message, _MESSAGE, where)
    role = role_of(said.get("role"))
    content, calls = said.get("content"), said.get("tool_calls") or []
    if role is None or (calls and role != "assistant"):
        raise ParameterError(f"{where}: expected a user's, system, tool's or assistant's message")
    if said.get("tool_call_id") and (role != "tool" or said["tool_call_id"] not in known):
        raise ParameterError(f"{where}: expected what a tool gave behind a call of it")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    read = [_fields(part, _PART, where) for part in parts]
    if any(part.get("type") not in _TEXTS for part in read):
        raise ParameterError(f"{where}: only text can be released; take other content out")
    texts = tuple(part.get("text", "") for part in read)
    if role != "assistant":
        own = Message(role=role, texts=texts, aside=role == "system")
        public = rules.is_public(own)
        return [replace(own, public=public)] if texts else []
    made = [_call(_fields(call, _CALL, where), where) for call in calls]
    known.update(call.id for call in made)
    answers = [Message(role=role, texts=(text,)) for text in texts]
    return [*answers, *(Message(role=role, calls=(call,)) for call in made)]


def _fields(value: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """An object's fields; any other that says something would go out as it is."""
    fields = dict(value if isinstance(value, Mapping) else value.model_dump())
    if any(entry and name not in names for name, entry in fields.items()):
        raise ParameterError(f"{where}: expected no other fields than {', '.join(names)}")
    return fields


def _call(call: Mapping[str, Any], where: str) -> ToolCall:
    function = _fields(call.get("function"), _FUNCTION, where)
    return ToolCall(call.get("id") or "", function["name"] or "", function["arguments"] or "")


def restore_response(exchange: Exchange, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Restores ``texts`` and ``tool_calls`` of an answer, which may go out again from now on.

    With ``stream_holdback_chars``: how many signs at each text's end may become a pseudonym.
    """
    shown, held = list[str](), list[int]()
    for text in inputs.get("texts") or ():
        reply = Reply(exchange)
        certain, rest = reply.text(text), reply.close("text")
        reply.end()
        shown.append(certain + rest)
        held.append(len(rest))
    restored: dict[str, Any] = {"texts": shown, "stream_holdback_chars": held}
    calls = list[dict[str, Any]]()
    for call in inputs.get("tool_calls") or ():
        fields = call if isinstance(call, Mapping) else call.model_dump()
        remote = Message(role="assistant", calls=(_call(fields, "the answer"),))
        calls += (call.to_openai() for call in exchange.answer(remote).calls)
    return {**restored, "tool_calls": calls} if calls else restored
