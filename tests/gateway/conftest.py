"""Gateways that many tests share: making one takes a while."""

import pytest


@pytest.fixture(scope="package")
def shared():
    """Three gateways by the mode of their policy; their upstreams remember all tests."""
    from support.gateway import running

    public = {"tools": "public", "response_format": "public", "stop": "public"}
    public["tool_originals"] = ["find"]
    modes = {
        "sanitizer": {"mode": "sanitizer"},
        "pseudonyms": {"mode": "pseudonyms", "on_empty": "pass"},
        "both": {"mode": "both"},
    }
    from contextlib import ExitStack

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
    """Of the mode "pseudonyms"."""
    return fresh(shared["pseudonyms"])


@pytest.fixture
def both(shared):
    """Of the mode "both"."""
    return fresh(shared["both"])


def fresh(running):
    running.upstream.requests.clear()
    running.upstream.raw.clear()
    running.upstream.mode, running.upstream.reply = "echo", "a fine answer"
    return running
