"""Certificates, their storage and their text."""

import dataclasses
import math

import numpy as np
import pytest
from support.cases import over, refuses
from support.spaces import brute_force_loss, random_space, space_of

import dp_middleware as dp
from dp_middleware.certification import calibration, certificates
from dp_middleware.mechanisms import base
from dp_middleware.vocabulary import frequencies


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(base, "_WORTH_STORING", 1)
    return tmp_path


def test_the_witness_attains_the_loss():
    space = random_space(tokens=30, seed=3)
    mechanism = dp.TokenExponential(epsilon=5.0)
    certificate = dp.certify(mechanism, space)
    witness = certificate.witness
    ids = {token: i for i, token in enumerate(space.vocabulary.tokens)}

    def log_prob(token):
        if token is None:
            return -math.log(len(space))
        return mechanism.log_probs([ids[token]], space)[0][ids[witness.output]]

    loss = log_prob(witness.token) - log_prob(witness.other)
    assert loss == pytest.approx(certificate.epsilon, abs=1e-9)


def test_the_unknown_symbol_is_an_input():
    """A uniform row can be farther from a token than any other token is."""
    known, unknown = (
        dp.certify(dp.TokenExponential(epsilon=3.0), random_space(seed=2, unknown=policy))
        for policy in ("raise", "uniform")
    )
    assert unknown.epsilon >= known.epsilon
    space = dp.EmbeddingSpace(dp.Vocabulary(["a", "b"]), [[1.0], [1.0]])
    assert dp.certify(dp.CusTextAggressive(epsilon=1.0, candidates=1), space).epsilon == math.inf


def test_dropping_unknown_tokens_is_a_leak():
    space = random_space(unknown="drop")
    certificate = dp.certify(dp.TokenExponential(epsilon=3.0), space)
    assert certificate.epsilon == math.inf
    assert isinstance(certificate.guarantee, dp.NoGuarantee)
    assert "dropped" in certificate.guarantee.reason
    assert certificate.metric is None
    for labels, finite in ((["known"] * 12, True), (["any"] * 13, False)):
        relation = dp.Adjacency.within(labels)
        found = dp.certify(dp.SanText(epsilon=3.0), space, adjacency=relation)
        assert (found.finite, found.metric) == (finite, None)  # it is of substitution
    policy = dp.KeepPolicy.words(["w1"], label="one word")  # hides nothing of this
    with pytest.raises(dp.InfiniteEpsilon):
        dp.Sanitizer(dp.TokenExponential(epsilon=3.0), space, policy=policy).release("w2 zxqv")


def test_a_stored_certificate_is_read_back_unless_it_is_damaged_or_of_other_code(
    cache, monkeypatch
):
    space, mechanism = random_space(tokens=20), dp.RanText(epsilon=3.0)
    computed = dp.certify(mechanism, space)
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "enumerate_pairs", None)  # would fail if computed again
        assert dp.certify(mechanism, space) == computed
    (path,) = (cache / "certificates").glob("*.json")
    path.write_text(path.read_text()[:40])
    assert dp.certify(mechanism, space) == computed
    monkeypatch.setattr(certificates, "code_fingerprint", lambda: "other")
    dp.certify(mechanism, space)
    assert len(list((cache / "certificates").glob("*.json"))) == 2


def test_a_calibration_is_read_back(cache, monkeypatch):
    space = random_space(tokens=20)
    found = dp.calibrate(dp.TokenExponential(epsilon=1.0), space, epsilon=3.0)
    monkeypatch.setattr(calibration, "_by_enumeration", None)  # would fail if computed again
    again = dp.calibrate(dp.TokenExponential(epsilon=7.0), space, epsilon=3.0)
    assert again == found
    assert dp.certify(again, space).epsilon <= 3.0
    with pytest.raises(TypeError):
        dp.calibrate(dp.TokenExponential(epsilon=1.0), space, epsilon=3.001)


def test_a_space_whose_code_is_unknown_does_not_read_it(cache):
    class Signs(dp.EmbeddingSpace):
        def cosine_rows(self, ids):
            return super().cosine_rows(ids).sign()

    space, mechanism = random_space(tokens=20), dp.TokenExponential(epsilon=3.0)
    own = Signs(space.vocabulary, space.vectors, device="cpu")
    assert own.fingerprint == space.fingerprint
    certificate = dp.certify(mechanism, space)
    true = brute_force_loss(mechanism, own)
    assert true != pytest.approx(certificate.epsilon, abs=1e-3)
    assert dp.certify(mechanism, own).epsilon == pytest.approx(true, abs=1e-9)
    assert dp.certify(mechanism, space) == certificate


