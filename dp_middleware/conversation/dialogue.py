"""One conversation of a session, for adapters of frameworks whose messages have no ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.session import ONCE, Item, Session, session_of
from dp_middleware.conversation.transcript import Unknown
from dp_middleware.errors import ParameterError

T = TypeVar("T")

Said = tuple[str, str]
"""A role and a text; an assistant's text is all that the remote model is told of its answer."""

Say = Callable[[str, str], str]
"""Takes a role, of a transcript or :data:`INSTRUCTIONS`, and a text; gives what goes out for it."""

INSTRUCTIONS = "instructions"

_RESTORATION = "the restoration"


class Dialogue:
    """Releases growing transcripts, and knows the remote model's answers by what was shown of them.

    A transcript starts at its conversation's beginning: what was sent is sent again with the same
    bytes and costs nothing. Two conversations with one beginning must not share a dialogue.

    Args:
        session: A session, a sanitizer or pseudonyms.
        conversation: Its public name, needed where a memo file outlives the process; default a
            fresh one.
        public: Public instructions: one that is one of them, to the letter, goes out as it is.

    Raises:
        ParameterError: No session, or ``public`` is not a collection of texts.
    """

    def __init__(
        self, session: object, *, conversation: str | None = None, public: Collection[str] = ()
    ) -> None:
        if isinstance(public, str) or not all(isinstance(text, str) for text in public):
            raise ParameterError("expected public instructions as ['...'], a collection of texts")
        self.session: Session = session_of(session)
        self.conversation = str(uuid4()) if conversation is None else conversation
        self.public = frozenset(public)

    def release(
        self,
        instructions: Sequence[str],
        history: Sequence[Said],
        *,
        unknown: Unknown = "refuse",
    ) -> tuple[list[str], list[str]]:
        """What goes out for instructions, each an event of its own, and for a transcript.

        Args:
            instructions: Private but for the public ones; the same text is released once.
            history: Every message from the beginning, without the instructions.
            unknown: As of :meth:`Session.release_many`.

        Raises:
            EventRefused: An answer that is not the remote model's; nothing was charged for.
            DPMiddlewareError: The release failed. Holds no text.
        """
        return guarded(self._released, instructions, history, unknown)

    def _released(
        self, instructions: Sequence[str], history: Sequence[Said], unknown: Unknown
    ) -> tuple[list[str], list[str]]:
        within = self.conversation
        items: list[Item] = [(None, *said) for said in history]
        if unknown == "refuse":
            answers = [[item] for item in items if item[1] == "assistant"]
            known = iter(self.session.release_all(answers, conversation=within))
            items = [
                (None, role, next(known)[0].text if role == "assistant" else text)
                for _, role, text in items
            ]
        private = [text for text in instructions if text not in self.public]
        events: list[list[Item]] = [
            [(f"instructions {self.session.digest(text)}", "system", text)] for text in private
        ]
        *rules, sent = self.session.release_all(
            [*events, items], conversation=within, unknown=unknown
        )
        released = (rule.text for [rule] in rules)
        told = [text if text in self.public else next(released) for text in instructions]
        return told, [release.text for release in sent]

    def rewritten(self, build: Callable[[Say], T], *, unknown: Unknown = "refuse") -> T:
        """A copy of a request, made of what goes out for its texts.

        Args:
            build: Makes the copy and asks for each private text, a transcript's in its order. It is
                called twice: what it asks for at first is released, what it makes then is dropped.
            unknown: As of :meth:`Session.release_many`.

        Raises:
            EventRefused: An answer that is not the remote model's; nothing was charged for.
            DPMiddlewareError: ``build`` or the release failed, or the second time it asked for
                something else. Holds no text.
        """
        asked = list[Said]()

        def heard(role: str, text: str) -> str:
            asked.append((role, text))
            return text

        guarded(build, heard)
        told, sent = map(
            iter,
            self.release(
                [text for role, text in asked if role == INSTRUCTIONS],
                [said for said in asked if said[0] != INSTRUCTIONS],
                unknown=unknown,
            ),
        )
        again = iter(asked)

        def released(role: str, text: str) -> str:
            if next(again, None) != (role, text):
                raise ParameterError("expected a request that stays as it is while it is released")
            return next(told if role == INSTRUCTIONS else sent)

        return guarded(build, released)

    def release_once(self, texts: Sequence[str]) -> list[str]:
        """What goes out for user's texts that will never come again; in no transcript.

        Raises:
            DPMiddlewareError: The release failed. Holds no text.
        """
        once: list[Item] = [(ONCE, "user", text) for text in texts]
        released = guarded(lambda: self.session.release_many(once, conversation=self.conversation))
        return [release.text for release in released]

    # answers ------------------------------------------------------------------------------------

    def note(self, remote: str, shown: str, *, left: bool = False) -> None:
        """Remember an answer, by itself and by what was shown of it, wherever that stands later.

        Args:
            remote: The remote model's own words.
            shown: The same with the originals of pseudonyms. Private.
            left: The stream was given up: nothing may be waited for, a finalizer may call.
        """
        guarded(self._note, remote, shown, left, what="the note of an answer")

    def _note(self, remote: str, shown: str, left: bool) -> None:
        if shown != remote:
            place: list[Item] = [(None, "assistant", shown)]
            self._note_at(remote, left, transcript=place)
        self._note_at(remote, left)

    def _note_at(self, remote: str, left: bool, **place: Any) -> None:
        if left:
            self.session.note_left(remote, conversation=self.conversation, **place)
        else:
            self.session.note_remote(None, remote, conversation=self.conversation, **place)

    def shown(self, text: str) -> str:
        """What the user is shown of a text of an answer."""
        restore = partial(self.session.restore, conversation=self.conversation)
        return guarded(restore, text, what=_RESTORATION)

    def shown_value(self, value: Any) -> Any:
        """As :meth:`shown`, for all strings of nested dicts and lists."""
        restore = partial(self.session.restore_value, conversation=self.conversation)
        return guarded(restore, value, what=_RESTORATION)

    def shown_json(self, text: str) -> str:
        """As :meth:`shown`, for JSON, which stays JSON whatever the originals hold."""
        session: Any = self.session
        if not session.restores:
            return text
        restore = partial(session.restore_json, conversation=self.conversation)
        return str(guarded(restore, text, what=_RESTORATION))

    def pieces(self) -> Pieces:
        """For an answer that comes in pieces."""
        return Pieces(self)


class Pieces:
    """Texts of one answer in pieces; what could still become a pseudonym is held back.

    Args:
        dialogue: Its conversation.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._open: dict[Hashable, Any] = {}

    def feed(self, place: Hashable, piece: str, *, json: bool = False) -> str:
        """What is shown after a further piece of the text at a place; ``json``: it is JSON."""
        session: Any = self._dialogue.session
        if not session.restores:
            return piece
        if place not in self._open:
            conversation = self._dialogue.conversation
            self._open[place] = session.restorer(conversation=conversation, json=json)
        shown: str = guarded(self._open[place].feed, piece, what=_RESTORATION)
        return shown

    def close(self, place: Hashable) -> str:
        """What was held back of the text at a place; empty if nothing was."""
        if place not in self._open:
            return ""
        rest: str = guarded(self._open.pop(place).close, what=_RESTORATION)
        return rest
