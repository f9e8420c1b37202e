"""One request and its answer: what goes out for a transcript, and what is shown of what returns."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar

from dp_middleware._forks import StaysHere
from dp_middleware.conversation.messages import Event, Message, ToolCall
from dp_middleware.conversation.notebook import Notebook
from dp_middleware.errors import guarded, without_text
from dp_middleware.privacy.releases import Receipt, Release

T = TypeVar("T")

# names of the tools that are called with originals; others are called with pseudonyms
Tools = Collection[str] | Literal["all"]
_log = logging.getLogger("dp_middleware.conversation")
_WORDS = ("text", "content", "refusal", "thinking")  # of what else an answer says
_ARGUMENTS = ("tool_kwargs", "arguments", "args", "input", "partial_json")  # of a call
_NOTE = "the note of an answer"
RESTORATION = "the restoration"


# makes what feeds and closes as :class:`Growing`: of JSON or not, and for a reader or not
Restorers = Callable[[bool, bool], Any]
# shows a text at a place in nested fields; ``True``: it is the arguments of a call
Show = Callable[[Hashable, str, bool], str]


class Growing:
    """A text in pieces: what was said, and what was restored of it, if anything was."""

    def __init__(self, way: Any = None) -> None:
        self.said = self.shown = ""
        self.restores = way is not None
        self._feed: Callable[..., str] = str if way is None else way.feed
        self._close: Callable[..., str] = str if way is None else way.close

    def feed(self, piece: str) -> str:
        """Returns what is certain after a further piece."""
        self.said += piece
        return self._add(self._feed, piece)

    def close(self) -> str:
        """Returns the rest."""
        return self._add(self._close)

    def _add(self, make: Callable[..., str], *piece: str) -> str:
        try:
            shown = make(*piece)
            self.shown += shown
            return shown
        except Exception as error:
            failure = without_text(error, RESTORATION)
        raise failure.with_traceback(None)


def each_in(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a copy of nested dicts, lists and tuples with what a function makes of the leaves."""
    if isinstance(value, Mapping):
        return {each_in(key, change): each_in(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [each_in(part, change) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return change(value)


@dataclass(frozen=True, kw_only=True)
class Exchange(StaysHere):
    """What goes out for a transcript, and the way back of its answer.

    An answer gets back the originals of those pseudonyms alone that stand in what was sent for it.
    """

    sent: tuple[Message, ...]  # what goes out, message by message
    releases: tuple[Release, ...]  # of its events
    receipt: Receipt  # what was charged
    conversation: str  # its public name
    _events: tuple[Event, ...] = field(repr=False)
    _notebook: Notebook = field(repr=False)
    _restorers: Restorers | None = field(repr=False)
    _tools: Tools = field(repr=False)
    _warned: set[str] = field(repr=False)
    _used: tuple[str, ...] = field(repr=False)

    @property
    def restores(self) -> bool:
        """Whether what is shown of an answer differs from it."""
        return self._restorers is not None

    def restorer(self, *, json: bool = False, shown: bool = True) -> Growing:
        """Makes a restorer for a text in pieces, or for JSON, which stays JSON; it never waits.

        Where it is ``shown``, pseudonyms stay in addresses of hosts that are not in the request.
        """
        return Growing(self._restorers and self._restorers(json, shown))

    def tool_restorer(self, tool: str) -> Growing:
        """Makes a restorer for the arguments of a call in pieces, as far as the tool gets any."""
        gives = self.gives_originals(tool)
        return self.restorer(json=True, shown=False) if gives else Growing()

    def restore(self, text: str, *, json: bool = False, shown: bool = True) -> str:
        """Returns a text of the answer with the originals. **Private**."""
        growing = self.restorer(json=json, shown=shown)
        return growing.feed(text) + growing.close()

    def restore_value(self, value: Any, *, shown: bool = True) -> Any:
        """Returns a copy of nested dicts, lists and tuples with the originals."""

        def restored(leaf: Any) -> Any:
            if isinstance(leaf, bool) or not isinstance(leaf, str | int | float):
                return leaf
            return json.loads(self.restore(json.dumps(leaf), json=True, shown=shown))

        return each_in(value, restored) if self.restores else value

    def restore_fields(
        self,
        value: Any,
        words: Collection[str] | None = None,
        *place: Hashable,
        tool: str = "",
        name: str = "",
        show: Show | None = None,
    ) -> Any:
        """Returns a copy of nested dicts, lists and models of pydantic with the originals.

        ``words`` names the fields whose texts are restored; ``None``: all. ``place`` and ``name``
        are the field's, ``tool`` is whose arguments may be in it, unless they stand beside another
        name. ``show`` restores the texts; default each as a whole.
        """
        if not self.restores:
            return value
        is_text = isinstance(value, str)
        if name in _ARGUMENTS and (tool or words is not None):
            if show is None or not is_text:
                return self.arguments(tool, value)
            return show(place, value, True) if self.gives_originals(tool) else value
        again = partial(self.restore_fields, show=show)
        if hasattr(type(value), "model_fields"):
            fields = {field: getattr(value, field) for field in type(value).model_fields}
            return value.model_copy(update=again(fields, words, *place, tool=tool))
        if isinstance(value, Mapping):
            tool = str(value.get("name") or value.get("tool_name") or tool)
            return {k: again(x, words, *place, k, tool=tool, name=k) for k, x in value.items()}
        if isinstance(value, list):
            parts = enumerate(value)
            return [again(x, words, *place, k, tool=tool, name=name) for k, x in parts]
        if not is_text or (words is not None and name not in words):
            return value
        return self.restore(value) if show is None else show(place, value, False)

    def gives_originals(self, tool: str) -> bool:
        """Tells whether a tool is called with originals; warns once of each that is not."""
        if self._tools == "all" or tool in self._tools or not self.restores:
            return True
        if tool not in self._warned:
            self._warned.add(tool)
            _log.warning(
                "the tool %r is called with pseudonyms; tools=[%r] gives it originals", tool, tool
            )
        return False

    def arguments(self, tool: str, arguments: T) -> T:
        """Returns what a tool is called with: JSON as text, or nested values."""
        if not self.gives_originals(tool):
            return arguments
        is_text = isinstance(arguments, str)
        restore: Any = partial(self.restore, json=True) if is_text else self.restore_value
        restored: T = restore(arguments, shown=False)
        return restored

    def shown(self, remote: Message) -> Message:
        """Returns what the user is shown of an answer, and what its tools are called with."""
        if not self.restores:
            return remote
        calls = (c._replace(arguments=self.arguments(c.name, c.arguments)) for c in remote.calls)
        extra = self.restore_fields(remote.extra, _WORDS)
        texts = tuple(map(self.restore, remote.texts))
        return replace(remote, texts=texts, calls=tuple(calls), extra=extra)

    def answer(self, remote: Message, *, left: bool = False) -> Message:
        """Notes an answer, as :meth:`note` does, and returns what is shown of it."""
        shown = self.shown(remote)
        self.note(remote, shown, left=left)
        return shown

    def note(self, remote: Message, shown: Message, *, left: bool = False) -> None:
        """Notes an answer by its words, by its id, and by what was restored of it."""
        try:  # as `guarded` does, in fewer files
            words = remote.words()
            self._notebook.note_words((words, shown.words()), words, left)
            if isinstance(remote.id, str):
                self._notebook.note_id(remote.id, words, left)
            return
        except Exception as error:
            failure = without_text(error, _NOTE)
        raise failure.with_traceback(None)

    def note_extracted(self, said: tuple[Message, Message], *, left: bool = False) -> None:
        """Notes an answer, and what a local model made of it to be sent again."""

        def work() -> None:
            words, local = said[0].words(), replace(said[1], id=None)
            self._notebook.note_words((words,), words, left)
            self._notebook.note_place((*self._events, local.event), words, left)

        guarded(work, what=_NOTE)

    def keep(self, reference: str) -> None:
        """Lets an exchange with this public reference go on here, without its transcript."""
        guarded(self._notebook.keep, reference, self._used, what=_NOTE)


class Reply(StaysHere):
    """An answer in pieces at places; those of calls can be sorted, and are their order."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._growing: dict[Hashable, Growing] = {}
        self._calls: dict[Any, tuple[str, str]] = {}  # their ids and tools

    def text(self, piece: str, place: Hashable = "text", *, json: bool = False) -> str:
        """Returns what is shown after a piece of a text, or, at ``"refusal"``, of a refusal."""
        if place not in self._growing:
            self._growing[place] = self._exchange.restorer(json=json)
        return self._growing[place].feed(piece)

    def call(self, place: Hashable, call_id: str, tool: str) -> None:
        """Begins a call of a tool."""
        self._growing[place] = self._exchange.tool_restorer(tool)
        self._calls[place] = call_id, tool

    def has_call(self, place: Hashable) -> bool:
        """Tells whether a call has begun here."""
        return place in self._calls

    def arguments(self, piece: str, place: Hashable) -> str:
        """Returns what the tool is given after a further piece of the arguments of a call."""
        return self._growing[place].feed(piece)

    def close(self, place: Hashable) -> str:
        """Returns what was held back of the text or the arguments at a place."""
        return self._growing[place].close() if place in self._growing else ""

    def close_all(self) -> dict[Hashable, str]:
        """Returns what was held back, by places, where there is any; texts first."""
        texts = [place for place in self._growing if place not in self._calls]
        return {p: rest for p in (*texts, *sorted(self._calls)) if (rest := self.close(p))}

    def said(self, which: Literal["said", "shown"] = "said", **fields: Any) -> Message:
        """Returns the answer until now, as it was said or shown, with further ``fields`` of it."""
        texts = {place: getattr(growing, which) for place, growing in self._growing.items()}
        calls = tuple(ToolCall(*self._calls[p], texts.pop(p)) for p in sorted(self._calls))
        refusal, extra = texts.pop("refusal", ""), fields.pop("extra", {})
        extra = {**extra, "refusal": refusal} if refusal else extra
        text = "".join(texts.values())
        return Message(role="assistant", texts=(text,), calls=calls, extra=extra, **fields)

    def end(self, *, left: bool = False, **fields: Any) -> None:
        """Notes the answer; ``left``: it was given up, and nothing may be waited for."""
        self._exchange.note(self.said(**fields), self.said("shown", **fields), left=left)
