"""What pseudonyms do for a request: texts with them go out, and an answer finds the way back."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Lock
from typing import Any, Self, cast

from dp_middleware.conversation.exchange import Restorers
from dp_middleware.conversation.memo import Released, Releaser
from dp_middleware.conversation.notebook import Admitted, Notebook
from dp_middleware.conversation.session import Session
from dp_middleware.errors import NothingFound, ParameterError
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Payer, Release, open_receipts, write_charge
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.common import only_common
from dp_middleware.pseudonyms.detection import entities_in
from dp_middleware.pseudonyms.detectors.words import OnLanguage, language_of, on_unknown
from dp_middleware.pseudonyms.draws import Keyed
from dp_middleware.pseudonyms.guarantee import certificate_of
from dp_middleware.pseudonyms.json_pieces import JsonRestorer
from dp_middleware.pseudonyms.kinds import Kinds
from dp_middleware.pseudonyms.lists import Lists
from dp_middleware.pseudonyms.mapping import Kind, Mapping, Spoken
from dp_middleware.pseudonyms.matching import Restorer
from dp_middleware.pseudonyms.rewriting import Mention, PseudonymDraft, count, places_of
from dp_middleware.pseudonyms.seal import Seal, SealedMapping
from dp_middleware.pseudonyms.structured import SIGNS, View, view_of
from dp_middleware.sampling.entropy import Entropy, os_entropy
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Scope, Span

_CONVERSATIONS = 10_000  # whose mappings are in memory
_DIGEST = 32  # bytes of a conversation's keyed name


class PseudonymReleaser(Payer):
    """Releases texts of a conversation with pseudonyms; see :class:`Pseudonyms`."""

    remembers = True
    kinds: Kinds  # the laws, by name
    sanitizer: Sanitizer | None
    on_empty: str
    on_language: OnLanguage | None
    rest: str | None
    _law: Keyed | None
    _asked: frozenset[str] | None
    _detector: Any
    _lists: Lists | None
    _is_told: bool  # whether what goes out as it is tells in which language the rest is drawn
    mapping: Mapping  # of the conversation that it is bound to
    entropy: Entropy = staticmethod(os_entropy)

    @property
    def certificate(self) -> Certificate:
        """Returns that of a release in which all kinds occur; of one with few it is better."""
        return self._certificate(self.kinds.values(), self.sanitizer)

    @staticmethod
    def count(text: str) -> int:
        """Counts the words and signs of a public text."""
        return count(text)

    def read(self, text: str, scope: Scope | None = None) -> PseudonymDraft:
        """Detects what is to be replaced in a text. Private; for sessions, which have no scope."""
        started, lists = time.perf_counter(), self._lists
        is_json = any(sign in text for sign in SIGNS)
        view = view_of(text) if is_json else View(raw=text, text=text, inner=text)
        detector, asked, always = self._detector, self._asked, frozenset[str]()
        if lists is not None:
            detector, always = lists.detector(detector, asked), lists.kinds
            asked = None if asked is None else asked | always
        view, entities = entities_in(view, detector, asked, always)
        kinds = [kind if kind in self.kinds else "label" for _, _, kind in entities]
        for receipt in open_receipts.get():
            receipt.found.update(kinds)
            receipt.detection += time.perf_counter() - started
        places = tuple(places_of(view, entities, self.kinds))
        kept = () if lists is None else tuple(lists.kept(view.text))
        return PseudonymDraft(view=view, places=places, kept=kept)

    def bound(self, mapping: Mapping) -> Self:
        """Returns the same for the texts of one conversation."""
        twin = copy.copy(self)
        twin.mapping = mapping
        return twin

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """Reads the mapping as it was kept, and keeps it, with what is added, from now on."""
        return self.mapping.kept_in(entries, now)

    def release_drafts(
        self, drafts: Sequence[PseudonymDraft]
    ) -> list[tuple[Release, PseudonymDraft]]:
        """Charges, draws and writes in the conversation, one text after the other."""
        with self.mapping.lock:
            return [self.release_draft(draft, self.mapping) for draft in drafts]

    def release_draft(
        self, draft: PseudonymDraft, mapping: Mapping
    ) -> tuple[Release, PseudonymDraft]:
        """Charges, draws what is new and writes; the caller holds the lock of the mapping."""
        sanitizer, mapping.law = self.sanitizer, self._law
        draft = draft.complete(mapping, public=sanitizer is None)
        if self.rest is not None:
            draft = only_common(draft)
        outside = "\n".join(draft.text[start:end] for start, end in draft.gaps)
        notes = on_unknown(outside, self.on_language) if self.on_language else ()
        is_bare = not (sanitizer or self.rest or draft.places)
        if is_bare and self.on_empty == "raise" and draft.text.strip():
            raise NothingFound(
                "expected a text in which the detector finds something, got one in which it finds "
                'nothing and which would go out as it is; on_empty="pass" allows that'
            )
        if self._is_told and (language := language_of(outside)) != "en":
            draft = _spoken(draft, language)
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
        allowed = () if self._lists is None else self._lists.texts
        written, used = draft.written(mapping, () if sanitizer else draft.public(allowed))
        for_values = near * priced.epsilon if near else 0.0
        if rest is not None and sanitizer is not None:
            release, drawn = _beside(sanitizer, rest, draft, written, certificate)
            release = replace(release, for_values=for_values)
            return release, replace(draft, used=used, drawn=drawn)
        text = draft.filled(written, 0, len(draft.text), draft.view)
        release = Release(
            text=text,
            certificate=certificate.assuming(notes) if notes else certificate,
            tokens_total=count(text),  # not of the values: how many words they have is private
            tokens_verbatim=count(outside),
            for_values=for_values,
        )
        return release, replace(draft, used=used)

    def _certificate(self, kinds: Iterable[Kind], sanitizer: Sanitizer | None) -> Certificate:
        """Of a release in which these kinds occur, with what perturbs the rest, if anything."""
        return certificate_of(
            frozenset(kinds),
            tuple(self.kinds.items()),
            None if sanitizer is None else sanitizer.certificate,
            common=self.rest is not None,
            allows=self._lists is not None and self._lists.allow != (),
            keyed=self._law is not None,
        )


def _spoken(draft: PseudonymDraft, language: str) -> PseudonymDraft:
    """With kinds of a language, and dates and phone numbers as they are read in it."""
    places = list(draft.places)
    for n, (start, end, kind, shape) in enumerate(places):
        if isinstance(kind, Spoken) and kind.language is None:
            kind = kind.of(language)
            parts = kind.parts(draft.text[start:end]) if kind.numeric else []
            if [part[:2] for part in parts] == [(0, end - start)]:
                shape = parts[0].shape
            places[n] = Mention(start, end, kind, shape)
    return replace(draft, places=tuple(places))


class MappedSession(Session):
    """A session whose conversations have mappings, in memory or sealed in its memo."""

    sanitizer: Any  # Pseudonyms, which make their session
    restores = True

    def _keep(self, seal: Seal | None) -> Self:
        self._seal, self._mappings_lock = seal, Lock()
        self._mappings: OrderedDict[bytes, Mapping] = OrderedDict()
        return self

    def alone(self) -> Self:
        """Does as that of a session, in the same ledger's and subject's name."""
        return self._with(self.sanitizer)._keep(None)

    def _way_back(
        self,
        notebook: Notebook,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> tuple[Restorers, tuple[str, ...]]:
        """Restorers of those pseudonyms that were written here; hosts are named by the user."""
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

        def restorer(json: bool, shown: bool) -> Restorer | JsonRestorer:
            kind: type[Restorer | JsonRestorer] = JsonRestorer if json else Restorer
            return kind(names, hosts=hosts if shown else None)

        return restorer, tuple(used)

    def _releaser(self, within: bytes) -> Releaser:
        releaser: Releaser = self.sanitizer.bound(self._mapping(within))
        return releaser

    def _conversation(self, name: str) -> bytes:
        """Where mappings are in memory alone, a conversation whose mapping was dropped is another.

        Nobody could restore its releases, and their pseudonyms might be drawn again.
        """
        within = super()._conversation(name)
        return within if self._seal is not None else within + self._mapping(within).name

    def _mapping(self, within: bytes) -> Mapping:
        with self._mappings_lock:
            if (mapping := self._mappings.get(within[:_DIGEST])) is None:
                seal, kinds = self._seal, self.sanitizer.kinds
                mapping = Mapping() if seal is None else SealedMapping(within, seal, kinds)
                self._mappings[within[:_DIGEST]] = mapping
            self._mappings.move_to_end(within[:_DIGEST])
            if len(self._mappings) > _CONVERSATIONS:
                self._mappings.popitem(last=False)
        dropped = within[_DIGEST:] not in (b"", mapping.name)  # since the caller asked for its name
        return Mapping() if dropped else mapping

    def _loaded(self, within: bytes) -> Mapping:
        mapping = self._mapping(within)
        if self._seal is not None:
            with self._memo.exclusive() as entries, mapping.lock:
                mapping.load(entries)
        return mapping


def without_ledger(sanitizer: Sanitizer | None) -> Sanitizer | None:
    """Returns a sanitizer of tokens that charges nothing: all is charged before it draws."""
    if sanitizer is None:
        return None
    if isinstance(sanitizer.mechanism, TextMechanism):
        raise ParameterError("expected a sanitizer of tokens beside pseudonyms, got one of texts")
    twin = copy.copy(sanitizer)
    twin.ledger = twin.subject = None
    return twin


def _beside(
    sanitizer: Sanitizer,
    rest: Draft,
    draft: PseudonymDraft,
    written: list[str],
    certificate: Certificate,
) -> tuple[Release, Draft]:
    """Draws for the rest, and writes all of the text; also returns what was drawn."""
    ends = [0, *(end for _, end in draft.rest)]
    starts = [*(start for start, _ in draft.rest), len(draft.text)]
    frame = _apart([draft.filled(written, a, b) for a, b in zip(ends, starts, strict=True)])
    framed = replace(rest, public=frame)
    ((release, drawn),) = sanitizer.release_drafts([framed], lambda _: certificate)
    total = len(rest.ids) + sum(map(sanitizer.count, frame))
    verbatim = framed.tokens_verbatim - framed.public_tokens
    free = total - verbatim - len(rest.fresh)
    release = replace(release, tokens_total=total, tokens_verbatim=verbatim, tokens_free=free)
    return release, drawn


def _apart(frame: list[str]) -> tuple[str, ...]:
    """What stands around perturbed text, with blanks: no drawn word touches a pseudonym."""
    last = len(frame) - 1
    parted = [
        " " + piece if n > 0 and piece[:1].strip() else piece for n, piece in enumerate(frame)
    ]
    return tuple(p + " " if n < last and p[-1:].strip() else p for n, p in enumerate(parted))
