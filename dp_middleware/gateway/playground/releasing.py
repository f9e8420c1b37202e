"""Ways to release a typed text, and all that the page tells of a release. **Private**."""

from __future__ import annotations

import copy
import math
from asyncio import to_thread
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from dp_middleware._waits import told
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate, LedgerError, ParameterError
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.fields import flag, number, one_of, record, text
from dp_middleware.gateway.playground import marks
from dp_middleware.gateway.playground.marks import Drawn, Releaser
from dp_middleware.gateway.service import Gateway
from dp_middleware.gateway.settings import PATHS
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.privacy.wording import guess, nats, recovery, sentence
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.calibrated import document_sanitizer, sanitizer
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.explanation import Alternative, Explanation, explain
from dp_middleware.sanitizers.sanitizer import Sanitizer

LONGEST = 20_000  # characters of a text

_RANGE = (0.1, 1000.0)  # nats
_CHECKS = {"text": text, "epsilon": number(*_RANGE), "ask": flag}
_SUBJECT = "playground"  # whose budget is charged
_KEPT = 8  # settings that stay in memory: making one may take minutes

Ask = Callable[[str], Awaitable[str]]  # a chat model: a released text in, its answer out


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
    """Pseudonyms, whole texts, words, and pseudonyms with words.

    A ledger is charged for the subject ``playground``; default: nothing is.
    """
    payer: dict[str, Any] = {} if ledger is None else {"ledger": ledger, "subject": _SUBJECT}

    def words(epsilon: float) -> Sanitizer:
        return sanitizer(epsilon, space=space, **payer)

    return (
        Choice(
            *("pseudonyms", "Pseudonyms"),
            "Names, contacts, dates and amounts get stand-ins, which are turned back in the "
            "answer. What is not found goes out as it is.",
            "value",
            lambda _: Pseudonyms(detector, on_empty="pass", **payer),
        ),
        Choice(
            *("text", "Whole text"),
            "A few public words and phrases are drawn for all of it; nothing else goes out.",
            "text",
            lambda epsilon: document_sanitizer(epsilon, space, **payer),
            25.0,
        ),
        Choice(
            *("words", "Every word"),
            "Each token is replaced by a draw whose exact epsilon is the one you choose.",
            "token",
            words,
            10.0,
        ),
        Choice(
            *("both", "Pseudonyms and every word"),
            "Stand-ins for what is found, and a draw for each token of the rest.",
            "token",
            lambda epsilon: Pseudonyms(detector, sanitizer=words(epsilon)),
            10.0,
        ),
    )


def policy_choices(gateway: Gateway) -> list[Choice]:
    """The gateway's policies, each with what its routes release with; their epsilon is fixed."""
    settings, choices = gateway.settings, list[Choice]()
    for place, (name, policy) in enumerate(settings.policies.items()):
        releaser = gateway.sessions.releaser(name, _SUBJECT)
        certificate = releaser.certificate
        paths = [path for path in PATHS if settings.policy_of(path) == name]
        about = (
            f"Mode {policy.mode}, {nats(certificate.epsilon)} nats per {certificate.unit}; "
            f"used by {', '.join(paths) or 'no whole route'}."
        )
        choices.append(
            Choice(
                *(f"policy-{place}", f"Policy {name}", about, certificate.unit),
                make=lambda _, releaser=releaser: releaser,  # type: ignore[misc]
            )
        )
    return choices


async def echo(text: str) -> str:
    """A model in this process that repeats what it was sent."""
    return f"You wrote: {text}"


