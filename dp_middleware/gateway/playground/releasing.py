"""Ways to release a typed text, and all that the page tells of a release. **Private**."""

from __future__ import annotations

import copy
import math
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from dp_middleware._waits import told
from dp_middleware.conversation.session import Session, session_of
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate, LedgerError, ParameterError
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.fields import flag, number, one_of, record, text as a_text
from dp_middleware.gateway.service import Gateway
from dp_middleware.gateway.settings import PATHS
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.privacy.wording import guess, nats, recovery, sentence
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.matching import Names
from dp_middleware.pseudonyms.releasing import PseudonymSession
from dp_middleware.pseudonyms.rewriting import ordinary
from dp_middleware.sanitizers.calibrated import document_sanitizer, sanitizer
from dp_middleware.sanitizers.explanation import Explanation
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.vocabulary import Vocabulary

Releaser = Sanitizer | Pseudonyms
Ask = Callable[[str], Awaitable[str]]  # a chat model: a released text in, its answer out
Piece = tuple[str, str, float | None]  # text; "plain", "token", "pseudonym"; how likely it stays
LONGEST = 20_000  # characters of a text

_RANGE = (0.1, 1000.0)  # nats
_SUBJECT = "playground"  # whose budget is charged
_KEPT = 8  # settings that stay in memory: making one may take minutes
_ALL = "The whole text was replaced; nothing of it is public."
_NO_DRAWS = "Nothing is drawn for what is not found: it goes out as it is."
_NO_LAW = "There is no law of each token alone that could be shown."


@dataclass(frozen=True)
class Choice:
    """A way to release a text."""

    name: str  # in requests
    title: str  # on the page
    about: str  # a sentence on the page: what it protects
    unit: str  # what epsilon is paid for
    make: Callable[[float], Releaser]  # what releases at such an epsilon; may take minutes
    epsilon: float | None = None  # nats that stand in the form, if there are any to choose


def default_choices(
    *, space: EmbeddingSpace | None = None, detector: Any = None, ledger: Ledger | None = None
) -> tuple[Choice, ...]:
    """Makes the library's defaults; a ledger is charged for the subject ``playground``."""
    payer: dict[str, Any] = {} if ledger is None else {"ledger": ledger, "subject": _SUBJECT}

    def words(epsilon: float) -> Sanitizer:
        return sanitizer(epsilon, space=space, **payer)

    found = "Names, contacts, dates and amounts get stand-ins. What is not found goes out as it is."
    whole = "A few public words and phrases are drawn for all of it; nothing else goes out."
    drawn = "Each token is replaced by a draw whose exact epsilon is the one you choose."
    mixed = "Stand-ins for what is found, and a draw for each token of the rest."
    names = lambda _: Pseudonyms(detector, on_empty="pass", **payer)  # noqa: E731
    text = lambda epsilon: document_sanitizer(epsilon, space, **payer)  # noqa: E731
    both = lambda epsilon: Pseudonyms(detector, sanitizer=words(epsilon))  # noqa: E731
    return (
        Choice("pseudonyms", "Pseudonyms", found, "value", names),
        Choice("text", "Whole text", whole, "text", text, 25.0),
        Choice("words", "Every word", drawn, "token", words, 10.0),
        Choice("both", "Pseudonyms and every word", mixed, "token", both, 10.0),
    )


def policy_choices(gateway: Gateway) -> list[Choice]:
    """Makes those of a gateway's policies, with what its routes release with; epsilon is fixed."""
    settings, choices = gateway.settings, list[Choice]()
    for place, (name, policy) in enumerate(settings.policies.items()):
        releaser = gateway.sessions.releaser(name, _SUBJECT)
        certificate = releaser.certificate
        paths = [path for path in PATHS if settings.policy_of(path) == name]
        about = (
            f"Mode {policy.mode}, {nats(certificate.epsilon)} nats per {certificate.unit}; "
            f"used by {', '.join(paths) or 'no whole route'}."
        )
        make: Any = lambda _, releaser=releaser: releaser  # noqa: E731
        choices.append(Choice(f"policy-{place}", f"Policy {name}", about, certificate.unit, make))
    return choices


async def echo(text: str) -> str:
    """Stands for a model: repeats what it was sent."""
    return f"You wrote: {text}"


