"""What the messages of a transcript are to a session, before any of them is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from dp_middleware.errors import EventRefused, ParameterError, UnknownAnswer
from dp_middleware.conversation.events import Origin, ReleaseMemo
from dp_middleware.conversation.names import ONCE, AnyItem, Digests, Item, checked

Unknown = Literal["refuse", "pass"] | Callable[[str], bool]
"""What happens to an assistant's text that was not noted; a function tells which ones pass."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that may be released.

    Attributes:
        name: Of its event, keyed.
        item: The message.
        public: What goes out for it as it is, and why; ``None`` where it is private.
    """

    name: bytes
    item: Item
    public: tuple[str, Origin] | None


def admit(
    memo: ReleaseMemo,
    digests: Digests,
    conversation: bytes,
    items: Iterable[AnyItem],
    unknown: Unknown,
) -> list[Message]:
    """The messages of a transcript, if all of them may be released.

    Args:
        memo: Which answers were noted.
        digests: Name the messages.
        conversation: Its keyed name.
        items: As of :meth:`Session.release_many`.
        unknown: As there.

    Raises:
        EventRefused: One of them cannot be released.
        ParameterError: One of them is not what it should be, or an id is there twice.
    """
    transcript = [checked(item) for item in items]
    ids = [event_id for event_id, _, _ in transcript if isinstance(event_id, str)]
    if len(set(ids)) < len(ids):
        raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
    names = digests.names(conversation, transcript)
    by_name = [digests.note(name) for name in names]
    by_words = [
        digests.answer(conversation, text) if event_id is None and role == "assistant" else None
        for event_id, role, text in transcript
    ]
    known = memo.answers([*by_name, *by_words])
    answers = [
        named if named is not None else said
        for named, said in zip(known[: len(names)], known[len(names) :], strict=True)
    ]
    return [
        Message(name=name, item=item, public=_public(item, answer, unknown))
        for name, item, answer in zip(names, transcript, answers, strict=True)
    ]


def name_of_last_answer(digests: Digests, conversation: bytes, items: Iterable[AnyItem]) -> bytes:
    """The name of an answer at the end of a transcript, by its place.

    Raises:
        ParameterError: There is none, or it has an id.
    """
    transcript = [checked(item) for item in items]
    if not transcript or transcript[-1][:2] != (None, "assistant"):
        raise ParameterError("expected a transcript that ends with an assistant's message, no id")
    return digests.names(conversation, transcript)[-1]


def _public(item: Item, answer: str | None, unknown: Unknown) -> tuple[str, Origin] | None:
    event_id, role, text = item
    if role != "assistant":
        if answer is not None:
            raise EventRefused(f"expected role assistant for a noted event, got {role}")
        return None
    if event_id is ONCE:
        raise EventRefused("expected a private role for a text without an event, got assistant")
    if answer is not None:
        return answer, "remote-answer"
    if unknown == "pass" or (callable(unknown) and unknown(text)):
        return text, "declared-public"
    raise UnknownAnswer(
        "expected an assistant's message known from note_remote, got another; it may hold private "
        "text and is not sent"
    )
