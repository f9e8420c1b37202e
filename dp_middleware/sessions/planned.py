"""What the messages of a transcript are to a session, before any of them is charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dp_middleware.errors import EventRefused, ParameterError, UnknownAnswer
from dp_middleware.sessions.events import Events, Origin
from dp_middleware.sessions.names import ONCE, Digests, Item, checked

Unknown = Literal["refuse", "pass"]
"""What happens to an assistant's text that was not noted."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A message that may be released.

    Attributes:
        name: Of its event, keyed.
        item: The message.
        public: What goes out for it as it is, and why; ``None`` where it is private.
    """

    name: bytes
    item: Item
    public: tuple[str, Origin] | None


def planned(
    events: Events, digests: Digests, within: bytes, items: Iterable[Item], unknown: Unknown
) -> list[Planned]:
    """The messages of a transcript.

    Args:
        events: Which answers were noted.
        digests: Name the messages.
        within: The conversation.
        items: As of :meth:`Session.release_many`.
        unknown: As there.

    Raises:
        EventRefused: One of them cannot be released.
        ParameterError: One of them is not what it should be, or an id is there twice.
    """
    transcript = [checked(item) for item in items]
    given = [event_id for event_id, _, _ in transcript if isinstance(event_id, str)]
    if len(set(given)) < len(given):
        raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
    names = digests.names(within, transcript)
    named = list(zip(names, transcript, strict=True))
    answers = events.answers([_note(digests, within, *each) for each in named])
    return [
        Planned(name=name, item=item, public=_public(item, answer, unknown))
        for (name, item), answer in zip(named, answers, strict=True)
    ]


def _note(digests: Digests, within: bytes, name: bytes, item: Item) -> bytes | None:
    """Under what an event would be noted as a remote answer."""
    event_id, role, text = item
    if isinstance(event_id, str):
        return digests.note(name)
    return digests.answer(within, text) if role == "assistant" else None


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
    if unknown == "pass":
        return text, "declared-public"
    raise UnknownAnswer(
        "expected an assistant's message known from note_remote, got another; it may hold private "
        "text and is not sent"
    )
