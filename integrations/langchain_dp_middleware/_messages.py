"""Messages of LangChain as messages of a transcript, and back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

import dp_middleware as dp
from dp_middleware.conversation.messages import ONCE, Message, Once, Role, ToolCall
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import ParameterError

METADATA = "dp"  # of an answer that an adapter has shown
_REPEATED = ("tool_calls", "function_call")  # what a provider says of calls is said in them


@dataclass(frozen=True, kw_only=True)
class MessageRules:
    """What happens to what is not the text of a human or of a tool.

    Attributes:
        system: ``"pass"``: public, sent as it is; ``"release"``: private.
        ai: ``"noted"``: sent if the session knows it as a remote answer, refused otherwise;
            ``"pass"``: one that is not known is declared public and sent.
        on_other: A block that is not text (image, audio, file): ``"raise"``; ``"drop"``: not
            sent; ``"pass"``: declared public.
        templates: Public prompts: of a private text that one of them made only the values are
            released, the others whole.
        said: A public answer, which may be sent though no remote model wrote it.
    """

    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"
    templates: tuple[Template, ...] = ()
    said: str | None = None

    def __post_init__(self) -> None:
        one_of(("pass", "release"), "system", self.system)
        one_of(("noted", "pass"), "ai", self.ai)
        one_of(("raise", "drop", "pass"), "on_other", self.on_other)

    def passes(self, words: str) -> bool:
        """Tells whether an answer that is not known may be sent."""
        return self.ai == "pass" or words == self.said


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A message, or a text, of LangChain's as one of a transcript.

    Attributes:
        message: Of the transcript.
        build: Makes the copy of what goes out for it.
    """

    message: Message = field(repr=False)
    build: Callable[[Message], Any]


def read_messages(
    messages: Sequence[Any], rules: MessageRules, where: str = "the input"
) -> list[Reading]:
    """Reads a transcript; a str stays one and never comes again.

    Raises:
        ParameterError: Something in it cannot be released. Names its place, never itself.
    """
    return [
        read_text(message, rules)
        if isinstance(message, str)
        else read_message(message, rules, f"{where}, message {i}")
        for i, message in enumerate(messages)
    ]


def read_text(text: str, rules: MessageRules) -> Reading:
    """Reads a text that is no message."""
    return _private("user", ONCE, [text], lambda texts: texts[0], rules)


def read_message(x: object, rules: MessageRules, where: str) -> Reading:
    """Reads a message; its copy is built anew: metadata, artifact and author are cut.

    Raises:
        ParameterError: It cannot be released.
    """
    message = message_of(x, where)
    if isinstance(message, AIMessage):
        return Reading(message=answer_of(message), build=message_again)
    if isinstance(message, HumanMessage):
        return _read_content(message, "user", HumanMessage, rules, where)
    if isinstance(message, ToolMessage):
        public = {name: getattr(message, name) for name in ("tool_call_id", "name", "status")}
        return _read_content(message, "tool", ToolMessage, rules, where, **public)
    if isinstance(message, SystemMessage):
        kept = {k: v for k, v in message.additional_kwargs.items() if k == "__openai_role__"}
        if rules.system == "release":
            return _read_content(
                message, "system", SystemMessage, rules, where, additional_kwargs=kept
            )
        copy = SystemMessage(content=message.content, id=message.id, additional_kwargs=kept)
        return public_reading(copy)
    raise ParameterError(
        f"{where}: expected a human, tool, system or ai message, got {type(message).__name__}"
    )


def public_reading(copy: BaseMessage) -> Reading:
    """Makes a message of which nothing is private go out as this copy."""
    return Reading(message=Message(role="system", public=True), build=lambda _: copy)


def _read_content(
    message: BaseMessage,
    role: Role,
    kind: type[BaseMessage],
    rules: MessageRules,
    where: str,
    **public: Any,
) -> Reading:
    """The blocks of a message are the parts of one event: their number and order are public."""
    content, name = message.content, message.id
    if isinstance(content, str):
        texts: list[str] = [content]
        blocks: list[Any] | None = None
    else:
        blocks = [_block(block, rules, f"{where}, block {i}") for i, block in enumerate(content)]
        blocks = [block for block in blocks if block is not None]
        texts = [block[1] for block in blocks if isinstance(block, tuple)]

    def build(released: list[str]) -> BaseMessage:
        rest = iter(released)
        copy: Any = released[0] if blocks is None else [_rebuilt(b, rest) for b in blocks]
        return kind(content=copy, id=name, **public)

    return _private(role, name, texts, build, rules)


