"""The audit finds what is broken and leaves what is proved alone."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from support.cases import over
from support.known_bad import FirstTokenContext
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.lab.auditing import pairs
from dp_middleware.mechanisms.cape import CapeStrict
from dp_middleware.sampling import sampler as sampling


def test_the_bound_is_a_number_with_its_evidence():
    bound = dp.audit(dp.SanText(epsilon=8.0), random_space(tokens=20), samples=2000)
    assert isinstance(bound, float)
    assert (bound.epsilon, bound.failure_probability, bound.samples) == (bound, 1e-3, 6000)


def test_it_comes_close_to_the_loss_where_samples_allow():
    space = random_space(tokens=4, dimensions=2, seed=1)
    mechanism = dp.TokenExponential(epsilon=3.0)
    loss = dp.certify(mechanism, space).epsilon
    bound = dp.audit(mechanism, space, claim=0.01, samples=200_000, failure_probability=1e-9)
    assert 0.5 * loss < bound <= loss


REPEATS, RISK = 400, 0.2


def plausible(repeats):
    """Number of failures that is exceeded once in 10^9 test runs."""
    return int(stats.binom.isf(1e-9, repeats, RISK))


def failures(truth, *args, repeats=REPEATS, **options):
    """How many audits, each allowed to be wrong with probability 0.2, exceed the truth."""
    options = {"samples": 400, "failure_probability": RISK, **options}
    return sum(dp.audit(*args, **options) > truth for _ in range(repeats))


def two_on_a_line(eta):
    """Both laws and so the loss are known: half of a Laplace tail beyond 1/2."""
    space, tail = space_of([[0.0], [1.0]]), math.exp(-eta / 2) / 2
    return space, math.log((1 - tail) / tail)


@pytest.mark.slow
def test_it_rarely_fails():
    tight = dp.NearestResponse(epsilon=2.0, candidates=1)
    pair = random_space(tokens=2)
    assert failures(2.0, tight, pair) <= plausible(REPEATS)
    assert failures(2.0, tight, pair, texts=([0], [1])) <= plausible(REPEATS)
    space, loss = two_on_a_line(eta=2.0)
    noise = dp.MetricNoise(eta=2.0)
    few = 40  # rates in place of bounds fail in 8 of 10: missed once in 3,000 runs
    assert failures(loss, noise, space, samples=100, repeats=few) <= plausible(few)


@pytest.mark.slow
def test_rates_without_a_confidence_bound_fail_often(monkeypatch):
    def rates(hits, samples, risk):
        return (np.asarray(hits) / samples,) * 2

    monkeypatch.setattr(pairs, "clopper_pearson", rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        tight, pair = dp.NearestResponse(epsilon=2.0, candidates=1), random_space(tokens=2)
        assert failures(2.0, tight, pair) > plausible(REPEATS)
        assert failures(2.0, tight, pair, texts=([0], [1])) > plausible(REPEATS)


@pytest.mark.slow
def test_an_event_picked_from_many_shows_nothing_by_itself():
    space = space_of([[0.0], [0.0], *np.linspace(0, 1, 40)[:, None]])
    found = failures(0.0, dp.SanText(epsilon=0.1), space, texts=([0], [1]), claim=1.0)
    assert found <= plausible(REPEATS)


@over("length", [1, 2])
def test_only_fresh_draws_test_what_the_pilot_chose(length):
    """A pilot that tells the texts apart at sight counts for nothing if the test does not."""
    texts = tuple(np.array([token] + [5] * (length - 1)) for token in (3, 4))
    drawn = []

    def draw(text, count):
        drawn.append(count)
        return np.tile(text if len(drawn) <= 4 else texts[0], (count, 1))

    pair = pairs.TextPair(texts=texts, tokens=(3, 4), claim=1.0)
    finding = pairs.from_draws([pair], draw, 6, pairs.Sampling(1000, 1e-3, sampling.os_entropy))
    assert drawn == [250] * 4 + [500] * 2
    assert finding.draws == 2000
    assert finding.epsilon == 0.0


@pytest.mark.slow
def test_it_finds_what_is_wrong_nearly_always():
    space, loss = two_on_a_line(eta=4.0)
    assert loss > 2.5
    for _ in range(10):
        bound = dp.audit(dp.MetricNoise(eta=4.0), space, samples=500, claim=1.0)
        assert bound > bound.claim == 1.0


def test_long_texts_are_told_apart():
    """No two releases are equal; the changed token shows at its position alone."""
    space, mechanism = random_space(tokens=40), dp.NearestResponse(epsilon=3.0, candidates=1)
    texts = ([7] * 150 + [35], [7] * 150 + [36])
    bound = dp.audit(mechanism, space, texts=texts, samples=12_000, failure_probability=1e-9)
    assert 1.5 < bound <= 3.0


def test_the_claim_of_a_metric_mechanism_is_that_of_the_pair():
    space = space_of([[0.0], [1.0], [5.0]])
    for mechanism in (dp.SanText(epsilon=2.0), dp.MetricNoise(eta=2.0)):
        bound = dp.audit(mechanism, space, samples=400, texts=([0, 2], [0, 1]))
        assert bound.claim == pytest.approx(2.0 * 4.0)
        assert dp.audit(mechanism, space, samples=400, texts=([-1], [1])).claim == 2.0 * 5.0
        assert dp.audit(mechanism, space, samples=400, claim=0.5).claim == 0.5


@over("stretch", [1.0, 8.0])
def test_a_near_pair_is_found_beside_a_far_one(stretch):
    """SanText whose epsilon is right for far tokens and wrong for the two near ones."""
    space = space_of([[0.0], [0.1], [30.0]])

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Uneven(dp.SanText):
        def log_probs(self, ids, space):
            distances = space.distances(ids)
            return sampling.log_softmax(-0.5 * np.where(distances < 1, stretch, 1) * distances)

    bound = dp.audit(Uneven(epsilon=1.0), space, samples=50_000, failure_probability=1e-9)
    assert (bound > bound.claim) == (stretch > 1)
    if stretch > 1:
        assert bound.claim == pytest.approx(0.1)


def test_the_witness_of_texts():
    space = random_space(tokens=6)
    tight = dp.NearestResponse(epsilon=6.0, candidates=1)
    bound = dp.audit(tight, space, texts=([4, 1, 4], [4, 3, 4]), samples=2000)
    assert {bound.witness.token, bound.witness.other} == {"w1", "w3"}
    assert bound.witness.output == f"w4 {bound.witness.token} w4"
    unknown = dp.audit(tight, space, texts=([4, 1], [4, -1]), samples=2000)
    assert {unknown.witness.token, unknown.witness.other} == {"w1", None}
    assert bound.samples == 2 * 2000


SEEN, LOGITS = {"context": FirstTokenContext()}, {"logits": [[0.0] * 12]}
SHAPES = ([0.0] * 12, [[0.0] * 11], np.empty((0, 12)), "abc", [[math.nan] * 12])
TEXTS = [(([0],), "two texts"), (([0], [1, 2]), "of one length, got 1 and 2")]
TEXTS += [(([0, 1], [1, 0]), "one position, got 2"), (([0, 1], [0, 1]), "one position, got 0")]
TEXTS += [(([], []), "one position, got 0"), (([0], [12]), "expected ids in 0")]
TEXTS += [(([[0]], [[1]]), "one-dimensional"), (("a", "b"), "one-dimensional")]
TEXTS += [(([0.5], [1.0]), "integers")]
BAD = [("noise", {"texts": texts}, message) for texts, message in TEXTS]
BAD += [("contextual", {"logits": logits}, "logits") for logits in SHAPES]
BAD += [("channel", {name: -1}, name) for name in ("samples", "failure_probability", "claim")]
BAD += [("channel", LOGITS, "no logits="), ("noise", LOGITS, "no logits=")]
BAD += [("channel", SEEN, "texts="), ("channel", {"texts": ([0], [1]), **SEEN}, "no context=")]
BAD += [("contextual", {}, "logits= for cape-strict.* or texts= and context=")]
BAD += [("contextual", {"texts": ([0], [1])}, "context= for cape-strict")]
BAD += [("contextual", SEEN, "texts="), ("contextual", {**LOGITS, "texts": ([0], [1])}, "got both")]


@over("kind, options, message", BAD)
def test_bad_arguments_are_refused(kind, options, message):
    mechanism = {
        "channel": dp.SanText(epsilon=1.0),
        "noise": dp.MetricNoise(eta=1.0),
        "contextual": CapeStrict(epsilon=1.0, logit_bound=1.0),
    }[kind]
    with pytest.raises(dp.ParameterError, match=message):
        dp.audit(mechanism, random_space(), **options)


def test_what_is_no_mechanism_is_refused():
    with pytest.raises(dp.ParameterError, match="expected a mechanism, got str"):
        dp.audit("rantext", random_space())
