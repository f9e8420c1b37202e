"""Messages in no framework's form, and the events that a session is told of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import PART, Detector

T = TypeVar("T")


class Once(Enum):
    """In place of an event id."""

    ONCE = "once"


# the event of a text that will never come again: a new release, kept in no memo
ONCE: Final = Once.ONCE
Item = tuple[str | Literal[Once.ONCE] | None, str, str]


class Event(NamedTuple):
    """A message as a session is told of it."""

    id: str | Once | None  # public; ``None`` where it is known by its place
    role: str
    text: str  # private, unless it is a known answer's
    aside: bool = False  # whether it stands outside of the order of messages


# also a message as chat clients keep it: ``{"role": ..., "content": ...}``, maybe with an id
AnyItem = Item | Event | Mapping[str, Any]
Role = Literal["system", "user", "assistant", "tool"]

ROLES = get_args(Role)
_PRIVATE = tuple(role for role in ROLES if role != "assistant")
_OTHER_ROLES = {"developer": "system", "function": "tool"}
_MARK = "dp_middleware said"


def checked(item: Any) -> Event:
    """Returns an event, also of a dict; ParameterError, which quotes nothing, for others."""
    if isinstance(item, Event):
        return item
    if isinstance(item, Mapping):  # of other keys nothing is ever sent
        if item.get("tool_calls") or item.get("function_call"):
            raise ParameterError("expected messages of text, got one that calls tools")
        item = item.get("id"), role_of(item.get("role")), item.get("content")
    event_id, role, text = item
    unnamed = event_id is None or event_id is ONCE
    if not unnamed and (not isinstance(event_id, str) or not event_id):
        raise ParameterError("expected an event id of type str, not empty")
    if role not in ROLES:
        raise ParameterError(f"expected a role in {ROLES}")
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    return Event(event_id, role, text.replace(PART, " "))


def role_of(name: object) -> Role | None:
    """Returns the role that clients call by a name, or ``None``."""
    role: Any = _OTHER_ROLES.get(str(name), name)
    return role if role in ROLES else None


def by_role(scope: Detector | Mapping[str, Detector] | None) -> dict[str, Detector]:
    """The detector of each private role; one that is missing is released whole."""
    if scope is None:
        return {}
    detectors = dict(scope) if isinstance(scope, Mapping) else dict.fromkeys(_PRIVATE, scope)
    if not set(detectors) <= set(_PRIVATE) or not all(map(callable, detectors.values())):
        raise ParameterError(f"expected scope= as a function to spans, or one each of {_PRIVATE}")
    return detectors


class ToolCall(NamedTuple):
    """A call of a tool that a remote model asked for."""

    id: str
    name: str  # of the tool
    arguments: str  # JSON

    @classmethod
    def of_openai(cls, call: Mapping[str, Any]) -> ToolCall:
        """Reads a call as OpenAI spells it."""
        function = call["function"]
        return cls(call["id"], function["name"], function["arguments"])

    def to_openai(self) -> dict[str, Any]:
        """Spells it as OpenAI does."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, kw_only=True)
