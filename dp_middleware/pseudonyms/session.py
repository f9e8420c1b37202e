"""Conversations under pseudonyms: one name an entity, and the originals back in what returns."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping as Dict, Sequence
from threading import Lock
from typing import Any, Self

from dp_middleware.conversation.exchange import Restorers
from dp_middleware.conversation.notebook import Admitted, Notebook
from dp_middleware.conversation.releaser import Released, Releaser
from dp_middleware.conversation.session import Session
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.json_pieces import JsonRestorer, restore_json
from dp_middleware.pseudonyms.lists import Also, What
from dp_middleware.pseudonyms.mapping import Mapping, Pair, Restorer, restore
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.seal import Seal

_CONVERSATIONS = 10_000  # whose mappings are in memory
_DIGEST = 32  # bytes of a conversation's keyed name


class PseudonymSession(Session):
    """Releases with pseudonyms, as a session does, and restores what comes back.

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

    sanitizer: Any  # Pseudonyms, which make their session
    restores = True

    def __init__(
        self,
        pseudonyms: Any,
        *,
        memo: str | os.PathLike[str] | None = None,
        key: bytes | None = None,
        **options: Any,
    ) -> None:
        if options.get("scope") is not None:
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        super().__init__(pseudonyms, memo=memo, key=key, **options)
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
        named = self._with(self.sanitizer.naming(allow, also))
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
        mapping = self._read(conversation)
        with mapping.lock:
            return restore(text, mapping.pseudonyms)

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
        mapping = self._read(conversation)
        with mapping.lock:
            restorer = Restorer(mapping.bound({pair.pseudonym for pair in mapping.pairs}))
        for piece in pieces:
            if restored := restorer.feed(piece):
                yield restored
        if rest := restorer.close():
            yield rest

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """As :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        mapping = self._read(conversation)
        with mapping.lock:
            return _restored(value, mapping.pseudonyms)

    def restore_json(self, text: str, *, conversation: str = "") -> str:
        """As :meth:`restore`, for JSON, which stays JSON; the same as of its pieces."""
        mapping = self._read(conversation)
        with mapping.lock:
            return restore_json(text, mapping.pseudonyms)

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
        mapping = self._loaded(notebook.within)
        used, named = set(notebook.used), list[str]()
        for message, (release, written) in zip(admitted, released, strict=True):
            text, role = message.event.text, message.event.role
            used.update(written if message.public is None else mapping.standing_in(text))
            if role in ("user", "system"):
                named += [text, release.text]
        with mapping.lock:
            for text in quoted:
                used.update(match.value.pseudonym for match in mapping.pseudonyms.find(text))
            names, hosts = mapping.bound(used), Hosts(tuple(named))

        def make(json: bool, shown: bool) -> Restorer | JsonRestorer:
            return (JsonRestorer if json else Restorer)(names, hosts=hosts if shown else None)

        return make, tuple(used)

    def _releaser(self, within: bytes) -> Releaser:
        releaser: Releaser = self.sanitizer.bound(self._mapping(within))
        return releaser

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
                mapping = Mapping(within, self._seal, self.sanitizer.kinds)
                self._mappings[within[:_DIGEST]] = mapping
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
                mapping.load(entries)
        return mapping


def _restored(value: Any, names: Names[Pair]) -> Any:
    """A copy of nested dicts, lists and tuples with all strings restored, also keys."""
    if isinstance(value, str):
        return restore(value, names)
    if isinstance(value, Dict):
        return {_restored(key, names): _restored(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        values = [_restored(inner, names) for inner in value]
        return values if isinstance(value, list) else tuple(values)
    return value