def test_in_english_is_the_bayes_attack_that_knows_how_often_words_occur():
    words, _ = frequencies._words()
    tokens = [*words[:400], "w1", "w2"]  # frequent ones come first
    space = dp.EmbeddingSpace(
        dp.Vocabulary(tokens), np.random.default_rng(3).normal(size=(len(tokens), 6))
    )
    shares = frequencies.english(space.vocabulary)
    shares /= shares.sum()
    for mechanism in (
        dp.NearestResponse(epsilon=3.0, candidates=1, codebook=(3, 70, 149, 151)),
        dp.TokenExponential(epsilon=6.0),
    ):
        certificate = dp.certify(mechanism, space)
        attack = dp.attacks.bayes(mechanism, space, prior=shares).rate
        assert certificate.recovery_in_english == pytest.approx(attack, abs=1e-12)
        own = np.exp(mechanism.log_probs(np.arange(len(space)), space)).diagonal()
        assert certificate.retention_in_english == pytest.approx(float(shares @ own))
    other = dp.certify(dp.TokenExponential(epsilon=6.0), random_space())
    assert (other.recovery_in_english, other.retention_in_english) == (None, None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Broken(dp.TokenExponential):
    """A known-bad fixture: says it is an exponential mechanism and releases the token itself."""

    def log_probs(self, ids, space):
        rows = np.full((len(ids), len(space)), -np.inf)
        rows[np.arange(len(ids)), ids] = 0.0
        return rows


def test_a_subclass_does_not_inherit_a_stored_certificate(cache):
    space = random_space(tokens=20)
    assert dp.certify(dp.TokenExponential(epsilon=3.0), space).finite
    assert dp.certify(Broken(epsilon=3.0), space).epsilon == math.inf
    assert Broken(epsilon=3.0).fingerprint != dp.TokenExponential(epsilon=3.0).fingerprint
    with pytest.raises(dp.CannotCalibrate):
        dp.calibrate(Broken(epsilon=1.0), space, epsilon=3.0)
    assert dp.audit(Broken(epsilon=3.0), space) > 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shifted(dp.TokenExponential):
    """Known-bad: forgets to normalise, or overflows."""

    by: float

    def log_probs(self, ids, space):
        return super().log_probs(ids, space) + self.by


@over("by", [0.1, math.nan])
def test_rows_that_are_no_law_are_neither_certified_nor_drawn_from(by):
    space, wrong = random_space(tokens=20), Shifted(epsilon=1.0, by=by)
    with pytest.raises(dp.ParameterError, match="sum to one"):
        dp.certify(wrong, space)
    refuses("sum to one", dp.Sanitizer(wrong, space, accept_infinite=True).release, "w1")


@over("mechanism", [dp.SanText, dp.TruncatedExponential])
@over("epsilon", [0.1, 3.0, 30.0])
def test_the_metric_guarantee_holds_for_all_pairs(mechanism, epsilon):
    """Equal tokens, near and far ones; 0.6 of it would be false."""
    space = space_of([[0.0], [0.0], [0.01], *np.linspace(0, 1, 40)[:, None]])
    certificate = dp.certify(mechanism(epsilon=epsilon), space)
    rows = mechanism(epsilon=epsilon).log_probs(np.arange(43), space)
    losses = np.abs(rows[:, None, :] - rows[None, :, :]).max(axis=2)
    distances = space.distances(np.arange(43))
    found = certificate.metric
    assert (losses <= found.epsilon * distances + found.slack).all()
    assert (losses > 0.6 * found.epsilon * distances + found.slack).any()
    assert certificate.epsilon <= found.epsilon * space.diameter + found.slack
    assert certificate.guarantee == dp.PureDP(epsilon=certificate.epsilon)


def test_what_makes_no_sense_is_refused():
    mechanism = dp.TokenExponential(epsilon=1.0)
    within, space = dp.Adjacency.within, random_space()
    certify = lambda relation: dp.certify(mechanism, space, adjacency=relation)  # noqa: E731
    refuses("class labels", within, [[1], [2]], [math.nan, 1.0])
    refuses("expected 12 class labels", certify, *(within(range(n)) for n in (0, 11, 14)))
    refuses(r"dp\.Adjacency", certify, [0] * 12)
    refuses("expected a mechanism", lambda made: dp.certify(made, space), "rantext")