class Message(StaysHere):
    """One message of a transcript.

    Attributes:
        role: Whose. An assistant's message must be known as a remote answer.
        texts: Its parts, released as one text; of an assistant what it said.
        calls: Of tools, by an assistant.
        extra: What else a model is told again of its answer, such as a refusal: JSON-ready.
        id: Of its event; ``None`` is known by its place, :data:`ONCE` never comes again.
        aside: Stands outside of the order of messages, as instructions do: known by its ``id``, or
            by its very text.
        public: Goes out as it is, and is no event.
    """

    role: Role
    texts: tuple[str, ...] = field(default=(), repr=False)
    calls: tuple[ToolCall, ...] = field(default=(), repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str | Once | None = None
    aside: bool = False
    public: bool = False

    @property
    def text(self) -> str:
        """All that it says."""
        return "".join(self.texts)

    @property
    def event(self) -> Event:
        """What a session is told of it."""
        if self.role == "assistant":
            text = self.words()
        else:
            text = PART.join(text.replace(PART, " ") for text in self.texts)
        return Event(self.id, self.role, text, self.aside)

    def words(self) -> str:
        """Spells all that an assistant says as one text: its text, or JSON if there is more.

        So is a text that could be taken for such JSON. Letters stay: a detector may look for names.
        """
        if not (self.calls or self.extra or _MARK in self.text):
            return self.text
        calls = [[call.id, call.name, _canonical(call.arguments)] for call in self.calls]
        said = [self.text, calls, self.extra]
        return json.dumps({_MARK: said}, ensure_ascii=False, sort_keys=True)

    def released(self, text: str) -> Message:
        """Makes the copy with what goes out for its event; raises as :func:`of_words`."""
        if self.role == "assistant":
            return replace(of_words(text), id=self.id)
        parts = text.split(PART) + [""] * (len(self.texts) - 1)  # a whole text has no parts
        return replace(self, texts=tuple(parts[: len(self.texts)]))


# gives what goes out for a message of a transcript
Cross = Callable[[Message], Message]


def transcript_of(copy: Callable[[Cross], object]) -> list[Message]:
    """Returns the messages that cross while a copy of a framework's messages is made."""
    transcript: list[Message] = []

    def read(message: Message) -> Message:
        transcript.append(message)
        return message

    copy(read)
    return transcript


def copy_of(copy: Callable[[Cross], T], sent: Iterable[Message]) -> T:
    """Makes the copy that goes out, the same way again."""
    rest = iter(sent)
    made = copy(lambda _: next(rest))
    if next(rest, None) is not None:
        raise ParameterError("expected messages that stay as they are during a call")
    return made


def of_words(words: str) -> Message:
    """Returns the assistant's message of :meth:`Message.words`; ParameterError: there is none."""
    if _MARK not in words:
        return Message(role="assistant", texts=(words,))
    try:
        text, calls, extra = json.loads(words)[_MARK]
        calls = tuple(ToolCall(*call) for call in calls)
    except (ValueError, TypeError, KeyError, RecursionError):
        calls = None
    if calls is None:
        raise ParameterError("expected an assistant's message that can be released, got another")
    return Message(role="assistant", texts=(text,), calls=calls, extra=extra)


def is_structured(words: str) -> bool:
    """Whether words of an answer are more than a text."""
    return _MARK in words


def _canonical(arguments: str) -> str:
    """JSON is spelled in one way, as clients parse and spell it anew; other text stays."""
    try:
        spelled = json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
        spelled.encode()  # lone surrogates may stand in it as escapes
        return spelled
    except (ValueError, RecursionError):
        return arguments


def as_json(text: str) -> str:
    """Returns a dict or list that Python printed, as of a tool, as JSON; any other text as it is.

    Only for pseudonyms: a guarantee for tokens does not foresee that one may end a literal.
    """
    if text.lstrip()[:1] not in ("{", "[") or is_json(text):
        return text
    try:
        spelled = json.dumps(ast.literal_eval(text.strip()), ensure_ascii=False, allow_nan=False)
        spelled.encode()
        return spelled
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def printed(message: Message) -> Message:
    """Returns a message; of a tool's, with texts as :func:`as_json` reads them."""
    if message.role != "tool":
        return message
    return replace(message, texts=tuple(map(as_json, message.texts)))


def is_json(text: str) -> bool:
    """Tells whether a whole text is a JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# what of a reasoning item is sent again
THOUGHT = ("id", "summary", "content", "encrypted_content")


def answer_of(item: Mapping[str, Any]) -> Message | None:
    """Returns all that a model is told again of an item of its answer; ``None``: it is none."""
    kind, content = item.get("type", "message"), item.get("content") or ()
    if kind == "function_call":
        call = ToolCall(item["call_id"], item["name"], item["arguments"])
        return Message(role="assistant", calls=(call,))
    if kind == "reasoning":
        kept = {name: item[name] for name in THOUGHT if item.get(name) is not None}
        return Message(role="assistant", extra={"type": kind, **kept})
    if kind != "message" or item.get("role") != "assistant":
        return None
    parts = [{"text": content}] if isinstance(content, str) else content
    parts = [part for part in parts if isinstance(part, Mapping)]
    refusal = "".join(part.get("refusal") or "" for part in parts)
    texts = tuple(part.get("text") or "" for part in parts)
    return Message(role="assistant", texts=texts, extra={"refusal": refusal} if refusal else {})


def item_of(given: Mapping[str, Any], sent: Message) -> dict[str, Any]:
    """Makes the item for the model, from the one that was given and what goes out for it."""
    if sent.role == "assistant":
        for call in sent.calls:
            said = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
            return {"type": "function_call", **said}
        if "type" in sent.extra:
            return dict(sent.extra)
        return {"role": "assistant", "content": sent.text or sent.extra.get("refusal", "")}
    field = "output" if sent.role == "tool" else "content"
    content: Any = sent.text
    if not isinstance(given[field], str):
        content = [{"type": "input_text", "text": text} for text in sent.texts]
    if sent.role == "tool":
        return {"type": "function_call_output", "call_id": given["call_id"], "output": content}
    return {"role": given["role"], "content": content}
