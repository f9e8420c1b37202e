"""Pipelines in the table: their own certificate, their released texts, and no charge."""

from __future__ import annotations

import numpy as np
import pytest
from support.entities import CONTRACT, HIDDEN, detector
from support.ledgers import Charges

import dp_middleware as dp
from dp_middleware.lab.evaluation import Texts
from dp_middleware.lab.evaluation.report import report

pytest.importorskip("rouge_score", reason="needs the eval extra")

ATTACKS = ("bayes", "bayes-uniform", "embedding-inversion")
METRICS = ("retention", "mapping-set-size", "rouge-l", "sbert-cosine", "diversity", "cost")
OF_TOKENS = {*ATTACKS, "retention", "mapping-set-size"}
NOT_ALIGNED = "needs a token released for each token, not a text for a text"
ANSWER = "a good film"


class Chat:
    """Answers always the same; keeps what it was sent."""

    model = "same"

    def __init__(self):
        self.seen = []

    def __call__(self, messages):
        self.seen.append(messages[-1]["content"])
        return ANSWER


@pytest.fixture
def unit(space):
    lengths = np.linalg.norm(space.vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(space.vocabulary, space.vectors / lengths)


@pytest.fixture
def rewrite(unit, letters):
    def make(kind=dp.PrivRewrite, model=None, **options):
        sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=1.0), unit, **options)
        model = Chat() if model is None else model
        return kind(sanitizer, generator=model, service=letters, k=2, epsilon_select=0.5)

    return make


@pytest.fixture
def run(unit, letters, reviews):
    def evaluate(*mechanisms, epsilons=(1.0, 3.0), data=reviews, **options):
        given = {"attacks": ATTACKS, "metrics": METRICS, "limit": 4, "tokens": 9, **options}
        return dp.evaluate(mechanisms, epsilons, data, space=unit, service=letters, **given)

    return evaluate


def test_a_rewrite_has_its_own_certificate_and_its_texts_are_measured(run, rewrite, reviews, unit):
    pipeline = rewrite()
    table = run("token-exponential", pipeline)
    rows = {row["name"]: row for row in table if row["mechanism"] == "privrewrite"}
    own = pipeline.certificate.epsilon
    assert own == pytest.approx(dp.certify(dp.TokenExponential(epsilon=1.0), unit).epsilon + 0.5)
    assert len(table) == 3 * len(rows) == 3 * len((*ATTACKS, *METRICS))  # once, not for each
    for row in rows.values():
        assert row["asked_epsilon"] == row["exact_epsilon"] == own
        assert row["nominal_epsilon"] is None
        assert row["fingerprint"] == pipeline.certificate.mechanism
        assert (row["method"], row["guarantee"]) == ("proof", "PureDP")
        assert row["text_epsilon"] == pytest.approx(9 * own)  # the longest has nine tokens
    assert {row["name"]: row["reason"] for row in rows.values() if row["reason"]} == dict.fromkeys(
        OF_TOKENS, NOT_ALIGNED
    )
    raw = [" ".join(text.split()[:9]) for text in reviews.texts[:4]]
    assert rows["rouge-l"]["value"] == dp.metrics.rouge_l(raw, [ANSWER] * 4).value
    assert rows["diversity"]["value"] == dp.metrics.diversity([ANSWER] * 4).value
    assert "privrewrite" in report(table)


def test_the_chat_model_of_a_rewrite_is_sent_what_was_sanitized(run, rewrite, unit):
    model = Chat()
    run(rewrite(model=model), metrics=("rouge-l",), attacks=())
    assert len(model.seen) == 2 * 4
    sent = [content.split("Text:\n")[1].split() for content in model.seen]
    assert {word for words in sent for word in words} <= set(unit.vocabulary.tokens)


def test_answers_are_to_what_the_pipeline_released(run, rewrite):
    chat = Chat()
    table = run(rewrite(), attacks=("ngram-leakage",), metrics=("answer-diversity",), chat=chat)
    assert all(row["value"] is not None for row in table)
    assert chat.seen
    assert all(content.endswith(f"\n\n{ANSWER}") for content in chat.seen)


def test_pseudonyms_are_measured_with_the_certificate_of_all_kinds(run):
    pytest.importorskip("faker", reason="the lists of names are of the extra detect")
    pipeline, charges, chat = dp.Pseudonyms(detector()), Charges(), Chat()
    data = Texts(name="contracts", texts=(CONTRACT, "Berlin, 2024-03-01"))
    options = {"attacks": ("bayes", "ngram-leakage"), "chat": chat, "tokens": 200}
    table = run(pipeline, data=data, metrics=("rouge-l", "retention"), **options)
    rows = {row["name"]: row for row in table}
    paying = dp.Pseudonyms(detector(), ledger=charges, subject="s")
    paying.session().release("1", "user", CONTRACT)
    ((_, epsilon, count),) = charges.rows
    assert count == 1  # the amount; the others are drawn independently of what they are
    for row in rows.values():
        assert row["mechanism"] == "pseudonyms"
        assert row["asked_epsilon"] == row["exact_epsilon"] == pipeline.certificate.epsilon
        assert row["text_epsilon"] == epsilon
    assert rows["bayes"]["reason"] == rows["retention"]["reason"] == NOT_ALIGNED
    assert 0.05 < rows["rouge-l"]["value"] < 0.9  # what is no entity stays
    assert len(chat.seen) == 2
    assert not any(value in content for value in HIDDEN for content in chat.seen)
    assert "signed" in chat.seen[0]
    assert pipeline.ledger is None


def test_a_ledger_is_refused(run, rewrite):
    paying = {"ledger": Charges(), "subject": "s"}
    for pipeline in (rewrite(**paying), dp.Pseudonyms(detector(), **paying)):
        with pytest.raises(dp.ParameterError, match="without a ledger"):
            run(pipeline)
    assert paying["ledger"].rows == []


def test_what_is_not_released_is_the_reason_of_all_rows(run, rewrite, reviews):
    def failing(messages):
        raise RuntimeError(messages[-1]["content"])

    table = run(dp.Pseudonyms(detector()), rewrite(model=failing))
    reasons = {row["mechanism"]: row["reason"] for row in table}
    assert "on_empty" in reasons["pseudonyms"]
    assert reasons["privrewrite"]
    assert not any(text in reason for text in reviews.texts for reason in reasons.values())
    assert {row["reason"] for row in table} == set(reasons.values())


def test_names_tell_pipelines_apart(run, rewrite):
    table = run(rewrite(), rewrite(dp.PrivRewriteNaive), metrics=("diversity",), attacks=())
    assert {row["mechanism"] for row in table} == {"privrewrite", "privrewrite-naive"}
    with pytest.raises(dp.ParameterError, match="different names"):
        run(rewrite(), rewrite())
    with pytest.raises(dp.ParameterError, match=r"InferDPT is chat="):
        run(object())


def test_a_pipeline_is_at_no_budget_of_a_text(run, rewrite, reviews):
    options = {"metrics": ("diversity",), "attacks": ()}
    pipeline = rewrite()
    budget = run("token-exponential", pipeline, budget_per_text=9.0, **options)
    assert [row["asked"] for row in budget] == ["text", "nominal"]
    assert list(budget.equal("diversity", reviews.name)) == ["token-exponential"]
    exact = run(pipeline, exact=True, **options).equal("diversity", reviews.name)
    ((epsilon, row),) = exact["privrewrite"].items()
    assert row["exact_epsilon"] == epsilon == pipeline.certificate.epsilon
