"""A session with a ledger and a real server, without recorders."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.contract import OpenAIServer

import dp_middleware as dp
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

WORDS = tuple(f"w{k}x" for k in range(50))


class Desk:
    """What adapters are built from, as ``Probe`` gives it to the contract.

    Attributes:
        canary: A word that no vocabulary has.
        private_text: A text with it.
        remote: The model outside.
    """

    def __init__(self, folder: Path, remote: OpenAIServer) -> None:
        self.canary = "zxqvcanary"
        self.private_text = f"{self.canary} one two {self.canary} three"
        self.remote = remote
        self.ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}", budget=math.inf)

    def sanitizer(self, epsilon: float = 4.0) -> dp.Sanitizer:
        vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6))
        space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
        mechanism = dp.TokenExponential(epsilon=epsilon)
        return dp.Sanitizer(mechanism, space, ledger=self.ledger, subject="user")

    def session(self, **options) -> dp.Session:
        return dp.Session(self.sanitizer(), **{"key": bytes(range(32)), **options})

    def llama_openai(self, server: OpenAIServer | None = None, **settings):
        from llama_index.llms.openai import OpenAI

        url = (server or self.remote).url
        given = {"api_key": "sk-test", "max_retries": 0, **settings}
        return OpenAI(model="gpt-4o-mini", api_base=url, **given)

    @property
    def charges(self) -> list[int]:
        """Tokens of every release that was charged."""
        return [row.tokens for row in self.ledger.rows("user") if row.event == "charge"]


@pytest.fixture
def desk(tmp_path):
    with OpenAIServer() as remote:
        yield Desk(tmp_path, remote)


@pytest.fixture
def remote(desk):
    """The desk's, which repeats what it is sent and must see nothing of the entities."""
    from support.entities import private

    desk.remote.mode = "echo"
    yield desk.remote
    assert private(desk.remote) == []
