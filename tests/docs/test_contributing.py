"""The mechanism that CONTRIBUTING.md shows is all that its author has to write."""

import importlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from support.spaces import brute_force_loss
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware import embedding
from dp_middleware.cli import app
from dp_middleware.lab.evaluation import Texts

PAGE = (Path(__file__).parents[2] / ".github" / "CONTRIBUTING.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
WORDS = ("my", "left", "leg", "hurts", "since", "march", "and", "knee")
NAME = "randomized-response"


@pytest.fixture
def mechanism(tmp_path, monkeypatch):
    """The class of the page, from a file of its own and in the table of names."""
    (tmp_path / "randomized_response.py").write_text(EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.sys.modules, "randomized_response", raising=False)
    kind = importlib.import_module("randomized_response").RandomizedResponse
    monkeypatch.setitem(dp.MECHANISMS, kind.name, kind)
    return kind


@pytest.fixture
def space(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
    words = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    monkeypatch.setattr(embedding, "default_space", lambda: words)
    return words


def test_the_certificate_is_exact_and_calibration_meets_its_target(mechanism, space):
    certificate = dp.certify(mechanism(epsilon=3.0), space)
    assert certificate.method == "exact"
    assert certificate.epsilon == pytest.approx(3.0, abs=1e-9)
    assert certificate.epsilon >= brute_force_loss(mechanism(epsilon=3.0), space)
    calibrated = dp.calibrate(mechanism(epsilon=1.0), space, epsilon=2.0)
    assert 1.99 < dp.certify(calibrated, space).epsilon <= 2.0
    assert 1.0 < dp.audit(mechanism(epsilon=3.0), space, failure_probability=1e-9) <= 3.0


def test_texts_are_released_by_its_law(mechanism, space):
    release = dp.Sanitizer(mechanism(epsilon=3.0), space).release(" ".join(WORDS))
    assert set(release.text.split()) <= set(WORDS)
    sanitizer = dp.sanitizer(epsilon=3.0, mechanism=NAME, space=space)
    kept = sanitizer.release(" ".join(["knee"] * 4000)).text.split().count("knee")
    share = math.exp(3.0) / (math.exp(3.0) + len(WORDS) - 1)
    assert abs(kept - 4000 * share) < 6.5 * math.sqrt(4000 * share * (1 - share))  # 1 in 10^10


@pytest.mark.usefixtures("mechanism", "space")
def test_commands_take_its_name():
    def run(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    (certificate,) = run("certify", NAME, "--epsilon", "3")
    assert 2.99 < certificate["epsilon"] <= 3
    assert set(run("sanitize", "my knee hurts", "--mechanism", NAME)["text"].split()) <= {*WORDS}
    (row,) = (row for row in run("mechanisms") if row["name"] == NAME)
    assert all(row.values())  # claim, truth, summary, reference, guarantee


@pytest.mark.usefixtures("mechanism")
def test_it_is_evaluated_by_its_name(space):
    texts = Texts(name="complaints", texts=("my knee hurts", "my left leg hurts"))
    table = dp.evaluate(
        [NAME], [3.0], texts, space=space, attacks=["bayes"], metrics=["retention"], progress=False
    )
    values = {row["name"]: row["value"] for row in table.rows}
    assert 0 < values["bayes"] < 1
    assert 0 <= values["retention"] <= 1