class Playground:
    """Releases the texts of the page; ``ask`` gets releases, where a request says so."""

    def __init__(
        self, choices: Sequence[Choice], ask: Ask | None = None, model: str | None = None
    ) -> None:
        self._choices = {choice.name: choice for choice in choices}
        self._ask, self._model = ask or echo, model
        self._lock = Lock()
        self._made = lru_cache(_KEPT)(self._make)

    @property
    def form(self) -> dict[str, Any]:
        """What the page asks for; public."""
        fields = ("name", "title", "about", "epsilon", "unit")
        return {
            "choices": [
                {field: getattr(choice, field) for field in fields}
                for choice in self._choices.values()
            ],
            "longest": LONGEST,
            "range": _RANGE,
            "model": self._model,
            "warning": Explanation.warning,
        }

    async def preview(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Tells what :meth:`release` would cost; nothing is charged, what is drawn is dropped."""

        def price() -> str:
            text, choice, epsilon = self._read(asked)
            releaser = self._releaser(choice, epsilon)
            free = copy.copy(releaser)
            free.ledger = free.subject = None
            return _budget(releaser, Drawn.of(free, text).release, is_ahead=True)

        return {"budget": await to_thread(price)}

    async def release(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns what the page shows for a request; JSON-ready, **private**.

        ``asked`` has ``text``, ``choice``, ``epsilon`` (nats, ``None`` where there are none to
        choose) and ``ask``: whether the model gets the release.
        """

        def page() -> tuple[dict[str, Any], Drawn]:
            text, choice, epsilon = self._read(asked)
            releaser = self._releaser(choice, epsilon)
            drawn = Drawn.of(releaser, text)
            return _page(releaser, drawn), drawn

        shown, drawn = await to_thread(page)
        return shown | (await self._answer(drawn) if asked["ask"] else {})

    def _read(self, asked: dict[str, Any]) -> tuple[str, Choice, float]:
        checks = {**_CHECKS, "choice": one_of(*self._choices)}
        given = record(checks, ("text", "choice", "ask"))(asked, "")
        text, choice = given["text"], self._choices[given["choice"]]
        if not text.strip() or len(text) > LONGEST:
            raise ParameterError(f"expected a text of at most {LONGEST} characters")
        return text, choice, float(given.get("epsilon", choice.epsilon) if choice.epsilon else 0)

    def _releaser(self, choice: Choice, epsilon: float) -> Releaser:
        try:
            with self._lock:  # the same is not made twice
                return self._made(choice.name, epsilon)
        except CannotCalibrate as error:  # whoever chose the epsilon is at the page
            raise Failure(400, str(error), "cannot_calibrate", param="epsilon") from None

    def _make(self, name: str, epsilon: float) -> Releaser:
        choice = self._choices[name]
        with told(f"setting up {choice.title}"):
            releaser = choice.make(epsilon)
            releaser.certificate  # noqa: B018 - computed at first use
        return releaser

    async def _answer(self, drawn: Drawn) -> dict[str, Any]:
        try:
            answer = await self._ask(drawn.release.text)
        except Exception as error:  # the release is paid for: it is shown whatever happens here
            return {"failed": failure_of(error).message}
        return {"answer": answer, "restored": drawn.restored(answer)}


def _page(releaser: Releaser, drawn: Drawn) -> dict[str, Any]:
    # what perturbs the text, or the rest of it; none for pseudonyms alone
    sanitizer = releaser.sanitizer if isinstance(releaser, Pseudonyms) else releaser
    certificate, tokens = drawn.release.certificate, drawn.tokens
    laws: Sequence[Alternative] = ()
    unexplained = "Nothing is drawn for what is not found: it goes out as it is."
    if sanitizer is not None and tokens is not None:
        terms = sanitizer.mechanism, sanitizer.space, sanitizer.certificate.epsilon
        try:
            laws, unexplained = explain(tokens, *terms).alternatives, ""
        except ParameterError:
            unexplained = "There is no law of each token alone that could be shown."
    if sanitizer is not None and isinstance(tokens, Draft):
        stays, vocabulary = {row.token: row.retention for row in laws}, sanitizer.space.vocabulary
        original = marks.of_original(drawn.text, drawn.spans, tokens, vocabulary, stays)
        released = marks.of_release(drawn.release.text, tokens, vocabulary)
    elif sanitizer is None:
        original = marks.of_names(drawn.text, drawn.originals.values())
        released = marks.of_names(drawn.release.text, drawn.originals)
    else:
        original = [marks.Piece(drawn.text, "changed")]
        released = [marks.Piece(drawn.release.text, "changed")]
    attackers = [recovery(sanitizer.certificate)] if sanitizer is not None else []
    return {
        "original": original,
        "released": released,
        "counts": Counter(piece.what for piece in original if piece.what != "blank"),
        "whole": certificate.unit in ("text", "sentence"),
        "words": [
            {"token": row.token, "count": row.count, "stays": row.retention, "likely": row.likely}
            for row in laws
        ],
        "unexplained": unexplained,
        "certificate": [sentence(certificate)],
        "attackers": [each for each in (*attackers, guess(certificate)) if each],
        "assumptions": list(certificate.assumptions),
        "budget": _budget(releaser, drawn.release),
        "pseudonyms": list(drawn.originals.items()),
    }


def _budget(releaser: Releaser, release: Release, *, is_ahead: bool = False) -> str:
    spends = f"{'A' if is_ahead else 'This'} release spends {nats(release.spent)} nats on this text"
    if not isinstance(releaser.ledger, PrivacyLedger) or releaser.subject is None:
        return f"{spends}. There is no ledger: nothing is charged."
    paid = f"{'It will be charged' if is_ahead else 'Charged'} {nats(release.charged)} nats to"
    paid = f"{spends}. {paid} {releaser.subject}"
    try:
        account = releaser.ledger.account(releaser.subject)
    except LedgerError:  # a release that was paid for is not lost
        return f"{paid}; what is left could not be read."
    left = "the budget is unlimited"
    if math.isfinite(account.remaining):  # four decimals, rounded down
        left = f"{math.floor(account.remaining * 1e4 + 1e-6) / 1e4:.10g} remain"
    paid = f"{paid}, {nats(account.spent)} in all; {left}."
    short = is_ahead and release.charged > account.remaining
    return f"{paid} That is too little: it would be refused." if short else paid
