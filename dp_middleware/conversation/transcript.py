"""What the messages of a transcript are to a session, before any of them is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dp_middleware.conversation.memo import ReleaseMemo
from dp_middleware.conversation.names import ONCE, AnyItem, Digests, Event, checked
from dp_middleware.conversation.releaser import Origin
from dp_middleware.errors import EventRefused, ParameterError, UnknownAnswer

Unknown = Literal["refuse", "pass"] | Callable[[str], bool]
"""What happens to an assistant's text that was not noted; a function tells which ones pass."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A message that may be released.

    Attributes:
        name: Of its event, keyed.
        event: The message.
        public: What goes out for it as it is, and why; ``None`` where it is private.
    """

    name: bytes
    event: Event
    public: tuple[str, Origin] | None


def admit(
    memo: ReleaseMemo,
    digests: Digests,
    conversation: bytes,
    items: Iterable[AnyItem],
    unknown: Unknown,
    by_hand: Callable[[], bytes] | None = None,
) -> list[Admitted]:
    """Admits a transcript, if all of its messages may be released.

    Args:
        memo: Which answers were noted.
        digests: Name the messages.
        conversation: Its keyed name.
        items: As of :meth:`Session.release_many`.
        unknown: As there.
        by_hand: Makes the keyed name of another conversation whose noted answers hold here, too.

    Raises:
        EventRefused: One of them cannot be released.
        ParameterError: One of them is not what it should be, or an id is there twice.
    """
    if unknown not in ("refuse", "pass") and not callable(unknown):
        raise ParameterError(f"expected unknown in ('refuse', 'pass'), got {unknown!r}")
    events = [checked(item) for item in items]
    ids = [event.id for event in events if isinstance(event.id, str) and not event.aside]
    if len(set(ids)) < len(ids):
        raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
    names = digests.names(conversation, events)
    answers = _answers(memo, digests, conversation, events)
    if by_hand is not None and any(
        event.role == "assistant" and answer is None
        for event, answer in zip(events, answers, strict=True)
    ):
        noted = _answers(memo, digests, by_hand(), events)
        answers = [a if a is not None else b for a, b in zip(answers, noted, strict=True)]
    return [
        Admitted(name=name, event=event, public=_public(event, answer, unknown))
        for name, event, answer in zip(names, events, answers, strict=True)
    ]


def _answers(
    memo: ReleaseMemo, digests: Digests, conversation: bytes, events: Sequence[Event]
) -> list[str | None]:
    """The remote answers that events stand for: by id or place, or by their words."""
    by_name = [digests.note(name) for name in digests.names(conversation, events)]
    by_words = [
        digests.answer(conversation, event.text)
        if event.role == "assistant" and event.id is None
        else None
        for event in events
    ]
    known = memo.answers([*by_name, *by_words])
    return [
        named if named is not None else said
        for named, said in zip(known[: len(events)], known[len(events) :], strict=True)
    ]


def name_of_last_answer(digests: Digests, conversation: bytes, items: Iterable[AnyItem]) -> bytes:
    """Names an answer at the end of a transcript, by its place.

    Raises:
        ParameterError: There is none, or it has an id.
    """
    events = [checked(item) for item in items]
    if not events or events[-1][:2] != (None, "assistant"):
        raise ParameterError("expected a transcript that ends with an assistant's message, no id")
    return digests.names(conversation, events)[-1]


def _public(event: Event, answer: str | None, unknown: Unknown) -> tuple[str, Origin] | None:
    if event.role != "assistant":
        if answer is not None:
            raise EventRefused(f"expected role assistant for a noted event, got {event.role}")
        return None
    if event.id is ONCE:
        raise EventRefused("expected a private role for a text without an event, got assistant")
    if answer is not None:
        return answer, "remote-answer"
    if unknown == "pass" or (callable(unknown) and unknown(event.text)):
        return event.text, "declared-public"
    raise UnknownAnswer(
        "expected an assistant's message known from note_remote, got another; it may hold private "
        "text and is not sent"
    )
