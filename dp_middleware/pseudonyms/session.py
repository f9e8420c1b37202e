"""Conversations under pseudonyms: one name an entity, and the originals back in what returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dp_middleware.conversation.exchange import each_in
from dp_middleware.conversation.session import Session
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.json_pieces import restore
from dp_middleware.pseudonyms.lists import Also, What
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.matching import Restorer
from dp_middleware.pseudonyms.releasing import MappedSession
from dp_middleware.pseudonyms.seal import Seal


class PseudonymSession(MappedSession):
    """Releases with pseudonyms, as a session does, and restores what comes back.

    In a conversation one value has one pseudonym and two values never have the same; what is
    restored in a conversation is of that conversation alone. The mapping is in memory, or with
    ``memo=`` also in that file, encrypted under the session's key. An assistant's message that is
    declared public gets pseudonyms too: it may be an answer with its originals.

    Args:
        pseudonyms: Detects and draws.
        memo: As of :class:`Session`; the mapping survives with it, encrypted: needs ``detect``.
        key: As of :class:`Session`; it also encrypts the mapping.
        options: As of :class:`Session`, but ``scope``.
    """

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
        self._keep(None if memo is None else Seal(self._digests.of("pseudonyms")))

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
        """Does as that of a session; ``allow`` and ``also`` are as of :class:`Pseudonyms`.

        A message in the memo is answered from there, whatever is named.
        """
        named = self._with(self.sanitizer.naming(allow, also)) if allow or also else self
        return Session.release(named, event_id, role, text, conversation=conversation)

    def mapping(self, conversation: str = "") -> dict[str, str]:
        """Returns the originals by their pseudonyms. **Private**: it undoes what was released."""
        with self._read(conversation) as mapping:
            return {pair.pseudonym: pair.original for pair in mapping.pairs}

    def restore(self, text: str, *, conversation: str = "") -> str:
        """Puts the originals in place of their pseudonyms in an answer. **Private**.

        A pseudonym that the remote model changed beyond recognition stays as it is.
        """
        with self._read(conversation) as mapping:
            return restore(text, mapping.pseudonyms)

    @contextmanager
    def opened(self, conversation: str = "") -> Iterator[Mapping]:
        """Gives the mapping of a conversation, alone with it; what is added is kept at the end."""
        releaser = self.sanitizer.bound(self._mapping(self._conversation(conversation)))
        with self._memo.kept(releaser):
            yield releaser.mapping

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """Does as :meth:`restore`; what could become a pseudonym is held back, nothing else."""
        with self._read(conversation) as mapping:
            restorer = Restorer(mapping.bound({pair.pseudonym for pair in mapping.pairs}))
        for piece in pieces:
            if restored := restorer.feed(piece):
                yield restored
        if rest := restorer.close():
            yield rest

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """Does as :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        with self._read(conversation) as mapping:
            names = mapping.pseudonyms
            return each_in(value, lambda v: restore(v, names) if isinstance(v, str) else v)

    @contextmanager
    def _read(self, conversation: str) -> Iterator[Mapping]:
        """The mapping of a conversation, with what other processes added to it."""
        mapping = self._loaded(self._conversation(conversation))
        with mapping.lock:
            yield mapping
