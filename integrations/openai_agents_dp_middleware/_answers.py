"""What is shown and remembered of a model's answers, whole or as events of a stream."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from dp_middleware.sessions.dialogue import Dialogue
from openai_agents_dp_middleware._items import forms_of

_TEXTS = ("text", "refusal")
_JSON = ("arguments",)
_JSON_DELTAS = ("response.function_call_arguments.delta",)
_ENDS = (".done", ".completed", ".incomplete")


def note(dialogue: Dialogue, item: BaseModel) -> None:
    """Remember an item of an answer, with and without its id: sessions may take it away."""
    for remote, shown in zip(forms_of(item), forms_of(restored(dialogue, item)), strict=True):
        dialogue.note(remote, shown)


def restored(dialogue: Dialogue, value: Any, name: str = "") -> Any:
    """A copy with the originals in texts and arguments.

    Args:
        dialogue: Knows them.
        value: An item, an event or a part of one.
        name: Of the field that holds it.
    """
    if not dialogue.session.restores:
        return value
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return value.model_copy(
            update={k: restored(dialogue, getattr(value, k), k) for k in fields}
        )
    if isinstance(value, list):
        return [restored(dialogue, each) for each in value]
    if isinstance(value, str) and name in _TEXTS:
        return dialogue.shown(value)
    if isinstance(value, str) and name in _JSON:
        return dialogue.shown_json(value)
    return value


class Events:
    """The events of one streamed answer; what could become a pseudonym is held back.

    Args:
        dialogue: Its conversation.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._pieces = dialogue.pieces()
        self._last: dict[tuple[int, str], Any] = {}

    def feed(self, event: Any) -> list[Any]:
        """What is shown for a further event; before the end of a text stands its rest."""
        kind = event.type
        if kind.endswith(".delta") and isinstance(event.delta, str):
            place = (event.output_index, kind)
            self._last[place] = event
            text = self._pieces.feed(place, event.delta, json=kind in _JSON_DELTAS)
            return [event.model_copy(update={"delta": text})]
        if kind == "response.output_item.done":
            note(self._dialogue, event.item)
        index = getattr(event, "output_index", None)
        rests = self._rests(index) if kind.endswith(_ENDS) else []
        return [*rests, restored(self._dialogue, event)]

    def _rests(self, index: int | None) -> list[Any]:
        """Of one item of the answer, or of all."""
        found = []
        for place in [place for place in self._last if index in (None, place[0])]:
            event = self._last.pop(place)
            if rest := self._pieces.close(place):
                found.append(event.model_copy(update={"delta": rest}))
        return found
