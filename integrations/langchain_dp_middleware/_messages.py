"""Messages of LangChain as messages of a transcript, and the copies that go out for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue

from dp_middleware.conversation.messages import ONCE, Message, Once, Role
from dp_middleware.conversation.templates import Template, parts_of
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._answers import answer_of, message_again

_EXPECTED = "expected text, a string or chat prompt value, or a list of messages"


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


@dataclass(frozen=True, kw_only=True)
class Input:
    """What is private in an input, as one transcript, and how its copy is made.

    Attributes:
        readings: Of the transcript.
        build: Makes the copy of the input from the copies of these, in their order.
    """

    readings: list[Reading]
    build: Callable[[list[Any]], Any] = list

    @property
    def transcript(self) -> list[Message]:
        """For a session."""
        return [reading.message for reading in self.readings]

    def copy(self, sent: Sequence[Message]) -> Any:
        """Makes what goes out."""
        pairs = zip(self.readings, sent, strict=True)
        return self.build([reading.build(message) for reading, message in pairs])


# inputs ------------------------------------------------------------------------------------------


def read_transcript(value: object, rules: MessageRules) -> Input:
    """Reads what chat models take."""
    return Input(readings=_read_all(messages_in(value), rules, "the input"))


def read_input(value: object, keys: tuple[str, ...] | None, rules: MessageRules) -> Input:
    """Reads what is private in an input, which is never changed; lists of messages go first.

    Args:
        value: Text, a prompt value, a list of messages, or a dict. Private.
        keys: Keys of a dict whose values are private, the others being public; None: every value
            is private and must be text.
        rules: For messages.

    Raises:
        ParameterError: Something in ``value`` cannot be released. Names its place, never itself.
    """
    if not isinstance(value, dict):
        if keys is None:
            return _read_value(value, rules, "the input")
        raise ParameterError(f"expected a dict with the keys {keys}, got {type(value).__name__}")
    for key in keys or ():
        if key not in value:
            raise ParameterError(f"expected a dict with the keys {keys}, key {key!r} is missing")
    for key, part in value.items() if keys is None else ():
        if not isinstance(part, str):
            raise ParameterError(
                f"expected text under key {key!r}, got {type(part).__name__}; name the private "
                "keys with keys=, which declares the others public"
            )
    private = [key for key in value if keys is None or key in keys]
    inputs = {key: _read_value(value[key], rules, f"key {key!r}") for key in private}
    order = sorted(inputs, key=lambda key: isinstance(value[key], str | StringPromptValue))

    def build(copies: list[Any]) -> dict[Any, Any]:
        rest = iter(copies)
        sizes = {key: len(inputs[key].readings) for key in order}
        built = {key: inputs[key].build(list(islice(rest, sizes[key]))) for key in order}
        return {**value, **built}

    return Input(readings=[r for key in order for r in inputs[key].readings], build=build)


def _read_value(value: object, rules: MessageRules, where: str) -> Input:
    """Reads one transcript, or one text."""
    if isinstance(value, str):
        return Input(readings=[_read_text(value, rules)], build=lambda copies: copies[0])
    if isinstance(value, StringPromptValue):
        reading = _read_text(value.text, rules)
        return Input(readings=[reading], build=lambda copies: StringPromptValue(text=copies[0]))
    if isinstance(value, ChatPromptValue):
        readings = _read_all(value.messages, rules, where)
        return Input(readings=readings, build=lambda copies: ChatPromptValue(messages=copies))
    if isinstance(value, list):
        return Input(readings=_read_all(value, rules, where))
    raise ParameterError(f"{where}: {_EXPECTED}, got {type(value).__name__}")


def messages_in(value: object) -> list[Any]:
    """Returns the messages, or texts that stand for one, in what chat models take.

    Raises:
        ParameterError: They take no such thing.
    """
    if isinstance(value, ChatPromptValue | list | tuple):
        return list(value.messages if isinstance(value, ChatPromptValue) else value)
    if isinstance(value, StringPromptValue | str):
        return [value if isinstance(value, str) else value.text]
    raise ParameterError(f"{_EXPECTED}, got {type(value).__name__}")


def one_of(allowed: tuple[str, ...], name: str, value: object) -> None:
    """Refuses a value that is not allowed."""
    if value not in allowed:
        raise ParameterError(f"expected {name} in {allowed}, got {value!r}")


# messages ----------------------------------------------------------------------------------------


def _read_all(messages: Sequence[Any], rules: MessageRules, where: str) -> list[Reading]:
    """Reads a transcript; a str stays one and never comes again."""
    return [
        _read_text(message, rules)
        if isinstance(message, str)
        else read_message(message, rules, f"{where}, message {i}")
        for i, message in enumerate(messages)
    ]


def _read_text(text: str, rules: MessageRules) -> Reading:
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
            options: Any = {"additional_kwargs": kept}
            return _read_content(message, "system", SystemMessage, rules, where, **options)
        copy = SystemMessage(content=message.content, id=message.id, additional_kwargs=kept)
        return public_reading(copy)
    raise ParameterError(
        f"{where}: expected a human, tool, system or ai message, got {type(message).__name__}"
    )


def public_reading(copy: BaseMessage) -> Reading:
    """Makes a message of which nothing is private go out as this copy."""
    return Reading(message=Message(role="system", public=True), build=lambda _: copy)


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
        return _private(
            role, name, [content], lambda said: kind(content=said[0], id=name, **public), rules
        )
    blocks = [_block(block, rules, f"{where}, block {i}") for i, block in enumerate(content)]
    texts = [block[1] for block in blocks if isinstance(block, tuple)]

    def build(released: list[str]) -> BaseMessage:
        rest = iter(released)
        copies = [_rebuilt(block, rest) for block in blocks if block is not None]
        return kind(content=copies, id=name, **public)

    return _private(role, name, texts, build, rules)


def _private(
    role: Role,
    name: str | Once | None,
    texts: Sequence[str],
    build: Callable[[list[str]], Any],
    rules: MessageRules,
) -> Reading:
    """Texts of which the values in public templates are private, mostly all; one event."""
    if not rules.templates and texts:
        message = Message(role=role, texts=tuple(texts), id=name)
        return Reading(message=message, build=lambda sent: build(list(sent.texts)))
    cut = [parts_of(rules.templates, role, text) for text in texts]
    values = tuple(value for parts in cut for value in parts.values)

    def again(sent: Message) -> Any:
        released = iter(sent.texts)
        return build([parts.joined(released) for parts in cut])

    return Reading(
        message=Message(role=role, texts=values, id=name, public=not values), build=again
    )


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
