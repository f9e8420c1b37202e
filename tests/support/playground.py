"""A playground on a small space, whose detector knows its entities; nothing is chosen for it."""

from dataclasses import replace

import numpy as np
from starlette.applications import Starlette
from starlette.testclient import TestClient
from support.entities import detector
from support.letters import Letters

import dp_middleware as dp
from dp_middleware.gateway.playground import Playground, default_choices, routes
from dp_middleware.gateway.service import Gate
from dp_middleware.gateway.settings import Limits

SENTENCE = "the patient has a severe allergy to penicillin and lives in with her sister <b>"
WORDS = tuple(SENTENCE.split())
TEXT = "Mirela Tamburi has a severe allergy and lives in Berlin with her sister Zephyrine"
CHOICES = ("pseudonyms", "text", "words", "both")


def space():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6))
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)


def choices(ledger=None):
    """With a small codebook for whole texts."""
    payer = {} if ledger is None else {"ledger": ledger, "subject": "playground"}
    names, text, *others = default_choices(space=space(), detector=detector(), ledger=ledger)

    def whole(epsilon):
        mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=1, codebook=("aab", "bbc", "cd"))
        return dp.Sanitizer(mechanism, space(), encoder=Letters(), **payer)

    return (names, replace(text, make=whole), *others)


def playground(ledger=None, ask=None, model=None):
    """Whose model is an echo unless there is another."""
    return Playground(choices(ledger), ask, model)


def served(made):
    return Starlette(routes=routes(lambda: made, Gate(Limits())))


def client(made, **headers):
    """A browser on this computer that shows the page."""
    return TestClient(
        served(made),
        base_url="http://127.0.0.1:8080",
        client=("127.0.0.1", 50000),
        headers={"origin": "http://127.0.0.1:8080", **headers},
    )
