"""A typed text released, and all that the page tells of it. **Private**: for the page alone."""

from __future__ import annotations

import copy
import math
from asyncio import to_thread
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from dp_middleware._waits import told
from dp_middleware.errors import CannotCalibrate, LedgerError, ParameterError
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.fields import flag, number, one_of, record, text
from dp_middleware.gateway.playground import marks
from dp_middleware.gateway.playground.choices import Choice, Releaser
from dp_middleware.gateway.playground.marks import Drawn
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.privacy.releases import Release
from dp_middleware.privacy.wording import guess, nats, recovery, sentence
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.explanation import Alternative, Explanation, explain

LONGEST = 20_000
"""Characters of a text."""

_RANGE = (0.1, 1000.0)  # nats
_CHECKS = {"text": text, "epsilon": number(*_RANGE), "ask": flag}
_KEPT = 8  # settings that stay in memory: making one may take minutes

Ask = Callable[[str], Awaitable[str]]
"""A chat model: a released text in, its answer out."""


async def echo(text: str) -> str:
    """A model in this process that repeats what it was sent."""
    return f"You wrote: {text}"


class Playground:
    """Releases the texts of the page.

    Args:
        choices: What may be chosen.
        ask: Gets released texts only, where a request says so; default :func:`echo`.
        model: What the page calls it.
    """

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
        """Tells what :meth:`release` would cost; nothing is charged, what is drawn is dropped.

        Args:
            asked: As there.

        Raises:
            DPMiddlewareError: As there, but for a budget that is spent: it is said.
        """

        def price() -> str:
            text, choice, epsilon = self._read(asked)
            releaser = self._releaser(choice, epsilon)
            free = copy.copy(releaser)
            free.ledger = free.subject = None
            return _budget(releaser, Drawn.of(free, text).release, is_ahead=True)

        return {"budget": await to_thread(price)}

    async def release(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns what the page shows for a request; JSON-ready, **private**.

        Args:
            asked: ``text``, ``choice``, ``epsilon`` (nats, ``None`` where there are none to choose)
                and ``ask``: whether the model gets the release.

        Raises:
            ParameterError: Another field, or a value out of range.
            DPMiddlewareError: As :meth:`Session.release_once`.
        """
        shown, drawn = await to_thread(self._release, asked)
        return shown | (await self._answer(drawn) if asked["ask"] else {})

    def _release(self, asked: dict[str, Any]) -> tuple[dict[str, Any], Drawn]:
        text, choice, epsilon = self._read(asked)
        releaser = self._releaser(choice, epsilon)
        drawn = Drawn.of(releaser, text)
        return _page(releaser, drawn), drawn

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
    paid = f"{paid}, {nats(account.spent)} in all; {_left(account.remaining)}."
    short = is_ahead and release.charged > account.remaining
    return f"{paid} That is too little: it would be refused." if short else paid


def _left(remaining: float) -> str:
    """Four decimals, rounded down."""
    if math.isinf(remaining):
        return "the budget is unlimited"
    return f"{math.floor(remaining * 1e4 + 1e-6) / 1e4:.10g} remain"
