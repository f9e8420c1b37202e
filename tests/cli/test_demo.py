"""The demo on a toy space: what it shows, and when it asks a chat model."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from support.contract import OpenAIServer

import dp_middleware as dp
from dp_middleware import embedding
from dp_middleware.cli import demo, demo_model

VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "DP_EXTRACTOR", "DP_DEMO_MODEL")
WORDS = tuple(dict.fromkeys(demo.DOCUMENT.split()))


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """The document's own words as the default space, and an environment that names no model."""
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6))
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(demo_model, "_NEEDED", ("no_such_package",))
    return space


def shown(width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    demo.run(console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_it_shows_both_releases_and_what_they_are_worth(width):
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.replace("│", " ").split())
    for expected in ("epsilon 10", "epsilon 3", "claimed", "(exact)", "attacker"):
        assert expected in flat
    assert "pip install '.[demo]'" in flat
    assert "set OPENAI_BASE_URL" in flat
    assert "Done in" in flat


@pytest.mark.parametrize("epsilon", demo.EPSILONS)
def test_marks_are_the_tokens_that_came_through(toy, epsilon):
    sample = demo.release(toy, epsilon)
    ids = toy.vocabulary.encode(demo.DOCUMENT)
    expected = [
        toy.vocabulary.tokens[i] == token for i, token in zip(ids, sample.tokens, strict=True)
    ]
    assert list(sample.same) == expected
    assert sample.sanitizer.certificate.epsilon <= epsilon
    assert sample.sanitizer.certificate.method == "exact"


@pytest.mark.parametrize(
    ("variables", "remote", "extractor"),
    [
        ({}, None, None),
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-4o-mini", None),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, "openai:m", None),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_MODEL": "m"},
            "openai:m@http://127.0.0.1:1/v1",
            "openai:m@http://127.0.0.1:1/v1",
        ),
        (
            {"OPENAI_BASE_URL": "https://127.0.0.1.example.com/v1", "OPENAI_MODEL": "m"},
            "openai:m@https://127.0.0.1.example.com/v1",
            None,
        ),
        ({"OPENAI_API_KEY": "k", "DP_EXTRACTOR": "hf:x"}, "openai:gpt-4o-mini", "hf:x"),
    ],
)
def test_models_that_the_environment_names(monkeypatch, variables, remote, extractor):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert demo.remote_spec() == remote
    assert demo.extractor_spec(remote or "") == extractor


def test_without_a_local_extractor_nothing_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(demo, "_ask", None)
    assert "it must be local" in " ".join(shown().split())


def test_a_failing_model_is_one_line(monkeypatch):
    def fail(*args, **options):
        raise dp.RemoteError("the remote model failed: timeout")

    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setattr(dp.InferDPT, "run", fail)
    assert "No InferDPT round trip: the remote model failed: timeout" in shown()


def test_the_round_trip_on_a_local_server(monkeypatch):
    with OpenAIServer("a local answer") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        text = shown()
    assert "what it answered" in text
    assert "a local answer" in text
    first, second = (str(request) for request in server.requests)
    assert demo.DOCUMENT not in first
    assert demo.DOCUMENT in second
