"""Conversations under pseudonyms: one name an entity, and the originals back in what returns."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol, Self, cast

from dp_middleware.conversation.exchange import Restorers
from dp_middleware.conversation.notebook import Admitted, Notebook
from dp_middleware.conversation.releaser import Released, Releaser
from dp_middleware.conversation.session import Session
from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.json_pieces import JsonRestorer, restore_json
from dp_middleware.pseudonyms.lists import Also, What
from dp_middleware.pseudonyms.mapping import Mapping, Pair, Seal
from dp_middleware.pseudonyms.restoration import (
    Restorer,
    hosts_in,
    restore,
    restore_stream,
    restore_value,
)
from dp_middleware.pseudonyms.rewriting import PseudonymDraft
from dp_middleware.sanitizers.spans import Scope

_CONVERSATIONS = 10_000  # whose mappings are in memory
_DIGEST = 32  # bytes of a conversation's keyed name


class Replaces(Protocol):
    """What detects entities and draws for them: see :class:`Pseudonyms`."""

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    def count(self, text: str) -> int:
        """Number of words and signs of a public text."""

    def read(self, text: str, scope: Scope | None = None) -> PseudonymDraft:
        """Detect what is to be replaced."""

    def release_draft(
        self, draft: PseudonymDraft, mapping: Mapping
    ) -> tuple[Release, tuple[str, ...]]:
        """Charges, draws and writes."""

    def write(self, pair: Pair, like: str) -> str:
        """The original of a pair."""

    def naming(self, allow: Iterable[What], also: Also) -> Replaces:
        """The same with further things that are never, or always, replaced."""


class PseudonymSession(Session):
    """A session whose releases have pseudonyms, and which restores what comes back.

    In a conversation one value has one pseudonym and two values never have the same; what is
    restored in a conversation is of that conversation alone. The mapping is in memory, or with
    ``memo=`` also in that file, encrypted under the session's key. An assistant's message that is
    declared public gets pseudonyms too: it may be an answer with its originals.

    Args:
        pseudonyms: Detects and draws.
        memo: As of :class:`~dp_middleware.Session`; the mapping survives with it.
        key: As of :class:`~dp_middleware.Session`; it also encrypts the mapping.
        options: As of :class:`~dp_middleware.Session`, but ``scope``.

    Raises:
        MissingExtra: A memo file needs the extra ``detect``, whose encryption it uses.
        ParameterError: As of :class:`~dp_middleware.Session`.
    """

    def __init__(
        self,
        pseudonyms: Replaces,
        *,
        memo: str | os.PathLike[str] | None = None,
        key: bytes | None = None,
        **options: Any,
    ) -> None:
        if options.get("scope") is not None:
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        super().__init__(cast(Any, pseudonyms), memo=memo, key=key, **options)
        self._seal = None if memo is None else Seal(self._digests.of("pseudonyms"))
        self._mappings: OrderedDict[bytes, Mapping] = OrderedDict()
        self._mappings_lock = Lock()

    def release(
        self,
        event_id: str,
        role: str,
        text: str,
        *,
        conversation: str = "",
        allow: Iterable[What] = (),
        also: Also = (),
    ) -> Release:
        """As of :class:`~dp_middleware.Session`; ``allow`` and ``also`` as of :class:`Pseudonyms`.

        A message in the memo is answered from there, whatever is named.
        """
        if not allow and not also:
            return super().release(event_id, role, text, conversation=conversation)
        named = self._with(cast(Any, self._releases.naming(allow, also)))
        return named.release(event_id, role, text, conversation=conversation)

    def alone(self) -> Self:
        """As of :class:`~dp_middleware.Session`, in the same ledger's and subject's name."""
        twin = self._with(self.sanitizer)
        twin._seal, twin._mappings, twin._mappings_lock = None, OrderedDict(), Lock()
        return twin

    def mapping(self, conversation: str = "") -> dict[str, str]:
        """The originals by their pseudonyms. **Private**: it undoes what was released."""
        mapping = self._read(conversation)
        with mapping.lock:
            return {pair.pseudonym: pair.original for pair in mapping.pairs}

    def restore(self, text: str, *, conversation: str = "") -> str:
        """A remote answer with the originals in place of their pseudonyms. **Private**.

        A pseudonym that the remote model changed beyond recognition stays as it is.

        Args:
            text: Public: an answer to what was released in the conversation.
            conversation: Its name.
        """
        return restore(text, self._read(conversation), self._releases.write)

    def returned(self, text: str, *, conversation: str = "") -> dict[str, int]:
        """What became of the pseudonyms in a remote answer; public numbers.

        Args:
            text: The remote model's own words.
            conversation: Its name.

        Returns:
            ``"restored"``: in how many places of the answer one is found; ``"absent"``: how many
            of the conversation's are not there at all, unused or changed beyond recognition.
        """
        mapping = self._read(conversation)
        with mapping.lock:
            found = [match.value for match in mapping.pseudonyms.find(text)]
            absent = len(mapping) - len({pair.key for pair in found})
        return {"restored": len(found), "absent": absent}

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """As :meth:`restore`; what could still become a pseudonym is held back, nothing else."""
        return restore_stream(pieces, self._read(conversation), self._releases.write)

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """As :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        mapping, write = self._read(conversation), self._releases.write
        return restore_value(value, lambda text: restore(text, mapping, write))

    def restore_json(self, text: str, *, conversation: str = "") -> str:
        """As :meth:`restore`, for JSON, which stays JSON; the same as of its pieces."""
        return restore_json(text, self._read(conversation), self._releases.write)

    @property
    def restores(self) -> bool:
        """Always."""
        return True

    @property
    def _releases(self) -> Replaces:
        return cast("Replaces", self.sanitizer)  # that of a twin, at another epsilon

    def _release(self, message: Admitted, settings: str, releaser: Releaser) -> Released:
        """An assistant's text that is declared public may be an answer with its originals."""
        if message.public is not None and message.public[1] == "declared-public":
            message = replace(message, public=None)
        return super()._release(message, settings, releaser)

    def _way_back(
        self,
        notebook: Notebook,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> tuple[Restorers, tuple[str, ...]]:
        """Restorers, which never wait, of those pseudonyms that were written here, and in answers.

        Hosts of addresses are named by the user: what a tool has found names none.
        """
        mapping, write = self._loaded(notebook.within), self._releases.write
        used, hosts = set(notebook.used), set[str]()
        for message, (release, written) in zip(admitted, released, strict=True):
            text, role = message.event.text, message.event.role
            used.update(written if message.public is None else mapping.standing_in(text))
            if role in ("user", "system"):
                hosts.update(hosts_in(text), hosts_in(release.text))
        with mapping.lock:
            for text in quoted:
                used.update(match.value.pseudonym for match in mapping.pseudonyms.find(text))
        mapping = mapping.bound(used)

        def make(json: bool, shown: bool) -> Restorer | JsonRestorer:
            return (JsonRestorer if json else Restorer)(
                mapping, write, hosts=hosts if shown else None
            )

        return make, tuple(used)

    def _releaser(self, within: bytes) -> OfConversation:
        return OfConversation(self._releases, self._mapping(within), within, self._seal)

    def _conversation(self, name: str) -> bytes:
        """Where mappings are in memory alone, a conversation whose mapping was dropped is another.

        Its releases and answers in the memo have pseudonyms that now nobody could restore, and
        that might be drawn for another value.
        """
        within = super()._conversation(name)
        return within if self._seal is not None else within + self._mapping(within).name

    def _mapping(self, within: bytes) -> Mapping:
        with self._mappings_lock:
            if (mapping := self._mappings.get(within[:_DIGEST])) is None:
                mapping = self._mappings[within[:_DIGEST]] = Mapping()
            self._mappings.move_to_end(within[:_DIGEST])
            if len(self._mappings) > _CONVERSATIONS:
                self._mappings.popitem(last=False)
        dropped = within[_DIGEST:] not in (b"", mapping.name)  # since the caller asked for its name
        return Mapping() if dropped else mapping

    def _read(self, conversation: str) -> Mapping:
        """The mapping of a conversation, with what other processes added to it."""
        return self._loaded(self._conversation(conversation))

    def _loaded(self, within: bytes) -> Mapping:
        mapping = self._mapping(within)
        if self._seal is not None:
            with self._memo.exclusive() as entries, mapping.lock:
                rows: Any = entries  # of a file, as there is a seal
                mapping.load(rows, within, self._seal)
        return mapping


class OfConversation:
    """Pseudonyms for the texts of one conversation.

    Args:
        pseudonyms: Detects and draws.
        mapping: Of the conversation.
        within: Its keyed name.
        seal: Encrypts what is kept; ``None``: nothing is kept.
    """

    remembers = True

    def __init__(
        self, pseudonyms: Replaces, mapping: Mapping, within: bytes, seal: Seal | None
    ) -> None:
        self._pseudonyms, self._mapping = pseudonyms, mapping
        self._within, self._seal = within, seal

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""
        return self._pseudonyms.certificate

    def count(self, text: str) -> int:
        """Number of words and signs of a public text."""
        return self._pseudonyms.count(text)

    def read(self, text: str, scope: Scope | None = None) -> PseudonymDraft:
        """Detect what is to be replaced in a text."""
        return self._pseudonyms.read(text, scope)

    def release_drafts(
        self, drafts: Sequence[PseudonymDraft]
    ) -> list[tuple[Release, PseudonymDraft]]:
        """Charge, draw and write, one after the other."""
        released = []
        with self._mapping.lock:
            for draft in drafts:
                release, used = self._pseudonyms.release_draft(draft, self._mapping)
                released.append((release, replace(draft, used=used)))
        return released

    @contextmanager
    def kept_in(self, entries: Any, now: float) -> Iterator[None]:
        """Read the mapping as it was kept, and keep it, with what is added, from now on."""
        with self._mapping.lock:
            if self._seal is None:
                yield
                return
            self._mapping.load(entries, self._within, self._seal)
            yield
            self._mapping.store(entries, self._within, self._seal, now)