class Playground:
    """Releases the texts of the page; ``ask`` gets releases, where a request says so."""

    def __init__(
        self, choices: Sequence[Choice], ask: Ask | None = None, model: str | None = None
    ) -> None:
        self._choices = {choice.name: choice for choice in choices}
        self._ask, self._model = ask or echo, model
        names, checks = one_of(*self._choices), {"text": a_text, "epsilon": number(*_RANGE)}
        self._read = record({**checks, "choice": names, "ask": flag}, ("text", "choice", "ask"))
        self._lock = Lock()
        self._made = lru_cache(_KEPT)(self._make)

    @property
    def form(self) -> dict[str, Any]:
        """What the page asks for; public."""
        fields = ("name", "title", "about", "epsilon", "unit")
        choices = self._choices.values()
        return {
            "choices": [{name: getattr(choice, name) for name in fields} for choice in choices],
            "longest": LONGEST,
            "range": _RANGE,
            "model": self._model,
            "warning": Explanation.warning,
        }

    async def preview(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Tells what :meth:`release` would cost; nothing is charged, what is drawn is dropped."""

        def price() -> str:
            releaser, text = self._asked(asked)
            free = copy.copy(releaser)
            free.ledger = free.subject = None
            return _budget(releaser, _released(free, text)[1], is_ahead=True)

        return {"budget": await to_thread(price)}

    async def release(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns what the page shows for a request, which may ask the model; **private**."""

        def page() -> tuple[dict[str, Any], Session, Release]:
            releaser, text = self._asked(asked)
            session, release = _released(releaser, text)
            return _page(releaser, text, session, release), session, release

        shown, session, release = await to_thread(page)
        if not asked["ask"]:
            return shown
        try:
            answer = await self._ask(release.text)
        except Exception as error:  # the release is paid for: it is shown whatever happens here
            return {**shown, "failed": failure_of(error).message}
        restored = session.restore(answer) if isinstance(session, PseudonymSession) else None
        return {**shown, "answer": answer, "restored": restored}

    def _asked(self, asked: dict[str, Any]) -> tuple[Releaser, str]:
        given = self._read(asked, "")
        text, choice = given["text"], self._choices[given["choice"]]
        if not text.strip() or len(text) > LONGEST:
            raise ParameterError(f"expected a text of at most {LONGEST} characters")
        epsilon = float(given.get("epsilon", choice.epsilon)) if choice.epsilon else 0.0
        try:
            with self._lock:  # the same is not made twice
                return self._made(choice, epsilon), text
        except CannotCalibrate as error:  # whoever chose the epsilon is at the page
            raise Failure(400, str(error), "cannot_calibrate", param="epsilon") from None

    def _make(self, choice: Choice, epsilon: float) -> Releaser:
        with told(f"setting up {choice.title}"):
            releaser = choice.make(epsilon)
            releaser.certificate  # noqa: B018 - computed at first use
        return releaser


def _released(releaser: Releaser, text: str) -> tuple[Session, Release]:
    """Releases a text, in a conversation of its own."""
    with told("reading the text"):
        session = session_of(releaser)
        return session, session.release_once("user", text)


def _page(releaser: Releaser, text: str, session: Session, release: Release) -> dict[str, Any]:
    # what perturbs the text, or the rest of it; none for pseudonyms alone
    sanitizer = releaser.sanitizer if isinstance(releaser, Pseudonyms) else releaser
    originals = session.mapping() if isinstance(session, PseudonymSession) else {}
    original, certificate = _pieces(text, originals.values()), release.certificate
    law, counts = None, f"{len(originals)} values got pseudonyms."
    unexplained, attackers = _NO_DRAWS, list[str | None]()
    if sanitizer is not None:
        unexplained, attackers = _NO_LAW, [recovery(sanitizer.certificate)]
        with suppress(ParameterError):
            law = sanitizer.explain(" ".join(part for part, what, _ in original if what == "plain"))
            original = _with_chances(original, law, sanitizer.space.vocabulary)
            drawn, stay = law.tokens_total - law.tokens_verbatim, 100 * law.expected_retention
            counts = f"{drawn} tokens are drawn for; on average {stay:.0f} % of them stay."
    return {
        "original": original,
        "released": _pieces(release.text, originals),
        "counts": _ALL if certificate.unit in ("text", "sentence") else counts,
        "words": [
            {"token": row.token, "count": row.count, "stays": row.retention, "likely": row.likely}
            for row in (law.alternatives if law is not None else ())
        ],
        "unexplained": "" if law else unexplained,
        "certificate": [sentence(certificate)],
        "attackers": [each for each in (*attackers, guess(certificate)) if each],
        "assumptions": list(certificate.assumptions),
        "budget": _budget(releaser, release),
        "pseudonyms": list(originals.items()),
    }


def _pieces(text: str, names: Iterable[str]) -> list[Piece]:
    """Cuts a text into the names in it, in any case, and what stands between them."""
    cursor, pieces = 0, list[Piece]()
    for start, end, name in Names((name, name) for name in names).find(text):
        if not ordinary(text[start:end], name):
            pieces += [(text[cursor:start], "plain", None), (text[start:end], "pseudonym", None)]
            cursor = end
    return [piece for piece in (*pieces, (text[cursor:], "plain", None)) if piece[0]]


def _with_chances(pieces: list[Piece], law: Explanation, vocabulary: Vocabulary) -> list[Piece]:
    """Cuts what is plain into tokens, and what stands between these."""
    stays = {row.token: row.retention for row in law.alternatives}
    names, cut = (*vocabulary.tokens, "(unknown)"), list[Piece]()  # the last one, at -1
    for text, what, _ in pieces:
        cursor = 0
        for token in vocabulary.occurrences(text) if what == "plain" else ():
            start, end = (max(at, cursor) for at in (token.start, token.end))  # they may overlap
            cut += [(text[cursor:start], what, None)]
            cut += [(text[start:end], "token", stays.get(names[token.id]))]
            cursor = end
        cut.append((text[cursor:], what, None))
    return [piece for piece in cut if piece[0]]


def _budget(releaser: Releaser, release: Release, *, is_ahead: bool = False) -> str:
    who, verb = ("A", "It will be charged") if is_ahead else ("This", "Charged")
    spends = f"{who} release spends {nats(release.spent)} nats on this text."
    if not isinstance(releaser.ledger, PrivacyLedger) or releaser.subject is None:
        return f"{spends} There is no ledger: nothing is charged."
    paid = f"{spends} {verb} {nats(release.charged)} nats to {releaser.subject}"
    try:
        account = releaser.ledger.account(releaser.subject)
    except LedgerError:  # a release that was paid for is not lost
        return f"{paid}; what is left could not be read."
    left = "the budget is unlimited"
    if math.isfinite(account.remaining):  # four decimals, rounded down
        left = f"{math.floor(account.remaining * 1e4 + 1e-6) / 1e4:.10g} remain"
    short = is_ahead and release.charged > account.remaining
    refused = " That is too little: it would be refused." if short else ""
    return f"{paid}, {nats(account.spent)} in all; {left}.{refused}"
