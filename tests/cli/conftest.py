"""A toy space in place of the real ones; nothing of the user's is read or written."""

import pytest
from support.commands import toy_space
from support.letters import Letters

from dp_middleware import embedding


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    space = toy_space()
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DP_MIDDLEWARE_LEDGER", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    return space


@pytest.fixture
def letters(monkeypatch):
    """Sentence vectors without a model, for evaluations and attacks."""
    monkeypatch.setattr("dp_middleware.lab.evaluation.running.default_encoder", Letters)
