"""What an adapter may keep of a conversation: with it another process sends the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from dp_middleware.conversation.memo import Row
from dp_middleware.conversation.messages import Event
from dp_middleware.conversation.notebook import Admitted, Digests, Notebook
from dp_middleware.conversation.releaser import Released, to_json


class Saved(TypedDict):
    """What went out for a message, or was noted of an answer. Public, and plain data.

    Attributes:
        seal: Keyed mark of the message, its conversation and what was released.
        released: JSON.
    """

    seal: str
    released: str


def saved_answer(notebook: Notebook, event_id: str, words: str) -> Saved:
    """Returns what may be kept of a remote answer."""
    name = notebook.digests.of_id(notebook.within, event_id)
    return _sealed(notebook.digests, name, Event(event_id, "assistant", words), "", to_json(words))


def save(
    digests: Digests, admitted: Sequence[Admitted], released: Sequence[Released], settings: str
) -> dict[str, Saved]:
    """Returns what may be kept of a transcript, by the ids of its messages."""
    rows = {}
    for message, release in zip(admitted, released, strict=True):
        event, public = message.event, message.public
        if isinstance(event.id, str) and (public is None or public[1] == "remote-answer"):
            text = to_json(release if public is None else public[0])
            rows[event.id] = _sealed(digests, message.name, event, settings, text)
    return rows


def load(
    notebook: Notebook,
    events: Sequence[Event],
    rows: Mapping[str, Saved],
    settings: str,
    *,
    restores: bool,
) -> Iterator[tuple[Row, bytes | None]]:
    """Yields the entries that were kept for these very events; with the mark of private ones.

    Answers are taken from under another key too, unless they hold pseudonyms, which then nobody
    could restore.
    """
    digests = notebook.digests
    for name, event in zip(digests.names(notebook.within, events), events, strict=True):
        kept = rows.get(event.id) if isinstance(event.id, str) else None
        if kept is None or "seal" not in kept:
            continue
        is_answer, released = event.role == "assistant", kept["released"]
        is_own = _sealed(digests, name, event, settings, released) == kept
        if is_own or (is_answer and not restores):
            row = (*_place(digests, name, event, settings), json.loads(released))
            yield row, None if is_answer else digests.private(name)


def _place(digests: Digests, name: bytes, event: Event, settings: str) -> tuple[bytes, bytes]:
    """The key of a named event in the memo, and the digest of its text if it is private."""
    if event.role == "assistant":
        return digests.note(name), b""
    key = digests.event(name, settings).released
    return key, digests.of("text", key, event.role, event.text)


def _sealed(digests: Digests, name: bytes, event: Event, settings: str, released: str) -> Saved:
    place = _place(digests, name, event, settings)
    return Saved(seal=digests.of("saved", *place, released).hex(), released=released)
