"""Text in, text with pseudonyms out, certified; the mapping stays here."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal, NoReturn, get_args

from dp_middleware import _validate
from dp_middleware.errors import CannotCalibrate, ParameterError
from dp_middleware.privacy.releases import Ledger, check_payer
from dp_middleware.pseudonyms.common import Word
from dp_middleware.pseudonyms.detectors.ours import Detector, Strictness, default
from dp_middleware.pseudonyms.detectors.words import OnLanguage
from dp_middleware.pseudonyms.draws import Keyed
from dp_middleware.pseudonyms.kinds import Kind, Kinds, default_kinds
from dp_middleware.pseudonyms.kinds.names import LOCALES
from dp_middleware.pseudonyms.labels import VALIDATED, kind_of, refuse_slips
from dp_middleware.pseudonyms.lists import Also, Lists, What, lists_of
from dp_middleware.pseudonyms.releasing import PseudonymReleaser, without_ledger
from dp_middleware.pseudonyms.session import PseudonymSession
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import name_of


class Pseudonyms(PseudonymReleaser):
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
        language: Of the texts, public: its names are looked for, and its names, dates, streets and
            phone numbers drawn. Default: that of each text, as its words tell; drawn as those tell
            that go out, American ones with a detector of yours or a ``sanitizer``.
        on_language: What happens to a text whose rest goes out, in a language whose names the
            default detector does not know: ``"refuse"``; ``"warn"``: it is logged, and a note of
            the certificate; ``"pass"``: the latter alone. Default ``"refuse"``; with another
            detector, or only ``kinds`` that are told by their signs, nothing is judged.
        rest: ``"common"``: of the rest of the text only words of a public list of English and
            signs go out; every other word and number becomes a label. Default: all of it goes out.
        allow: What is never replaced, and so public: texts, found in any case where words end,
            and compiled regular expressions.
        also: What is always replaced, also where it is allowed: a dict from texts, expressions or
            functions from a text to spans ``(start, end)``, to the kind of each.
        law: ``"keyed"``: what stands for a value follows from the key and the value, so that all
            who have the key agree, and :meth:`original` needs no session; a computational
            guarantee, and no finite epsilon. Default: drawn, once for each session.
        key: Of the law ``"keyed"``: 16 secret bytes or more; never shown, pickled or logged.
        ledger: Charged before any draw; default that of the sanitizer.
        subject: Whose budget is charged; default that of the sanitizer.

    Raises:
        MissingExtra: The default detector, or a list, needs the extra ``detect``.
        ParameterError: An unknown kind, or a sanitizer whose guarantee does not add up with this.
    """

    def __init__(
        self,
        detector: Any = None,
        kinds: Iterable[str | Kind] | None = None,
        sanitizer: Sanitizer | None = None,
        on_empty: Literal["raise", "pass"] = "raise",
        *,
        strictness: Strictness = "balanced",
        language: str | None = None,
        on_language: OnLanguage | None = None,
        rest: Literal["common"] | None = None,
        allow: Iterable[What] = (),
        also: Also = (),
        law: Literal["keyed"] | None = None,
        key: bytes | None = None,
        ledger: Ledger | None = None,
        subject: str | None = None,
    ) -> None:
        _validate.one_of(("raise", "pass"), on_empty=on_empty)
        _validate.one_of((None, *get_args(OnLanguage)), on_language=on_language)
        _validate.one_of((None, "common"), rest=rest)
        _validate.one_of((None, "keyed"), law=law)
        _validate.one_of((None, *LOCALES), language=language)
        if sanitizer is not None and (rest or law):
            raise ParameterError("expected sanitizer= alone, got rest= or law= beside it")
        if (law is None) != (key is None):
            raise ParameterError('expected law="keyed" and key= together, got one of them')
        self._law = None if key is None else Keyed(key)
        self.on_empty, self.rest = on_empty, rest
        lists = lists_of(allow, also)
        self._lists = lists if lists.allow or lists.also else None
        self.kinds, self._asked = _chosen(kinds, language)
        if rest is not None:
            self.kinds[Word.name] = Word()
        if detector is None:
            detector = default(self._asked, strictness, language)
        self._detector, is_ours = detector, isinstance(detector, Detector)
        is_any = self._asked is not None and self._asked <= VALIDATED | {"secret"}
        judged = on_language or ("refuse" if is_ours else None)
        self.on_language = None if is_any or rest or sanitizer else judged
        self._is_told = is_ours and sanitizer is None and law is None
        self.sanitizer = without_ledger(sanitizer)
        self.ledger = getattr(sanitizer, "ledger", None) if ledger is None else ledger
        self.subject = getattr(sanitizer, "subject", None) if subject is None else subject
        check_payer(self.ledger, self.subject)

    def __repr__(self) -> str:
        kinds = "all kinds" if self._asked is None else ", ".join(sorted(self._asked))
        rest = "public" if self.rest is None else "common words"
        return f"Pseudonyms({kinds}; the rest: {self.sanitizer or rest})"

    @property
    def fingerprint(self) -> str:
        """Of all that decides a release; functions count by their names, also= texts by kind."""
        own, asked = self._detector, self._asked and sorted(self._asked)
        finds = (sorted(own.kinds), own.strictness, own.language) if type(own) is Detector else None
        lists = self._lists and self._lists.told
        told = [self.certificate.fingerprint, asked, finds or name_of(own), lists]
        told += [] if self._law is None else [self._law.name]
        return sha256(json.dumps([*told, self.on_empty, self.on_language]).encode()).hexdigest()

    def session(self, key: bytes | None = None, **options: Any) -> PseudonymSession:
        """Makes a session with pseudonyms; key and options are as of :class:`Session`."""
        return PseudonymSession(self, key=key, **options)

    def original(self, kind: str, pseudonym: str) -> str:
        """Returns the value that a pseudonym of a kind stands for, by the key alone. **Private**.

        So it is for ids, postal codes and phones of formats with a million texts or more, and for
        IBANs, whose letters come back as capitals. What no key made gives some other value.

        Raises:
            ParameterError: Another law, or a kind or format that a session restores alone.
        """
        law, one = self._law, self.kinds[kind]
        shapes = [p.shape for p in one.parts(pseudonym) if p[:2] == (0, len(pseudonym))]
        for shape in shapes:
            if law and (found := one.ciphered(pseudonym, shape, law, back=True)):
                return found
        raise ParameterError(
            'expected law="keyed" and a pseudonym in a format that is encrypted, of the kind id, '
            "zip, phone or iban; others come back by session.restore()"
        )

    @property
    def release(self) -> NoReturn:
        """Not there: who would turn the pseudonyms back? Says what to call."""
        raise AttributeError(
            "Pseudonyms have no release: open a session, which can turn them back: session = "
            'pseudonyms.session(); session.release_once("user", text); session.restore(answer)'
        )

    def naming(self, allow: Iterable[What] = (), also: Also = ()) -> Pseudonyms:
        """Returns the same with further things that are never, or always, replaced."""
        twin = copy.copy(self)
        twin._lists = (self._lists or Lists()).added(allow, also)
        return twin

    def at(self, epsilon: float) -> Pseudonyms:
        """Returns the same with its sanitizer, if it has one, calibrated to an epsilon."""
        if self.sanitizer is None:
            raise CannotCalibrate("expected a sanitizer= to calibrate, got pseudonyms alone")
        twin = copy.copy(self)
        twin.sanitizer = self.sanitizer.at(epsilon)
        return twin

    def is_prepared(self, epsilon: float) -> bool:
        """Does as :meth:`Sanitizer.is_prepared`."""
        return self.sanitizer is None or self.sanitizer.is_prepared(epsilon)


def _chosen(
    kinds: Iterable[str | Kind] | None, language: str | None
) -> tuple[Kinds, frozenset[str] | None]:
    """The laws by name, and the kinds that are asked for; ``None``: all that are found."""
    laws = default_kinds(language)
    if kinds is None:
        return laws, None
    asked = [] if isinstance(kinds, str) else list(kinds)
    if not asked:
        raise ParameterError("expected kinds as a collection of names and instances of Kind")
    own = {kind.name: kind for kind in asked if isinstance(kind, Kind)}
    names = {kind_of(kind) for kind in asked if not isinstance(kind, Kind)}
    refuse_slips(names)
    chosen = Kinds((name, own.get(name) or laws[name]) for name in names | set(own))
    return chosen, frozenset(chosen)