def _private(
    role: Role,
    name: str | Once | None,
    texts: Sequence[str],
    build: Callable[[list[str]], Any],
    rules: MessageRules,
) -> Reading:
    """Texts of which the values in public templates are private, mostly all; one event."""
    cut = [parts_of(rules.templates, role, text) for text in texts]
    values = tuple(value for parts in cut for value in parts.values)

    def again(sent: Message) -> Any:
        released = iter(sent.texts)
        return build([parts.joined(released) for parts in cut])

    message = Message(role=role, texts=values, id=name, public=not values)
    return Reading(message=message, build=again)


def _block(block: Any, rules: MessageRules, where: str) -> Any:
    """A text with what is made of it, a block that is public, or None for one that is dropped."""
    if isinstance(block, str):
        return "text", block
    is_text = isinstance(block, dict) and block.get("type") == "text"
    if is_text and isinstance(text := block.get("text"), str):
        return "block", text
    if rules.on_other == "drop":
        return None
    if rules.on_other == "pass":
        return block
    raise ParameterError(
        f"{where}: only text blocks can be released; take other blocks out, or set on_other="
    )


def _rebuilt(block: Any, released: Any) -> Any:
    if not isinstance(block, tuple):
        return block
    text = next(released)
    return text if block[0] == "text" else {"type": "text", "text": text}


def message_of(x: object, where: str) -> BaseMessage:
    """Makes a message of what LangChain takes for one: (role, content), or a dict of both.

    Raises:
        ParameterError: It is none; quotes nothing of it.
    """
    if isinstance(x, BaseMessage):
        return x
    if isinstance(x, tuple | dict):
        with contextlib.suppress(Exception):  # LangChain's message quotes the content
            return convert_to_messages([x])[0]
    raise ParameterError(
        f"{where}: expected a message, (role, content) or a dict with role and content"
    )


def one_of(allowed: tuple[str, ...], name: str, value: object) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise ParameterError(f"expected {name} in {allowed}, got {value!r}")


# remote answers ----------------------------------------------------------------------------------


def answer_of(message: AIMessage) -> Message:
    """Returns all that the remote model is told again of its answer."""
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], json.dumps(call["args"]))
        for call in message.tool_calls
    )
    texts, extra = tuple[str, ...](), dict[str, Any]()
    if isinstance(message.content, str):
        texts = (message.content,)
    else:
        extra["content"] = _json_of(message.content)
    if message.invalid_tool_calls:
        extra["invalid_tool_calls"] = _json_of(message.invalid_tool_calls)
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k not in _REPEATED or not calls}
    if (calls or extra) and kwargs:
        extra["additional_kwargs"] = _json_of(kwargs)
    return Message(role="assistant", texts=texts, calls=calls, extra=extra, id=message.id)


def message_again(sent: Message) -> AIMessage:
    """Makes an answer again, from what :func:`answer_of` gave for it and nothing else."""
    fields = dict(sent.extra)
    calls = [
        {"name": call.name, "args": json.loads(call.arguments), "id": call.id or None}
        for call in sent.calls
    ]
    content = fields.pop("content", sent.text)
    return AIMessage(content=content, tool_calls=calls, id=sent.id, **fields)


def _json_of(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def note_answer(
    session: dp.Session,
    remote: AIMessage,
    *,
    event_id: str | None = None,
    conversation: str = "",
) -> None:
    """Tell the session what the remote model answered: its words and its calls of tools.

    Args:
        session: Lets the answer out again in a later transcript.
        remote: The message as the **remote** model wrote it, never one that a local model
            extracted.
        event_id: Id of the message that stands for it in the transcript; default its own. One
            that has none is known by its words; see :meth:`dp.Session.note_remote`.
        conversation: Thread or session id of the call; default: any call without one.

    Raises:
        EventRefused: A message with this id was released as a private one.
        ParameterError: What an adapter has shown under pseudonyms, with the originals.
    """
    if session.restores and METADATA in remote.response_metadata:
        raise ParameterError(
            "expected the remote model's own words, got a shown answer, with originals; "
            'let the adapter note it, as PrivateHead(..., answers="note") does, or set ai="pass", '
            "which gives it pseudonyms again"
        )
    name = remote.id if event_id is None else event_id
    session.note_remote(name, answer_of(remote).words(), conversation=conversation)
