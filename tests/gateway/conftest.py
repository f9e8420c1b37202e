"""Gateways that many tests share: making one takes a while."""

from contextlib import ExitStack

import pytest


@pytest.fixture(scope="package")
def shared():
    """Three gateways by the mode of their policy; their upstreams remember all tests."""
    from support.gateway import running

    public = dict.fromkeys(("tools", "response_format", "stop"), "public")
    public["tool_originals"] = ["find"]
    modes = {
        "sanitizer": {"mode": "sanitizer"},
        "pseudonyms": {"mode": "pseudonyms", "on_empty": "pass"},
        "both": {"mode": "both"},
    }
    with ExitStack() as opened:
        yield {
            name: opened.enter_context(running(policies={"default": {**mode, **public}}))
            for name, mode in modes.items()
        }


@pytest.fixture
def gateway(shared):
    """Of the mode "sanitizer", with an upstream that has seen nothing and echoes."""
    return fresh(shared["sanitizer"])


@pytest.fixture
def names(shared):
    return fresh(shared["pseudonyms"])


@pytest.fixture
def both(shared):
    return fresh(shared["both"])


def fresh(running):
    running.upstream.requests.clear()
    running.upstream.raw.clear()
    running.upstream.mode, running.upstream.reply = "echo", "a fine answer"
    return running
