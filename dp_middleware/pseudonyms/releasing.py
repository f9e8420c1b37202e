"""Texts with pseudonyms go out in conversations, and answers get the originals back."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from os import PathLike
from threading import Lock
from typing import Any, Self, cast

from dp_middleware.conversation.exchange import Restorers, each_in
from dp_middleware.conversation.memo import Released
from dp_middleware.conversation.notebook import Admitted, Notebook
from dp_middleware.conversation.session import Session
from dp_middleware.errors import NothingFound, ParameterError
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Payer, Release, open_receipts, write_charge
from dp_middleware.pseudonyms.addresses import hosts_in
from dp_middleware.pseudonyms.detection import entities_in, plain_view
from dp_middleware.pseudonyms.detectors.words import OnLanguage, language_of, on_unknown
from dp_middleware.pseudonyms.draws import Keyed, Seal
from dp_middleware.pseudonyms.guarantee import certificate_of, only_common, released_beside
from dp_middleware.pseudonyms.kinds import Kind, Kinds
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.matching import Names, Restorer, Words, restore
from dp_middleware.pseudonyms.rewriting import PseudonymDraft, count, places_of
from dp_middleware.pseudonyms.structured import SIGNS, JsonRestorer, view_of
from dp_middleware.sampling.entropy import Entropy, os_entropy
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Scope, Span

_CONVERSATIONS = 10_000  # whose mappings are in memory
Done = tuple[Release, PseudonymDraft]  # what goes out, and the draft with what was drawn
_DIGEST = 32  # bytes of a conversation's keyed name


class PseudonymReleaser(Payer):
    """Releases texts of a conversation with pseudonyms; see :class:`Pseudonyms`."""

    kinds: Kinds  # the laws, by name
    sanitizer: Sanitizer | None
    on_empty: str
    on_language: OnLanguage | None
    rest: str | None
    mapping: Mapping  # of the conversation that it is bound to
    _law: Keyed | None
    _asked: frozenset[str] | None
    _detector: Any
    _lists: Any  # what is never, and always, replaced; or None
    _is_told: bool  # whether what goes out as it is tells in which language the rest is drawn
    remembers = True
    entropy: Entropy = staticmethod(os_entropy)
    count = staticmethod(count)

    @property
    def certificate(self) -> Certificate:
        """Returns that of a release in which all kinds occur; of one with few it is better."""
        return self._certificate(self.kinds.values(), self.sanitizer)

    def bound(self, mapping: Mapping) -> Self:
        """Returns the same for the texts of one conversation."""
        return self._with(mapping=mapping)

    def _with(self, **changes: Any) -> Self:
        twin = copy.copy(self)
        twin.__dict__.update(changes)
        return twin

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """Reads the mapping as it was kept, and keeps it, with what is added, from now on."""
        return self.mapping.kept_in(entries, now)

    def read(self, text: str, scope: Scope | None = None) -> PseudonymDraft:
        """Detects what is to be replaced in a text. Private; for sessions, which have no scope."""
        started, lists = time.perf_counter(), self._lists
        detector, asked, always = self._detector, self._asked, frozenset[str]()
        if lists is not None:
            detector, always = lists.detector(detector, asked), frozenset(k for _, k in lists.also)
            asked = None if asked is None else asked | always
        view = view_of(text) if SIGNS.search(text) else plain_view(text)
        view, entities = entities_in(view, detector, asked, always)
        kinds = [kind if kind in self.kinds else "label" for _, _, kind in entities]
        for receipt in open_receipts.get():
            receipt.found.update(kinds)
            receipt.detection += time.perf_counter() - started
        places = tuple(places_of(view, entities, self.kinds))
        kept = () if lists is None else tuple(lists.kept(view.text))
        return PseudonymDraft(view=view, places=places, kept=kept)

    def release_drafts(self, drafts: Sequence[PseudonymDraft]) -> list[Done]:
        """Charges, draws and writes in the conversation, one text after the other."""
        with self.mapping.lock:
            return [self.release_draft(draft, self.mapping) for draft in drafts]

    def release_draft(self, draft: PseudonymDraft, mapping: Mapping) -> Done:
        """Charges, draws what is new and writes; the caller holds the lock of the mapping."""
        sanitizer, mapping.law = self.sanitizer, self._law
        draft = draft.complete(mapping, public=sanitizer is None)
        if self.rest is not None:
            draft = only_common(draft)
        pieces = [draft.text[start:end] for start, end in draft.gaps]
        outside = "\n".join(pieces)
        notes = on_unknown(outside, self.on_language) if self.on_language else ()
        is_bare = not (sanitizer or self.rest or draft.places)
        if is_bare and self.on_empty == "raise" and draft.text.strip():
            raise NothingFound(
                "expected a text in which the detector finds something, got one that would go out "
                'as it is; on_empty="pass" allows that'
            )
        if self._is_told and (language := language_of(outside)) != "en":
            draft = draft.spoken(language)
        near, kinds = draft.near(mapping), {place.kind for place in draft.places}
        spans = [Span(start, end) for start, end in draft.rest] if sanitizer else []
        rest = None if sanitizer is None else cast(Draft, sanitizer.read(draft.text, spans))
        certificate = self._certificate(kinds, sanitizer)
        priced = certificate if sanitizer is None else self._certificate(kinds, None)
        for bill, n in ((priced, near), (certificate, 0 if rest is None else len(rest.fresh))):
            if self.ledger is not None and self.subject and n:
                self.ledger.charge(self.subject, bill, n)
        for _ in range(near):  # of the tokens the sanitizer does
            write_charge(priced)
        allow = self._lists.allow if self._lists else ()
        pieces += [what for what in allow if isinstance(what, str)]
        written, used = draft.written(mapping, () if sanitizer else Words(pieces))
        drawn, for_values = None, near * priced.epsilon if near else 0.0
        if rest is not None and sanitizer is not None:
            release, drawn = released_beside(sanitizer, rest, draft, written, certificate)
            release = replace(release, for_values=for_values)
        else:
            text = draft.filled(written, 0, len(draft.text), spelled=True)
            release = Release(
                text=text,
                certificate=certificate.assuming(notes) if notes else certificate,
                tokens_total=count(text),  # not of the values: how many words they have is private
                tokens_verbatim=count(outside),
                for_values=for_values,
            )
        return release, replace(draft, used=tuple(used), drawn=drawn)

    def _certificate(self, kinds: Iterable[Kind], sanitizer: Sanitizer | None) -> Certificate:
        """Of a release in which these kinds occur, with what perturbs the rest, if anything."""
        return certificate_of(
            frozenset(kinds),
            tuple(self.kinds.items()),
            None if sanitizer is None else sanitizer.certificate,
            common=self.rest is not None,
            allows=bool(self._lists and self._lists.allow),
            keyed=self._law is not None,
        )


class PseudonymSession(Session):
    """Releases with pseudonyms, as a session does, and restores what comes back.

    In a conversation one value has one pseudonym and two values never have the same; what is
    restored in it is of that conversation alone. The mapping is in memory, or with ``memo=`` also
    in that file, encrypted (by the extra ``detect``). An assistant's message that is declared
    public gets pseudonyms too: it may be an answer with its originals.

    Args:
        pseudonyms: Detects and draws.
        memo: As of :class:`Session`.
        options: As of :class:`Session`, but ``scope``; its ``key`` also encrypts the mapping.
    """

    sanitizer: Any  # Pseudonyms, which make their session
    restores = True

    def __init__(
        self, pseudonyms: Any, *, memo: str | PathLike[str] | None = None, **options: Any
    ) -> None:
        if options.get("scope") is not None:
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        super().__init__(pseudonyms, memo=memo, **options)
        self._keep(None if memo is None else Seal(self._digests.of("pseudonyms")))

    def _keep(self, seal: Seal | None) -> Self:
        self._seal, self._mappings_lock = seal, Lock()
        self._mappings: dict[bytes, Mapping] = {}  # used last at the end
        return self

    def alone(self) -> Self:
        """Does as that of a session, in the same ledger's and subject's name."""
        return self._with(self.sanitizer)._keep(None)

    def mapping(self, conversation: str = "") -> dict[str, str]:
        """Returns the originals by their pseudonyms. **Private**: it undoes what was released."""
        with self._read(self._conversation(conversation)) as mapping:
            return {pair.pseudonym: pair.original for pair in mapping.pairs}

    def restore(self, text: str, *, conversation: str = "") -> str:
        """Puts originals in place of pseudonyms, as far as they are recognised. **Private**."""
        with self._read(self._conversation(conversation)) as mapping:
            return restore(text, mapping.pseudonyms)

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """Does as :meth:`restore`; what could become a pseudonym is held back, nothing else."""
        with self._read(self._conversation(conversation)) as mapping:
            restorer = Restorer(Names((p.pseudonym, p) for p in mapping.pairs))
        for piece in pieces:
            if restored := restorer.feed(piece):
                yield restored
        if rest := restorer.close():
            yield rest

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """Does as :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        with self._read(self._conversation(conversation)) as mapping:
            names = mapping.pseudonyms
            return each_in(value, lambda v: restore(v, names) if isinstance(v, str) else v)

    @contextmanager
    def opened(self, conversation: str = "") -> Iterator[Mapping]:
        """Gives the mapping of a conversation, alone with it; what is added is kept at the end."""
        releaser = self._releaser(self._conversation(conversation))
        with self._memo.kept(releaser):
            yield releaser.mapping

    def _way_back(
        self,
        notebook: Notebook,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> tuple[Restorers, tuple[str, ...]]:
        """Restorers of those pseudonyms that were written here; hosts are named by the user."""
        used, named = set(notebook.used), list[str]()
        with self._read(notebook.within) as mapping:
            for message, (release, written) in zip(admitted, released, strict=True):
                text, role = message.event.text, message.event.role
                found = mapping.originals.find(view_of(text).text) if message.public else ()
                used.update(written, (pair.pseudonym for _, _, pair in found))
                if role in ("user", "system"):
                    named += [text, release.text]
            for text in quoted:
                used.update(pair.pseudonym for _, _, pair in mapping.pseudonyms.find(text))
            names = Names((p.pseudonym, p) for p in mapping.pairs if p.pseudonym in used)
        hosts = cache(lambda: hosts_in(*named))

        def restorer(json: bool, shown: bool) -> Restorer:
            kind = JsonRestorer if json else Restorer
            return kind(names, hosts=hosts if shown else None)

        return restorer, tuple(used)

    def _releaser(self, within: bytes) -> Any:
        return self.sanitizer.bound(self._mapping(within))

    def _conversation(self, name: str) -> bytes:
        """In memory alone another one once its mapping was dropped: none could restore releases."""
        within = super()._conversation(name)
        return within if self._seal is not None else within + self._mapping(within).name

    def _mapping(self, within: bytes) -> Mapping:
        name, asked, kinds = within[:_DIGEST], within[_DIGEST:], self.sanitizer.kinds
        with self._mappings_lock:
            mapping = self._mappings.pop(name, None) or Mapping(within, self._seal, kinds)
            self._mappings[name] = mapping
            if len(self._mappings) > _CONVERSATIONS:
                del self._mappings[next(iter(self._mappings))]
        return mapping if asked in (b"", mapping.name) else Mapping()  # it was dropped meanwhile

    @contextmanager
    def _read(self, within: bytes) -> Iterator[Mapping]:
        """The mapping of a conversation, with what other processes added to it."""
        mapping = self._mapping(within)
        if self._seal is not None:
            with self._memo.exclusive() as entries, mapping.lock:
                mapping.load(entries)
        with mapping.lock:
            yield mapping
