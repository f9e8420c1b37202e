"""A playground on a small space, whose detector knows its entities; nothing is chosen for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from starlette.applications import Starlette
from starlette.testclient import TestClient
from support.entities import detector
from support.letters import Letters

import dp_middleware as dp
from dp_middleware.gateway.limits import Gate
from dp_middleware.gateway.playground import Playground, default_choices, routes
from dp_middleware.gateway.settings import Limits
from dp_middleware.mechanisms import DocumentResponse
from dp_middleware.sanitizers.sanitizer import Sanitizer

SENTENCE = "the patient has a severe allergy to penicillin and lives in with her sister <b>"
WORDS = tuple(SENTENCE.split())
TEXT = "Mirela Tamburi has a severe allergy and lives in Berlin with her sister Zephyrine"
CHOICES = ("words", "text", "pseudonyms", "both")


def space() -> dp.EmbeddingSpace:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6))
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)


def playground(ledger=None, ask=None, model=None) -> Playground:
    """With a small codebook for whole texts."""
    options = {} if ledger is None else {"ledger": ledger, "subject": "playground"}
    words, text, *others = default_choices(space=space(), detector=detector(), ledger=ledger)

    def whole(epsilon):
        mechanism = DocumentResponse(epsilon=epsilon, rounds=1, codebook=("aab", "bbc", "cd"))
        return Sanitizer(mechanism, space(), encoder=Letters(), **options)

    text = replace(text, make=whole)
    return Playground((words, text, *others), *([] if ask is None else [ask, model]))


def served(made: Playground) -> Starlette:
    """An application with nothing else."""
    return Starlette(routes=routes(lambda: made, Gate(Limits())))


def client(made: Playground, **headers) -> TestClient:
    """A browser on this computer that shows the page."""
    return TestClient(
        served(made),
        base_url="http://127.0.0.1:8080",
        client=("127.0.0.1", 50000),
        headers={"origin": "http://127.0.0.1:8080", **headers},
    )
