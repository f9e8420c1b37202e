"""The demo: what its provider is sent, what its user reads, and what it says without a model."""

from __future__ import annotations

import importlib.util
import io
import re

import pytest
from rich.console import Console

from dp_middleware.cli import demo

pytest.importorskip("onnxruntime", reason="needs the extra detect")
pytest.importorskip("starlette", reason="needs the extra gateway")
from dp_middleware.cli import demo_provider

PRIVATE = ("Lopez", "acme", "77812", "1,249", "12 Oak", "Springfield", "555-0142", "March 3")
ANSWER = (
    "Dear Maria Lopez, order ORD-77812 was lost on its way. We are sorry, and refund $1,249.00."
)


@pytest.fixture
def without_models(monkeypatch):
    """As after an install of detection and the gateway only."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else there(name)
    )


@pytest.fixture
def provider(monkeypatch, without_models):
    made = demo_provider.Provider()
    monkeypatch.setattr(demo_provider, "Provider", lambda: made)
    return made


def shown(width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    demo.run(console)
    return console.file.getvalue()


def test_the_provider_sees_pseudonyms_and_the_user_reads_originals(provider):
    text = shown()
    sent = str(provider.bodies)
    assert len(provider.bodies) == 3  # the letter, the tool's result, the gateway
    assert [word for word in PRIVATE if word in sent] == []
    flat = " ".join(text.split())
    assert re.search(r'the model calls look_up_order\(\{"order": "(?!ORD)[A-Z]{3}-\d{5}"\}\)', flat)
    assert 'the tool is called look_up_order({"order": "ORD-77812"})' in flat
    assert f"the user reads {ANSWER}" in flat
    assert f"the client reads {ANSWER}" in flat
    assert "curl -N http://127.0.0.1:" in flat


def test_it_says_what_a_release_is_worth_and_what_is_not_there(provider):
    flat = " ".join(shown().split())
    assert "The model is a stand-in" in flat
    assert "needs the extra models" in flat
    assert "(10 nats per token, exact)" in flat
    assert "When to take which" in flat


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_a_terminal(provider, width):
    lines = [line.rstrip() for line in shown(width).splitlines() if "reads" not in line]
    assert max(map(len, lines)) <= width
