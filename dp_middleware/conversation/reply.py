"""An answer that comes in pieces: what is shown of each, and what was said in all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from dp_middleware._forks import StaysHere
from dp_middleware.conversation.boundary import without_text
from dp_middleware.conversation.exchange import RESTORATION, Exchange, Plain, Restorer
from dp_middleware.conversation.messages import Message, ToolCall


@dataclass
class _Growing:
    """A text in pieces, with what was restored of it: errors hold no text."""

    restorer: Restorer
    said: str = ""
    shown: str = ""

    def feed(self, piece: str | None) -> str:
        """Restores a further piece; ``None``: the rest."""
        try:
            shown = self.restorer.close() if piece is None else self.restorer.feed(piece)
        except Exception as error:
            failure = without_text(error, RESTORATION)
        else:
            self.said += piece or ""
            self.shown += shown
            return shown
        raise failure.with_traceback(None)


class Reply(StaysHere):
    """An answer in pieces: what is shown of each, and what was said in all.

    Places tell its texts and its calls apart; those of calls can be sorted, and are its order.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._texts: dict[Hashable, tuple[str, _Growing]] = {}
        self._calls: dict[Any, tuple[str, str, _Growing]] = {}
        self._open: dict[Hashable, _Growing] = {}

    def text(self, piece: str, place: Hashable = "text", *, json: bool = False) -> str:
        """Returns what is shown after a further piece of a text; ``json``: it is JSON.

        The place ``"refusal"`` is a refusal.
        """
        if place not in self._texts:
            kind = "refusal" if place == "refusal" else "text"
            growing = _Growing(self._exchange.restorer(json=json))
            self._texts[place] = kind, growing
            self._open[place] = growing
        return self._texts[place][1].feed(piece)

    def call(self, place: Hashable, call_id: str, tool: str) -> None:
        """Begins a call of a tool."""
        gives = self._exchange.gives_originals(tool)
        restorer = self._exchange.restorer(json=True, shown=False) if gives else Plain()
        self._open[place] = growing = _Growing(restorer)
        self._calls[place] = call_id, tool, growing

    def has_call(self, place: Hashable) -> bool:
        """Tells whether a call has begun here."""
        return place in self._calls

    def arguments(self, piece: str, place: Hashable) -> str:
        """Returns what the tool is given after a further piece of the arguments of a call."""
        return self._calls[place][2].feed(piece)

    def close(self, place: Hashable) -> str:
        """Returns what was held back of the text or the arguments at a place."""
        growing = self._open.pop(place, None)
        return "" if growing is None else growing.feed(None)

    def close_all(self) -> dict[Hashable, str]:
        """Returns what was held back, by places, where there is any; texts first."""
        ordered = [*(p for p in self._texts if p in self._open), *sorted(self._calls)]
        return {place: rest for place in ordered if (rest := self.close(place))}

    def said(self, which: Literal["said", "shown"] = "said", **fields: Any) -> Message:
        """Returns the answer until now: as the remote model said it, or as it was shown.

        Args:
            which: One of the two.
            fields: Of the message, such as its ``id``, and what else it says in ``extra``.
        """
        texts = dict.fromkeys(("text", "refusal"), "")
        for kind, growing in self._texts.values():
            texts[kind] += getattr(growing, which)
        calls = tuple(
            ToolCall(name, tool, getattr(growing, which))
            for _, (name, tool, growing) in sorted(self._calls.items(), key=itemgetter(0))
        )
        extra: Mapping[str, Any] = fields.pop("extra", {})
        if texts["refusal"]:
            extra = {**extra, "refusal": texts["refusal"]}
        return Message(role="assistant", texts=(texts["text"],), calls=calls, extra=extra, **fields)

    def end(self, *, left: bool = False, **fields: Any) -> None:
        """Notes the answer; ``left``: it was given up, and nothing may be waited for."""
        self._exchange.note(self.said(**fields), self.said("shown", **fields), left=left)
