"""Conversations: every message is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
import functools
import hmac
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NoReturn

from dp_middleware import _forks, _positions, _replays, _validate
from dp_middleware._digests import ONCE as ONCE
from dp_middleware._digests import ROLES, Digests, checked
from dp_middleware._digests import Item as Item
from dp_middleware._memo import Entry, FileMemo, Limits, MemoryMemo, Table, WhenFull
from dp_middleware._plan import Detector, Plan, Token
from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.releases import Release
from dp_middleware.sanitizers import Sanitizer

MONTH = 30 * 24 * 3600.0
"""Seconds."""

_SAME = 1e-9  # nats
_EPSILONS = 32  # sessions of other epsilons that are kept


class Session:
    """Releases the messages of conversations: one release and one charge per event.

    An event is a message of a transcript, known by its id. Seen again with the same text and
    role, it is answered from the memo and costs nothing; otherwise it is a new release, drawn and
    charged for at the positions that changed, and *that* they changed is public. Under an id
    that is new, an old text is a new release: nothing is looked up by content, as equal outputs
    would reveal equal inputs.

    What a remote model answered is public; after :meth:`note_remote` its event is answered with
    just that, whatever the transcript shows in its place, as an answer that was extracted
    locally holds what no mechanism has protected. An assistant's message that is not known as a
    remote answer is refused: even perturbed it would not have the guarantee, since one private
    token may have changed all of it.

    Safe for threads; a memo in a file is for processes too, and a charge may be lost to a crash
    there but never a release to the ledger: charge, draw, store, return.

    Args:
        sanitizer: Charges and draws.
        memo: An SQLite file that keeps what was released over restarts, and so what a scope
            declared public too, but no raw private text; default: memory. Not the ledger's file.
            A text edited after a restart is drawn for as a whole: what tells its old tokens is
            kept in memory only.
        key: 32 bytes or more, needed with a memo file and never written: keep it elsewhere. It
            keys the digests of ids and raw texts. Default: a fresh one.
        capacity: Largest number of entries; a private event counts as two.
        expires: Seconds after which an entry is dropped; ``inf`` for never. A dropped event that
            is seen again is a new release and a new charge.
        when_full: ``"forget"`` drops the oldest entry, ``"refuse"`` raises.
        clock: Seconds since the epoch.
        scope: What is private in a private message: a function that finds its spans, or one per
            role; a role without one is released whole, and so is everything by default.
            **What it declares public goes out as it is**, and may change in an edited message
            at no cost. A message that is in the memo is answered from there, whatever the scope.
            Private spans are compared with those of the version before in reading order, not by
            what stands around them: if two of them change places, so may what is released.

    Raises:
        ParameterError: A parameter out of range, a memo in the ledger's file, or one that was
            written with another key.
    """

    def __init__(
        self,
        sanitizer: Sanitizer,
        *,
        memo: str | os.PathLike[str] | None = None,
        key: bytes | None = None,
        capacity: int = 100_000,
        expires: float = MONTH,
        when_full: WhenFull = "forget",
        clock: Callable[[], float] = time.time,
        scope: Detector | Mapping[str, Detector] | None = None,
    ) -> None:
        self._limits = Limits(capacity=capacity, expires=expires, when_full=when_full, clock=clock)
        self._scopes = _by_role(scope)
        if memo is not None and key is None:
            raise ParameterError("expected key= with a memo file, 32 bytes kept in another place")
        if memo is not None:
            _refuse_ledger(Path(memo), sanitizer.ledger)
        self.sanitizer = sanitizer
        self._digests = Digests(key)
        self._versions = _positions.Versions(capacity)
        self._first = self
        self._others: OrderedDict[float, Session] = OrderedDict()
        self.after_fork()
        _forks.renew(self)
        self._memo: MemoryMemo | FileMemo = MemoryMemo()
        if memo is not None:
            self._memo = FileMemo(Path(memo), self._digests.of("check"))

    def after_fork(self) -> None:
        """With locks that nobody holds; sessions at other epsilons use those of the first."""
        self._locks = {"memo": Lock(), "calibration": Lock()}

    def __repr__(self) -> str:
        kind = "file" if isinstance(self._memo, FileMemo) else "memory"
        return f"Session({self.sanitizer!r}, memo in {kind})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

    @property
    def scopes(self) -> Mapping[str, Detector]:
        """What is private in a message, by role; a role without one is released whole."""
        return self._scopes

    def at(self, epsilon: float) -> Session:
        """The same session at another epsilon; see :meth:`Sanitizer.at`.

        Memo, key, scope, limits and ledger are shared, and so are noted answers. A private
        event, known by its id *and* the mechanism, is another one here: a new release and a new
        charge, and both releases together are worth the sum of their epsilons. Safe for
        threads; the latest of these sessions are kept, and an epsilon that is asked for again
        finds its releases.

        Args:
            epsilon: Nats per token occurrence, a public number.

        Returns:
            This session or the one it came from, if that has this epsilon already or the very
            mechanism that is calibrated to it; a certified epsilon may be just below.

        Raises:
            CannotCalibrate: The mechanism cannot reach this epsilon.
        """
        _validate.positive(epsilon=epsilon)
        for each in (self, self._first):
            if abs(each.sanitizer.certificate.epsilon - epsilon) <= _SAME:
                return each
        with self._first._locks["calibration"]:
            found = self._others.get(epsilon) or self._calibrated(epsilon)
            self._others[epsilon] = found
            self._others.move_to_end(epsilon)
            if len(self._others) > _EPSILONS:
                self._others.popitem(last=False)
            return found

    def _calibrated(self, epsilon: float) -> Session:
        """Shares all that is mutable, locks included."""
        sanitizer = self._first.sanitizer.at(epsilon)
        if sanitizer.mechanism.fingerprint == self._first.sanitizer.mechanism.fingerprint:
            return self._first
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.pop("_settings", None)
        twin.sanitizer = sanitizer
        return twin

    def release(self, event_id: str, role: str, text: str, *, conversation: str = "") -> Release:
        """What goes out for a message.

        Args:
            event_id: Identifies the message in its conversation; the same whenever it is sent
                again.
            role: ``"user"``, ``"system"``, ``"tool"``: private; ``"assistant"``: from the remote
                model.
            text: Private, as is every text but a noted one.
            conversation: Needed where ids of two conversations might be equal: one message would
                be taken for an edited version of the other.

        Raises:
            EventRefused: An assistant's text that was not noted, a noted event with another
                role, or a full memo.
            BudgetExhausted: From the ledger; nothing was drawn.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        if not event_id:
            raise ParameterError("expected an event id; use release_many for a transcript without")
        return self.release_many([(event_id, role, text)], conversation=conversation)[0]

    def release_many(self, items: Iterable[Item], *, conversation: str = "") -> list[Release]:
        """What goes out for a transcript, message by message.

        Args:
            items: ``(event_id, role, text)`` each. An ``event_id`` of ``None`` is replaced by a
                keyed digest of the transcript up to and with the message: then the transcript
                must start at the conversation's beginning, and a change makes all messages from
                there on new ones. :data:`ONCE` is for texts as of :meth:`release_once`.
            conversation: Its name; two without ids that begin with the same texts under the same
                name begin with the same releases.

        Raises:
            As :meth:`release`. What was released before an error stays in the memo.
        """
        transcript = [checked(item) for item in items]
        given = [event_id for event_id, _, _ in transcript if isinstance(event_id, str)]
        if len(set(given)) < len(given):
            raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
        within = self._conversation(conversation)
        names = self._digests.names(within, transcript)
        found = []
        for name, (event_id, role, text) in zip(names, transcript, strict=True):
            if event_id is ONCE:
                found.append(self.release_once(role, text))
            elif role == "assistant":
                note = self._note_of(within, text) if event_id is None else self._note(name)
                found.append(self._answer(note))
            else:
                found.append(self._private(name, role, text))
        return found

    def release_once(self, role: str, text: str) -> Release:
        """What goes out for a text that will never come again; kept in no memo.

        Args:
            role: A private one, ``"user"``, ``"system"`` or ``"tool"``; says which scope.
            text: Private. Given again, it is a new release and a new charge.

        Raises:
            EventRefused: An assistant's text.
            BudgetExhausted: From the ledger; nothing was drawn.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        checked((ONCE, role, text))
        if role == "assistant":
            raise EventRefused("expected a private role for a text without an event, got assistant")
        return self.sanitizer.release(text, scope=self._scopes.get(role))

    async def arelease(
        self, event_id: str, role: str, text: str, *, conversation: str = ""
    ) -> Release:
        """As :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.release, event_id, role, text, conversation=conversation
        )

    async def arelease_many(
        self, items: Iterable[Item], *, conversation: str = ""
    ) -> list[Release]:
        """As :meth:`release_many`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_many, items, conversation=conversation)

    async def arelease_once(self, role: str, text: str) -> Release:
        """As :meth:`release_once`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_once, role, text)

    def note_remote(self, event_id: str | None, text: str, *, conversation: str = "") -> None:
        """Tell the session what the remote model answered; it may then go out again.

        Args:
            event_id: The id that the answer will have in the transcript, by which alone it is
                known. ``None``: it will have none and is known by its text, which is public. Then
                any assistant's message without an id that has just these words goes out, also
                one that was extracted locally: where both may say "yes", give ids.
            text: The remote model's own words: ``Answer.remote_text``, never ``Answer.text``.
            conversation: As for :meth:`release`.

        Raises:
            EventRefused: The event was released as a private one, or the memo is full.
        """
        checked((event_id, "assistant", text))
        within = self._conversation(conversation)
        name = None if event_id is None else self._digests.of_id(within, event_id)
        note = self._note_of(within, text) if name is None else self._note(name)
        with self._first._locks["memo"], self._memo.exclusive() as table:
            if name is not None and self._limits.current(table, self._mark(name)) is not None:
                raise EventRefused("expected a new event to note, got one released as private")
            self._limits.store(table, note, b"", json.dumps(text))

    def digest(self, *parts: str) -> str:
        """A mark by which texts are known again, for what is kept outside of the memo.

        Keyed with the session's key, so it tells nothing to those who do not have it; the same
        in another process only with the same ``key=``.

        Args:
            parts: Private or public; their lengths count.

        Returns:
            64 hexadecimal digits.
        """
        return self._digests.of("mark", *parts).hex()

    def _private(self, name: bytes, role: str, text: str) -> Release:
        """From the memo, or drawn; a detector runs outside of the lock, and may use the session."""
        digest = self._digests.of("text", self._event(name), role, text)
        with self._first._locks["memo"], self._memo.exclusive() as table:
            found = self._replayed(table, name, role, digest)
        if found is not None:
            return found
        plan = self.sanitizer.plan(text, self._scopes.get(role))
        with (
            self._first._locks["memo"],
            self._memo.exclusive() as table,
        ):  # another thread may have been faster
            found = self._replayed(table, name, role, digest)
            return found if found is not None else self._stored(table, name, digest, plan)

    def _replayed(self, table: Table, name: bytes, role: str, digest: bytes) -> Release | None:
        if self._limits.current(table, self._note(name)) is not None:
            raise EventRefused(f"expected role assistant for a noted event, got {role}")
        known = self._limits.current(table, self._event(name))
        if known is None or not hmac.compare_digest(known.digest, digest):
            return None
        return _replays.from_json(known.released, self.sanitizer)

    def _stored(self, table: Table, name: bytes, digest: bytes, plan: Plan) -> Release:
        """Charge, draw, store; the mark last, so that it is not forgotten before the release."""
        event, private = self._event(name), self._mark(name)
        known = self._limits.current(table, event)
        self._limits.make_room(table, event, private)
        release = self._drawn(event, digest, replace(plan, edited=known is not None), known)
        self._limits.store(table, event, digest, _replays.to_json(release))
        self._limits.store(table, private, b"", "")
        return release

    def _drawn(self, event: bytes, digest: bytes, plan: Plan, known: Entry | None) -> Release:
        earlier = None if known is None else self._versions.get(event, known.digest)

        digest_of = self._digests.marker("token", event)

        @functools.cache  # equal tokens share their mark: a long text has few distinct ones
        def mark(token: Token) -> bytes:
            return digest_of(f"{token.id} {token.kept!r}")

        release, now = _positions.release(self.sanitizer, plan, digest, mark, earlier)
        self._versions.put(event, now)
        return release

    def _answer(self, note: bytes) -> Release:
        with self._first._locks["memo"], self._memo.exclusive() as table:
            entry = self._limits.current(table, note)
        if entry is None:
            raise EventRefused(
                "expected an assistant's message known from note_remote, got another; it may hold "
                "private text and is not sent"
            )
        return _replays.remote_answer(json.loads(entry.released), self.sanitizer)

    @cached_property
    def _settings(self) -> str:
        """Another mechanism or space makes every event a new one."""
        adjacency = self.sanitizer.certificate.adjacency.fingerprint
        return (
            f"{self.sanitizer.mechanism.fingerprint}/{self.sanitizer.space.fingerprint}/{adjacency}"
        )

    def _event(self, name: bytes) -> bytes:
        return self._digests.of("event", self._settings, name)

    def _mark(self, name: bytes) -> bytes:
        """Of an event that was released as a private one, by whatever mechanism."""
        return self._digests.of("private", name)

    def _note(self, name: bytes) -> bytes:
        return self._digests.of("note", name)

    def _note_of(self, conversation: bytes, text: str) -> bytes:
        """By content: a remote answer is public."""
        return self._digests.of("answer", conversation, text)

    def _conversation(self, name: str) -> bytes:
        return self._digests.of("conversation", self.sanitizer.subject or "", name)


def _refuse_ledger(memo: Path, ledger: object) -> None:
    """They would wait for each other's transactions."""
    file = getattr(ledger, "file", None)
    if isinstance(file, Path) and file.resolve() == memo.resolve():
        raise ParameterError("expected memo= in a file of its own, got the ledger's")


def _by_role(scope: Detector | Mapping[str, Detector] | None) -> dict[str, Detector]:
    private = [role for role in ROLES if role != "assistant"]
    if scope is None:
        return {}
    found = dict(scope) if isinstance(scope, Mapping) else dict.fromkeys(private, scope)
    if not set(found) <= set(private) or not all(map(callable, found.values())):
        raise ParameterError(
            f"expected scope= as a function from a text to its private spans, or one per role in "
            f"{private}"
        )
    return found
