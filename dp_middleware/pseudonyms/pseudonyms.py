"""Text in, text with pseudonyms out, certified; the mapping stays here."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, NoReturn, Self, get_args

from dp_middleware import _validate
from dp_middleware.errors import CannotCalibrate, ParameterError
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy.releases import Ledger, check_payer
from dp_middleware.pseudonyms.detection import Entity, covered, entities_of, unmarked
from dp_middleware.pseudonyms.detectors.ours import Detector, Strictness, default
from dp_middleware.pseudonyms.detectors.words import OnLanguage
from dp_middleware.pseudonyms.draws import Keyed
from dp_middleware.pseudonyms.guarantee import Word
from dp_middleware.pseudonyms.kinds import Kind, Kinds, default_kinds
from dp_middleware.pseudonyms.kinds.names import LOCALES
from dp_middleware.pseudonyms.labels import VALIDATED, kind_of, refuse_slips
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.releasing import PseudonymReleaser, PseudonymSession
from dp_middleware.pseudonyms.rewriting import Span
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import name_of

# a text, found in any case where words end; a regular expression; a function to spans
What = str | re.Pattern[str] | Callable[[str], Iterable[Any]]
Also = Mapping[What, str] | Iterable[tuple[What, str]]  # what is always replaced, with its kind


def chosen_kinds(
    kinds: Iterable[str | Kind] | None, language: str | None
) -> tuple[Kinds, frozenset[str] | None]:
    """Returns the laws by name, and the kinds that are asked for; ``None``: all that are found."""
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


@dataclass(frozen=True)
class Lists:
    """What is never replaced, and what always is, which comes first."""

    allow: tuple[What, ...] = field(repr=False)
    also: tuple[tuple[What, str], ...] = field(repr=False)  # each with its kind

    @property
    def told(self) -> list[Any]:
        """What may be told of them: functions by name, and of private texts only their kind."""
        also = [(not isinstance(what, str) and _named(what), kind) for what, kind in self.also]
        return [[_named(what) for what in self.allow], also]

    def kept(self, text: str) -> list[Span]:
        """Returns what stays of a private text, but what is always replaced; disjoint, sorted."""
        if not self.allow:
            return []
        others = bytearray(b"\1") * len(text)
        for start, end in (span for what in self.allow for span in _spans(what, text)):
            others[start:end] = bytes(end - start)
        for start, end, _ in self._always(text):
            others[start:end] = b"\1" * (end - start)
        return list(unmarked(others, 0, len(text)))

    def detector(self, detector: Any, kinds: frozenset[str] | None) -> Callable[[str], Any]:
        """Makes a detector of these lists and another one."""

        def find(text: str) -> list[Entity]:
            always = self._always(text)
            taken = covered(len(text), [*self.kept(text), *always])
            found = entities_of(text, detector, kinds)
            parts = ((part, kind) for a, b, kind in found for part in unmarked(taken, a, b))
            return [*always, *(Entity(*part, kind) for part, kind in parts)]

        return find

    def _always(self, text: str) -> list[Entity]:
        return [Entity(*span, kind) for what, kind in self.also for span in _spans(what, text)]


def lists_of(allow: Iterable[What], also: Also) -> Lists:
    """Returns what is named by hand; what is neither text, expression nor function is refused."""
    try:
        pairs = tuple((what, kind_of(kind)) for what, kind in dict(also).items())
        allowed = None if isinstance(allow, str) else tuple(allow)
    except (TypeError, ValueError):
        allowed = None
    if allowed is None:
        raise ParameterError("expected collections, as allow=['Acme'], also={'Falcon': 'project'}")
    for what in (*allowed, *dict(pairs)):
        is_text = isinstance(what, str) and what.strip()
        if not (callable(what) or isinstance(what, re.Pattern) or is_text):
            kind = type(what).__name__
            raise ParameterError(f"expected texts, regular expressions or functions, got {kind}")
    return Lists(allowed, pairs)


def _named(what: What) -> Any:
    if isinstance(what, re.Pattern):
        return what.pattern, what.flags
    return [what] if isinstance(what, str) else name_of(what)


def _spans(what: What, text: str) -> Iterator[Span]:
    if isinstance(what, str):
        yield from ((start, end) for start, end, _ in Names([(what, None)]).find(text))
    elif isinstance(what, re.Pattern):
        yield from (match.span() for match in what.finditer(text) if match.group())
    else:
        yield from ((start, end) for start, end, *_ in what(text))


class Pseudonyms(PseudonymReleaser):
    """Replaces the entities of a text by pseudonyms that a session can turn back.

    What stands for a value is drawn from the public list or pattern of its kind, whatever value of
    its kind and shape it is (0 nats); an amount, an age or a number stays near its value, at a
    stated loss for each, and the dates of a session move together. What is kept (kind, place,
    shape, which mentions are equal, differences of dates) is public by declaration, and **what the
    detector misses goes out as it is**, unless a sanitizer perturbs it. Use :meth:`session`.

    Args:
        detector: A function from a text to entities with their kinds, as
            :func:`~dp_middleware.pseudonyms.entities_of` reads them, which may see raw text.
            Default: :func:`~dp_middleware.pseudonyms.default_detector`, of the extra ``detect``.
        kinds: Names, or for other parameters instances of
            :class:`~dp_middleware.pseudonyms.kinds.Kind`; default all that the detector knows. One
            without a law of its own gets labels such as ``NRP_4``.
        sanitizer: Perturbs the rest, one token at a time; default none: the rest is public.
        on_empty: ``"pass"`` lets a text out as it is in which nothing is found.
        strictness: Of the default detector: ``"precise"``, ``"balanced"`` or ``"safe"``.
        language: Of the texts, public: that of what is looked for and drawn. Default: as each
            text's words tell; drawn as those tell that go out, American names with a detector of
            yours or a ``sanitizer``.
        on_language: Of a text whose rest goes out, in a language whose names the default detector
            does not know: ``"refuse"``, the default; ``"warn"``: it is logged, and a note of the
            certificate; ``"pass"``: the latter alone. With another detector, or only ``kinds``
            that are told by their signs, nothing is judged by default.
        rest: ``"common"``: only words of a public list of English and signs go out of the rest;
            all others become labels. Default: all of it goes out.
        allow: What is never replaced, and so public: texts, found in any case where words end, and
            compiled regular expressions.
        also: What is always replaced, which comes first: a dict from texts, expressions or
            functions from a text to spans ``(start, end)``, to the kind of each.
        law: ``"keyed"``: what stands for a value follows from it and the key, so that all who have
            the key agree; no finite epsilon. Default: drawn, once for each session.
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
        self.kinds, self._asked = chosen_kinds(kinds, language)
        if rest is not None:
            self.kinds[Word.name] = Word()
        if detector is None:
            detector = default(self._asked, strictness, language)
        self._detector, is_ours = detector, isinstance(detector, Detector)
        is_any = self._asked is not None and self._asked <= VALIDATED | {"secret"}
        judged = on_language or ("refuse" if is_ours else None)
        self.on_language = None if is_any or rest or sanitizer else judged
        self._is_told = is_ours and sanitizer is None and law is None
        self.sanitizer = copy.copy(sanitizer)
        if self.sanitizer is not None:  # all is charged before it draws
            if isinstance(self.sanitizer.mechanism, TextMechanism):
                raise ParameterError("expected a sanitizer of tokens, got one of texts")
            self.sanitizer.ledger = self.sanitizer.subject = None
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

        Of ids, postal codes and phones of formats with a million texts or more, and of IBANs, in
        capitals; others raise ParameterError. What no key made gives some other value.
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

    def at(self, epsilon: float) -> Self:
        """Returns the same with its sanitizer, if it has one, calibrated to an epsilon."""
        if self.sanitizer is None:
            raise CannotCalibrate("expected a sanitizer= to calibrate, got pseudonyms alone")
        return self._with(sanitizer=self.sanitizer.at(epsilon))

    def is_prepared(self, epsilon: float) -> bool:
        """Does as :meth:`Sanitizer.is_prepared`."""
        return self.sanitizer is None or self.sanitizer.is_prepared(epsilon)
