"""The Python blocks of the pages in docs/ run, one after the other, as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dp_middleware as dp

DOCS = Path(__file__).parent.parent / "docs"
WORDS = ("my", "left", "knee", "has", "hurts", "hurt", "since", "march", "a", "surgery", "in", "it")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the pages take as given."""
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(1).normal(size=(len(WORDS), 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=4.0), space)
    return {"dp": dp, "sanitizer": sanitizer, "model": lambda messages: "a knee since march"}


def test_rewrites_conversations_and_budgets(names):
    for block in blocks("budgets.md"):
        exec(block, names)
    sanitizer, ledger = names["sanitizer"], names["ledger"]
    assert names["release"].text == "a knee since march"
    total = sanitizer.certificate.epsilon + 1.0
    assert names["release"].certificate.epsilon == pytest.approx(total, abs=1e-6)
    spent = sanitizer.certificate.epsilon
    assert ledger.spent("ana") == pytest.approx(spent, abs=1e-9)
    assert ledger.remaining("ana") == pytest.approx(100.0 - spent, abs=1e-9)
