"""One request and its answer: what goes out for a transcript, and what is shown of what returns."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from dp_middleware._forks import StaysHere
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.messages import Message
from dp_middleware.conversation.names import Event
from dp_middleware.conversation.notebook import Notebook
from dp_middleware.conversation.saved import Saved
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.releases import Receipt, Release

T = TypeVar("T")

Tools = Collection[str] | Literal["all"]
"""Names of the tools that are called with originals; others are called with pseudonyms."""

_log = logging.getLogger("dp_middleware.conversation")
_WORDS = ("text", "content", "refusal", "thinking")  # of what else an answer says
RESTORATION = "the restoration"


class Restorer(Protocol):
    """Restores a text that comes in pieces."""

    def feed(self, piece: str) -> str:
        """Returns what is certain after a further piece."""

    def close(self) -> str:
        """Returns the rest."""


Restorers = Callable[[bool, bool], Restorer]
"""Makes a restorer: of JSON or not, and of words for a reader or not, in which addresses stay."""


class Plain:
    """Restores nothing."""

    def feed(self, piece: str) -> str:
        """Returns the piece."""
        return piece

    def close(self) -> str:
        """Returns nothing."""
        return ""


def checked_tools(tools: Any) -> Tools:
    """Returns the names of tools.

    Raises:
        ParameterError: One text other than ``"all"``, or not texts.
    """
    if tools == "all":
        return "all"
    if isinstance(tools, str) or not all(isinstance(name, str) for name in tools):
        raise ParameterError('expected tools=["name", ...], or "all", which gives all of them raw')
    return frozenset(tools)


@dataclass(frozen=True, kw_only=True)
class Exchange(StaysHere):
    """What goes out for a transcript, and the way back of its answer.

    An answer gets back the originals of those pseudonyms alone that stand in what was sent for
    this very transcript: whatever else the session knows, nobody is shown another's.

    Attributes:
        sent: What goes out, message by message.
        releases: Of its events.
        receipt: What was charged.
        conversation: Its public name.
        saved: What may be kept of its messages with ids, where that was asked for.
    """

    sent: tuple[Message, ...]
    releases: tuple[Release, ...]
    receipt: Receipt
    conversation: str
    _events: tuple[Event, ...] = field(repr=False)
    _notebook: Notebook = field(repr=False)
    _restorers: Restorers | None = field(repr=False)
    _tools: Tools = field(repr=False)
    _warned: set[str] = field(repr=False)
    _used: tuple[str, ...] = field(repr=False)
    saved: Mapping[str, Saved] = field(default_factory=dict, repr=False)

    @property
    def restores(self) -> bool:
        """Whether what is shown of an answer differs from it."""
        return self._restorers is not None

    # texts ---------------------------------------------------------------------------------------

    def restorer(self, *, json: bool = False, shown: bool = True) -> Restorer:
        """Makes a restorer for a text in pieces; it never waits.

        Args:
            json: Whether the pieces are of JSON, which stays JSON.
            shown: Whether somebody reads the text: then pseudonyms stay in addresses of hosts that
                did not stand in the request.
        """
        return Plain() if self._restorers is None else self._restorers(json, shown)

    def restore(self, text: str, *, json: bool = False, shown: bool = True) -> str:
        """Returns a text of the answer with the originals. **Private**."""
        if not self.restores:
            return text

        def work() -> str:
            restorer = self.restorer(json=json, shown=shown)
            return restorer.feed(text) + restorer.close()

        return guarded(work, what=RESTORATION)

    def restore_value(self, value: Any, *, shown: bool = True) -> Any:
        """Returns a copy of nested dicts, lists and tuples with the originals."""
        if not self.restores:
            return value
        restored = partial(self.restore_value, shown=shown)
        if isinstance(value, dict):
            return {restored(key): restored(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            values = [restored(each) for each in value]
            return values if isinstance(value, list) else tuple(values)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        return json.loads(self.restore(json.dumps(value), json=True, shown=shown))

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
        if isinstance(arguments, str):
            restored: Any = self.restore(arguments, json=True, shown=False)
            return restored  # type: ignore[no-any-return]
        value: T = self.restore_value(arguments, shown=False)
        return value

    # answers -------------------------------------------------------------------------------------

    def shown(self, remote: Message) -> Message:
        """Returns what the user is shown of an answer, and what its tools are called with."""
        if not self.restores:
            return remote
        calls = (c._replace(arguments=self.arguments(c.name, c.arguments)) for c in remote.calls)
        extra = {name: self._words(name, value) for name, value in remote.extra.items()}
        texts = tuple(map(self.restore, remote.texts))
        return replace(remote, texts=texts, calls=tuple(calls), extra=extra)

    def _words(self, name: str, value: Any) -> Any:
        """What is shown of what else an answer says: its words, no ids or signatures."""
        if isinstance(value, dict):
            return {key: self._words(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._words(name, each) for each in value]
        return self.restore(value) if isinstance(value, str) and name in _WORDS else value

    def answer(self, remote: Message, *, left: bool = False) -> Message:
        """Notes an answer, which may go out again, and returns what is shown of it.

        Args:
            remote: In the remote model's own words.
            left: It was left before its end: nothing may be waited for, a finalizer may call.
        """
        shown = self.shown(remote)
        self.note(remote, shown, left=left)
        return shown

    def note(self, remote: Message, shown: Message, *, left: bool = False) -> None:
        """Notes an answer by its words, by its id, and by what was restored of it."""
        words = remote.words()

        def work() -> None:
            self._notebook.note_words((words, shown.words()), words, left)
            if isinstance(remote.id, str):
                self._notebook.note_id(remote.id, words, left)

        guarded(work, what="the note of an answer")

    def saved_answer(self, remote: Message) -> Saved:
        """Returns what may be kept of an answer with an id, as of :attr:`saved`."""
        return self._notebook.saved(str(remote.id), remote.words())

    def note_extracted(self, *said: tuple[Message, Message], left: bool = False) -> None:
        """Notes answers in whose place a client will send what a local model made of them.

        Args:
            said: Messages of the answer, in order, each with what stands for it.
            left: As of :meth:`answer`.
        """

        def work() -> None:
            events = list(self._events)
            for remote, local in said:
                words = remote.words()
                events.append(replace(local, id=None).event)
                self._notebook.note_words((words,), words, left)
                self._notebook.note_place(events, words, left)

        guarded(work, what="the note of an answer")

    # what a later request refers to --------------------------------------------------------------

    def keep(self, reference: str) -> None:
        """Lets a later exchange go on here whose transcript does not repeat this one.

        Args:
            reference: Public, such as an upstream's id of a response.
        """
        guarded(self._notebook.keep, reference, self._used, what="the note of an answer")
