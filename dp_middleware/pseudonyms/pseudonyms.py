"""Text in, text with pseudonyms out, certified; the mapping stays here."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self

from dp_middleware import _validate
from dp_middleware.conversation.memo import Entries
from dp_middleware.errors import CannotCalibrate, NothingFound, ParameterError
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Ledger, Payer, Release, check_payer, write_charge
from dp_middleware.pseudonyms.beside import read_rest, release_rest, without_ledger
from dp_middleware.pseudonyms.common import Word, only_common
from dp_middleware.pseudonyms.detection import entities_in
from dp_middleware.pseudonyms.detectors.ours import Strictness, default
from dp_middleware.pseudonyms.guarantee import certificate_of
from dp_middleware.pseudonyms.kinds import Kind, Kinds, default_kinds
from dp_middleware.pseudonyms.kinds.names import LOCALES
from dp_middleware.pseudonyms.labels import kind_of
from dp_middleware.pseudonyms.lists import Also, Lists, What, lists_of
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.rewriting import PseudonymDraft, count, places_of
from dp_middleware.pseudonyms.session import PseudonymSession
from dp_middleware.pseudonyms.structured import SIGNS, View, view_of
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Scope

OnEmpty = Literal["raise", "pass"]
Rest = Literal["common"] | None


class Pseudonyms(Payer):
    """Replaces the entities of a text by pseudonyms that a session can turn back.

    What stands for a value is drawn from the public list or pattern of its kind, whatever value of
    its kind and shape it is (0 nats); an amount, an age or a number stays near its value, at a
    stated loss for each, and the dates of a session move together. What is kept for usefulness
    (kind, place, shape, which mentions are equal, differences of dates) is public by declaration,
    and **what the detector misses goes out as it is**, unless a sanitizer perturbs it.

    Use it through :meth:`session`, also wherever an adapter takes a session.

    Args:
        detector: A function from a text to entities with their kinds, as
            :func:`~dp_middleware.pseudonyms.entities_of` reads them; it must run where raw text
            may go. Default: :func:`~dp_middleware.pseudonyms.default_detector`, of the
            extra ``detect``.
        kinds: Which kinds are replaced: their names, or for other parameters instances of
            :class:`~dp_middleware.pseudonyms.Kind`; default all that the detector knows. A kind
            without a law of its own gets labels such as ``NRP_4``.
        sanitizer: Perturbs the rest of the text, one token at a time; default none, so that
            the rest is public.
        on_empty: What happens to a text in which nothing is found, and which no sanitizer
            perturbs: ``"raise"``, or ``"pass"``: it goes out as it is.
        strictness: Of the default detector: ``"precise"``, ``"balanced"`` or ``"safe"``.
        language: Of the texts, public: its names are looked for, and drawn. Default: looked for are
            those of the language of each text, drawn American ones.
        rest: ``"common"``: of the rest of the text only words of a public list of English and
            signs go out; every other word and number becomes a label. Default: all of it goes out.
        allow: What is never replaced, and so public: texts, found in any case where words end,
            and compiled regular expressions.
        also: What is always replaced, also where it is allowed: a dict from texts, expressions or
            functions from a text to spans ``(start, end)``, to the kind of each.
        ledger: Charged before any draw; default that of the sanitizer.
        subject: Whose budget is charged; default that of the sanitizer.

    Raises:
        MissingExtra: The default detector, or a list, needs the extra ``detect``.
        ParameterError: An unknown kind, or a sanitizer whose guarantee does not add up with this.
    """

    remembers = True
    _mapping: Mapping  # of the conversation that it is bound to

    def __init__(
        self,
        detector: Any = None,
        kinds: Iterable[str | Kind] | None = None,
        sanitizer: Sanitizer | None = None,
        on_empty: OnEmpty = "raise",
        *,
        strictness: Strictness = "balanced",
        language: str | None = None,
        rest: Rest = None,
        allow: Iterable[What] = (),
        also: Also = (),
        ledger: Ledger | None = None,
        subject: str | None = None,
    ) -> None:
        _validate.one_of(("raise", "pass"), on_empty=on_empty)
        if rest is not None:
            _validate.one_of(("common",), rest=rest)
        if rest is not None and sanitizer is not None:
            raise ParameterError("expected rest= or sanitizer=, got both: one rest, one law")
        self.on_empty, self.rest = on_empty, rest
        self._lists = lists_of(allow, also) or None
        if language is not None:
            _validate.one_of(tuple(LOCALES), language=language)
        self.kinds, self._asked = _chosen(kinds, language or "en")
        if rest is not None:
            self.kinds[Word.name] = Word()
        if detector is None:
            detector = default(self._asked, strictness, language)
        self._detector = detector
        self.sanitizer = without_ledger(sanitizer)
        own = (None, None) if sanitizer is None else (sanitizer.ledger, sanitizer.subject)
        self.ledger = own[0] if ledger is None else ledger
        self.subject = own[1] if subject is None else subject
        check_payer(self.ledger, self.subject)

    def __repr__(self) -> str:
        kinds = "all kinds" if self._asked is None else ", ".join(sorted(self._asked))
        rest = "public" if self.rest is None else "common words"
        return f"Pseudonyms({kinds}; the rest: {self.sanitizer or rest})"

    @property
    def certificate(self) -> Certificate:
        """Returns that of a release in which all kinds occur; of one with few it is better."""
        return self._certificate(self.kinds.values(), self.sanitizer)

    def session(self, key: bytes | None = None, **options: Any) -> PseudonymSession:
        """Makes a session that releases with pseudonyms and restores what comes back.

        Args:
            key: 32 bytes or more, for a ``memo=`` that outlives this process.
            options: As of :class:`~dp_middleware.Session`.
        """
        return PseudonymSession(self, key=key, **options)

    @property
    def release(self) -> NoReturn:
        """Not there: who would turn the pseudonyms back? Says what to call."""
        raise AttributeError(
            "Pseudonyms have no release: open a session, which can turn them back: session = "
            'pseudonyms.session(); session.release_once("user", text); session.restore(answer)'
        )

    @staticmethod
    def count(text: str) -> int:
        """Number of words and signs of a public text."""
        return count(text)

    def read(self, text: str, scope: Scope | None = None) -> PseudonymDraft:
        """Detect what is to be replaced in a text. Private; for sessions.

        Raises:
            ParameterError: Not a text, a scope, or a detector that failed.
        """
        if not isinstance(text, str):
            raise ParameterError(f"expected text of type str, got {type(text).__name__}")
        if scope is not None:
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        may_be_json = any(sign in text for sign in SIGNS)
        view = view_of(text) if may_be_json else View(raw=text, text=text, inner=text)
        detector, asked, lists = self._detector, self._asked, self._lists
        if lists is None:
            view, entities = entities_in(view, detector, asked)
            return PseudonymDraft(view=view, places=tuple(places_of(view, entities, self.kinds)))
        kinds = None if asked is None else asked | lists.kinds
        view, entities = entities_in(view, lists.detector(detector, asked), kinds, lists.kinds)
        places = tuple(places_of(view, entities, self.kinds))
        return PseudonymDraft(view=view, places=places, kept=tuple(lists.kept(view.text)))

    def naming(self, allow: Iterable[What] = (), also: Also = ()) -> Pseudonyms:
        """Returns the same with further things that are never, or always, replaced.

        Raises:
            ParameterError: As of :class:`Pseudonyms`.
        """
        twin = copy.copy(self)
        twin._lists = (self._lists or Lists()).added(allow, also)
        return twin

    def bound(self, mapping: Mapping) -> Self:
        """Returns the same for the texts of one conversation."""
        twin = copy.copy(self)
        twin._mapping = mapping
        return twin

    def kept_in(self, entries: Entries, now: float) -> AbstractContextManager[None]:
        """Reads the mapping as it was kept, and keeps it, with what is added, from now on."""
        return self._mapping.kept_in(entries, now)

    def release_drafts(
        self, drafts: Sequence[PseudonymDraft]
    ) -> list[tuple[Release, PseudonymDraft]]:
        """Charges, draws and writes in the conversation, one text after the other."""
        released = []
        with self._mapping.lock:
            for draft in drafts:
                release, used = self.release_draft(draft, self._mapping)
                released.append((release, replace(draft, used=used)))
        return released

    def release_draft(
        self, draft: PseudonymDraft, mapping: Mapping
    ) -> tuple[Release, tuple[str, ...]]:
        """Charges each new value that stays near, and new tokens; draws what is new; writes.

        Args:
            draft: From :meth:`read`.
            mapping: Of the conversation; its lock is held by the caller.

        Returns:
            The release, and the pseudonyms in it.

        Raises:
            BudgetExhausted: From the ledger; nothing was drawn.
            NothingFound: Nothing was found, and ``on_empty`` is ``"raise"``.
        """
        alone = self.sanitizer is None
        draft = draft.complete(mapping, public=alone)
        if self.rest is not None:
            draft = only_common(draft)
        elif alone and self.on_empty == "raise" and draft.text.strip() and not draft.places:
            raise NothingFound(
                "expected a text in which the detector finds something, got one in which it finds "
                'nothing and which would go out as it is; on_empty="pass" allows that'
            )
        kinds, sanitizer = {place.kind for place in draft.places}, self.sanitizer
        rest = None if sanitizer is None else read_rest(sanitizer, draft)
        certificate = self._certificate(kinds, sanitizer)
        priced = certificate if sanitizer is None else self._certificate(kinds, None)
        near = draft.near(mapping)
        for bill, n in ((priced, near), (certificate, 0 if rest is None else len(rest.fresh))):
            if self.ledger is not None and self.subject and n:
                self.ledger.charge(self.subject, bill, n)
        for _ in range(near):  # of the tokens the sanitizer does
            write_charge(priced)
        if rest is not None and sanitizer is not None:
            written, used = draft.written(mapping, ())
            release = release_rest(sanitizer, rest, draft, written, certificate)
            return replace(release, for_values=near * priced.epsilon), used
        allowed = () if self._lists is None else self._lists.texts
        written, used = draft.written(mapping, draft.public(allowed))
        text = draft.filled(written, 0, len(draft.text), draft.view)
        release = Release(
            text=text,
            certificate=certificate,
            tokens_total=count(text),  # not of the values: how many words they have is private
            tokens_verbatim=count("\n".join(draft.text[start:end] for start, end in draft.gaps)),
            for_values=near * priced.epsilon,
        )
        return release, used

    def _certificate(self, kinds: Iterable[Kind], sanitizer: Sanitizer | None) -> Certificate:
        """Of a release in which these kinds occur, with what perturbs the rest, if anything."""
        return certificate_of(
            frozenset(kinds),
            tuple(self.kinds.items()),
            None if sanitizer is None else sanitizer.certificate,
            common=self.rest is not None,
            allows=self._lists is not None and self._lists.allow != (),
        )

    def at(self, epsilon: float) -> Pseudonyms:
        """The same with its sanitizer calibrated to an epsilon.

        Raises:
            CannotCalibrate: There is no sanitizer: what pseudonyms lose is a matter of their kinds.
        """
        if self.sanitizer is None:
            raise CannotCalibrate("expected a sanitizer= to calibrate, got pseudonyms alone")
        twin = copy.copy(self)
        twin.sanitizer = self.sanitizer.at(epsilon)
        return twin

    def is_prepared(self, epsilon: float) -> bool:
        """As :meth:`Sanitizer.is_prepared`."""
        return self.sanitizer is None or self.sanitizer.is_prepared(epsilon)


def _chosen(
    kinds: Iterable[str | Kind] | None, language: str
) -> tuple[Kinds, frozenset[str] | None]:
    """The laws by name, and the kinds that are asked for; ``None``: all that are found."""
    laws = default_kinds(language)
    if kinds is None:
        return laws, None
    if isinstance(kinds, str):
        raise ParameterError("expected kinds as a collection of names, got one str")
    asked = list(kinds)
    own = {kind.name: kind for kind in asked if isinstance(kind, Kind)}
    names = {kind_of(kind) for kind in asked if not isinstance(kind, Kind)} | set(own)
    if not names:
        raise ParameterError("expected at least one kind, as a name or an instance of Kind")
    chosen = Kinds((name, own.get(name) or laws[name]) for name in names)
    return chosen, frozenset(names)
