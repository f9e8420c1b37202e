"""What pseudonyms do for a request: texts with them go out, and an answer finds the way back."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Lock
from typing import Any, Self

from dp_middleware.conversation.exchange import Restorers
from dp_middleware.conversation.notebook import Admitted, Notebook
from dp_middleware.conversation.releaser import Released, Releaser
from dp_middleware.conversation.session import Session
from dp_middleware.errors import NothingFound, ParameterError
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Payer, Release, open_receipts, write_charge
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.beside import read_rest, release_rest
from dp_middleware.pseudonyms.common import only_common
from dp_middleware.pseudonyms.detection import entities_in
from dp_middleware.pseudonyms.detectors.languages import OnLanguage, on_unknown
from dp_middleware.pseudonyms.detectors.words import language_of
from dp_middleware.pseudonyms.guarantee import certificate_of
from dp_middleware.pseudonyms.json_pieces import JsonRestorer
from dp_middleware.pseudonyms.keyed import Keyed
from dp_middleware.pseudonyms.kinds import Kinds
from dp_middleware.pseudonyms.lists import Lists
from dp_middleware.pseudonyms.mapping import Kind, Mapping, Spoken
from dp_middleware.pseudonyms.matching import Restorer
from dp_middleware.pseudonyms.rewriting import Mention, PseudonymDraft, count, places_of
from dp_middleware.pseudonyms.seal import Seal, SealedMapping
from dp_middleware.pseudonyms.structured import SIGNS, View, view_of
from dp_middleware.sampling.entropy import Entropy, os_entropy
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Scope

_CONVERSATIONS = 10_000  # whose mappings are in memory
_DIGEST = 32  # bytes of a conversation's keyed name


def seen(text: str, *, plain: bool = False) -> View:
    """What a reader sees of a text; of a plain one, which is no JSON, all as it is. Private."""
    if not plain and any(sign in text for sign in SIGNS):
        return view_of(text)
    return View(raw=text, text=text, inner=text)


class PseudonymReleaser(Payer):
    """Releases texts of a conversation with pseudonyms.

    Attributes:
        kinds: The laws, by name.
        sanitizer: Perturbs the rest of a text; ``None``: the rest is public.
        on_empty: What happens to a text in which nothing is found: ``"raise"`` or ``"pass"``.
        on_language: What happens to one in a language that is not known; ``None``: nothing.
        rest: ``"common"``: of the rest only common words go out.
    """

    remembers = True
    kinds: Kinds
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
        """Detects what is to be replaced in a text. Private; for sessions.

        Raises:
            ParameterError: Not a text, a scope, or a detector that failed.
        """
        if not isinstance(text, str):
            raise ParameterError(f"expected text of type str, got {type(text).__name__}")
        if scope is not None:
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        started, view, lists = time.perf_counter(), seen(text), self._lists
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
        """Charges each new value that stays near, and new tokens; draws what is new; writes.

        Args:
            draft: From :meth:`read`.
            mapping: Of the conversation; its lock is held by the caller.

        Returns:
            The release, and the draft with what was written and drawn.

        Raises:
            BudgetExhausted: From the ledger; nothing was drawn.
            NothingFound: Nothing was found, and ``on_empty`` is ``"raise"``.
            UnknownLanguage: See ``on_language``.
        """
        alone, mapping.law = self.sanitizer is None, self._law
        draft = draft.complete(mapping, public=alone)
        if self.rest is not None:
            draft = only_common(draft)
        outside = "\n".join(draft.text[start:end] for start, end in draft.gaps)
        notes = on_unknown(outside, self.on_language) if self.on_language else ()
        is_bare = alone and self.rest is None and not draft.places
        if is_bare and self.on_empty == "raise" and draft.text.strip():
            raise NothingFound(
                "expected a text in which the detector finds something, got one in which it finds "
                'nothing and which would go out as it is; on_empty="pass" allows that'
            )
        if self._is_told and (language := language_of(outside)) != "en":
            draft = _spoken(draft, language)
        near = draft.near(mapping)
        kinds, sanitizer = {place.kind for place in draft.places}, self.sanitizer
        rest = None if sanitizer is None else read_rest(sanitizer, draft)
        certificate = self._certificate(kinds, sanitizer)
        priced = certificate if sanitizer is None else self._certificate(kinds, None)
        for bill, n in ((priced, near), (certificate, 0 if rest is None else len(rest.fresh))):
            if self.ledger is not None and self.subject and n:
                self.ledger.charge(self.subject, bill, n)
        for _ in range(near):  # of the tokens the sanitizer does
            write_charge(priced)
        if rest is not None and sanitizer is not None:
            written, used = draft.written(mapping, ())
            release, drawn = release_rest(sanitizer, rest, draft, written, certificate)
            release = replace(release, for_values=near * priced.epsilon)
            return release, replace(draft, used=used, drawn=drawn)
        allowed = () if self._lists is None else self._lists.texts
        written, used = draft.written(mapping, draft.public(allowed))
        text = draft.filled(written, 0, len(draft.text), draft.view)
        release = Release(
            text=text,
            certificate=certificate.assuming(notes) if notes else certificate,
            tokens_total=count(text),  # not of the values: how many words they have is private
            tokens_verbatim=count(outside),
            for_values=near * priced.epsilon if near else 0.0,
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
    """A session with a mapping for each conversation."""

    sanitizer: Any  # Pseudonyms, which make their session
    restores = True
    _seal: Seal | None
    _mappings: OrderedDict[bytes, Mapping]
    _mappings_lock: Lock

    def alone(self) -> Self:
        """Does as that of a session, in the same ledger's and subject's name."""
        twin = self._with(self.sanitizer)
        twin._seal, twin._mappings, twin._mappings_lock = None, OrderedDict(), Lock()
        return twin

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

        return (
            lambda json, shown: (JsonRestorer if json else Restorer)(
                names, hosts=hosts if shown else None
            ),
            tuple(used),
        )

    def _releaser(self, within: bytes) -> Releaser:
        releaser: Releaser = self.sanitizer.bound(self._mapping(within))
        return releaser

    def _mapped(self, within: bytes) -> bytes:
        """Where mappings are in memory alone, a conversation whose mapping was dropped is another.

        Its releases and answers in the memo have pseudonyms that now nobody could restore, and
        that might be drawn for another value.
        """
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
