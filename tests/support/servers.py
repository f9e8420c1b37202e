"""Servers, a small sanitizer, and one model of every kind.

The package is imported in the fixtures: the process that only hands out tests needs none of it.
"""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    pass


def free_port():
    """For a server of another process: one that no system gives to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as taken:
            if taken.connect_ex(("127.0.0.1", port)):
                return port


@pytest.fixture
def remote():
    from support.contract import OpenAIServer

    with OpenAIServer(reply="remote text") as server:
        yield server


@pytest.fixture
def local():
    from support.contract import OpenAIServer

    with OpenAIServer(reply="extracted answer") as server:
        yield server


@pytest.fixture(scope="session")
def sanitizer():
    from support.chat_models import WORDS

    import dp_middleware as dp

    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    return dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)


@pytest.fixture
def make():
    """``make(kind, url, timeout=10)``: a chat model through a vendor's real client."""
    from support.chat_models import build

    opened = []

    def made(kind, url, timeout=10):
        settings = {"api_key": "none", "timeout": timeout, "max_retries": 0}
        return build(kind, url, settings, opened)

    yield made
    for client in opened:
        client.close()
