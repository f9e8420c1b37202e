"""What an adapter may keep of a conversation: with it another process sends the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

from dp_middleware.conversation.names import Digests, Event
from dp_middleware.conversation.releaser import Released, to_json
from dp_middleware.conversation.transcript import Admitted


class Saved(TypedDict):
    """What went out for a message, or was noted of an answer. Public, and plain data.

    Attributes:
        seal: Keyed mark of the message, its conversation and what is in the row.
        released: JSON.
    """

    seal: str
    released: str


class Row(NamedTuple):
    """An entry of a memo.

    Attributes:
        key: Of the event.
        digest: Of the raw text.
        released: JSON.
    """

    key: bytes
    digest: bytes
    released: str


def row_of(digests: Digests, name: bytes, event: Event, settings: str, released: str) -> Row:
    """Returns the entry of a named event."""
    if event.role == "assistant":
        return Row(digests.note(name), b"", released)
    key = digests.event(name, settings).released
    return Row(key, digests.of("text", key, event.role, event.text), released)


def saved(digests: Digests, row: Row) -> Saved:
    """Returns an entry as it is kept."""
    return Saved(seal=digests.of("saved", *row).hex(), released=row.released)


def save(
    digests: Digests, admitted: Sequence[Admitted], released: Sequence[Released], settings: str
) -> dict[str, Saved]:
    """Returns what may be kept of a transcript, by the ids of its messages."""
    rows = {}
    for message, each in zip(admitted, released, strict=True):
        name, event, public = message.name, message.event, message.public
        if isinstance(event.id, str) and (public is None or public[1] == "remote-answer"):
            text = to_json(each) if public is None else json.dumps(public[0])
            rows[event.id] = saved(digests, row_of(digests, name, event, settings, text))
    return rows


def load(
    digests: Digests,
    within: bytes,
    events: Sequence[Event],
    rows: Mapping[str, Saved],
    settings: str,
    *,
    restores: bool,
) -> Iterator[tuple[bytes, bytes, str, bytes | None]]:
    """Yields the entries that were kept for these very events; with the mark of private ones.

    Answers are taken from under another key too, unless they hold pseudonyms, which then nobody
    could restore.
    """
    for name, event in zip(digests.names(within, events), events, strict=True):
        kept = rows.get(event.id) if isinstance(event.id, str) else None
        if kept is not None and "seal" in kept:
            row = row_of(digests, name, event, settings, kept["released"])
            is_answer = event.role == "assistant"
            if saved(digests, row) == kept or (is_answer and not restores):
                yield *row, None if is_answer else digests.private(name)
