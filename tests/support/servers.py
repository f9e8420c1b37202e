"""Servers, a small sanitizer, and one model of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.chat_models import BUILDERS, WORDS, Make

import dp_middleware as dp
from dp_middleware.frameworks import ChatModel
from dp_middleware.testing import OpenAIServer


@pytest.fixture
def remote() -> Iterator[OpenAIServer]:
    with OpenAIServer(reply="remote text") as server:
        yield server


@pytest.fixture
def local() -> Iterator[OpenAIServer]:
    with OpenAIServer(reply="extracted answer") as server:
        yield server


@pytest.fixture(scope="session")
def sanitizer() -> dp.Sanitizer:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    return dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)


@pytest.fixture
def make() -> Iterator[Make]:
    """``make(kind, url, timeout=10)``: a chat model through a vendor's real client."""
    opened: list[Any] = []

    def build(kind: str, url: str, timeout: float = 10) -> ChatModel:
        settings = {"api_key": "none", "timeout": timeout, "max_retries": 0}
        return BUILDERS[kind](url, settings, opened)

    yield build
    for client in opened:
        client.close()
