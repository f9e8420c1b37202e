"""What must be caught is caught, and what is proved passes: every kind of known mistake."""

import math

import numpy as np
import pytest
from support import known_bad
from support.cases import over
from support.known_bad import FirstTokenContext, on_the_circle, two_groups
from support.noise_laws import plane_law
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.mechanisms.cape import Cape, CapeStrict
from dp_middleware.mechanisms.stencil import DChiStencil, Stencil
from dp_middleware.sampling.sampler import os_entropy

# Draws where each takes a call of Python: at 800 a bound that refutes lies 4 to 20 standard
# deviations above its claim; tests where it would not take more draws.
FEW, MANY = 800, 1600
SURE = {"failure_probability": 1e-9}  # for bounds that must not exceed the truth
QUICK = SURE | {"samples": 400}  # which they do no sooner with few draws
SPACE = random_space(tokens=20, seed=2)

BAD = [
    (dp.RanText(epsilon=3.0), two_groups()),
    (dp.DynText(epsilon=3.0, candidates=5), SPACE),
    (dp.CusText(epsilon=3.0, candidates=5), SPACE),  # across classes
    (dp.CusTextAggressive(epsilon=3.0, candidates=5), SPACE),
    (dp.CusTextPlus(epsilon=3.0, candidates=20, kept=frozenset({"w5"})), SPACE),
    (dp.SanTextPlus(epsilon=1.0, non_sensitive=frozenset({"w5"})), SPACE),
]
GOOD = [dp.TokenExponential(epsilon=3.0), dp.CusTextStrict(epsilon=3.0, candidates=5)]
GOOD += [dp.RanTextStrict(epsilon=3.0), dp.DynTextStrict(epsilon=3.0, candidates=5)]
GOOD += [dp.NearestResponse(epsilon=3.0, candidates=2)]


@over("mechanism, space", BAD)
def test_channels_that_break_their_claim(mechanism, space):
    bound = dp.audit(mechanism, space, **SURE)
    assert bound > bound.claim == mechanism.claimed_epsilon
    assert bound <= dp.certify(mechanism, space).epsilon
    assert {bound.witness.token, bound.witness.other} <= set(space.vocabulary.tokens)


@over("mechanism", GOOD)
@over("space", [SPACE, two_groups()])
def test_channels_that_keep_it(mechanism, space):
    epsilon, last = dp.certify(mechanism, space).epsilon, len(space) - 1
    texts = [([3, last, 3], [3, 0, 3]), ([3, -1], [3, 0])]
    bounds = [dp.audit(mechanism, space, **SURE, samples=4000, texts=pair) for pair in texts]
    for bound in (dp.audit(mechanism, space, **SURE), *bounds):
        assert bound <= epsilon
        assert bound <= bound.claim == 3.0


FLAT = space_of(np.ones((10, 2)))
ALONE = [1.0] + [0.0] * 9  # buckets of 1 and 9 tokens
CROWDED = [0.0] * 6 + [0.39, 0.59, 0.79, 1.0]  # buckets of 6, 1, 1, 1, 1


def test_theorem_4_1_of_cape_is_refuted():
    given = {"epsilon": 0.5, "buckets": 5, "logit_bound": 1.0, "logit_weight": 1.0}
    claim, logits = 0.5 + math.log(9 / 1), [ALONE, CROWDED]
    bound = dp.audit(Cape(**given), FLAT, claim=claim, logits=logits, samples=200_000)
    assert claim < bound <= Cape(**given).position_loss(10)
    assert (bound.witness.token, bound.witness.output) == (bound.witness.other, "w0")
    strict = CapeStrict(**given, context="raw")
    assert dp.audit(strict, FLAT, logits=logits, **SURE) <= strict.position_loss(10) <= 0.5
    # The same two rows are no neighbours where the context is released; all distances are equal.
    assert dp.audit(Cape(**given, context="released"), FLAT, logits=logits, **SURE) == 0.0


@over("context", ["raw", "released"])
def test_cape_strict_passes_under_any_logits(context):
    mechanism = CapeStrict(epsilon=3.0, buckets=5, logit_bound=4.0, context=context)
    logits = np.random.default_rng(0).normal(2.0, 3.0, size=(4, 20))
    bound = dp.audit(mechanism, SPACE, logits=logits, **SURE)
    assert 0.1 < bound <= mechanism.position_loss(20) <= 3.0


def audit_of_first_token(context, others, **options):
    """CapeStrict on eight equal vectors: the first token shows only in the context."""
    mechanism = CapeStrict(epsilon=1.0, buckets=2, logit_bound=1.0, context=context)
    space, texts = space_of(np.ones((8, 2))), ([0] + [3] * others, [1] + [3] * others)
    bound = dp.audit(mechanism, space, texts=texts, context=FirstTokenContext(), **options)
    return bound, dp.certify(mechanism, space, length=others + 1)


@pytest.mark.slow
def test_a_raw_context_costs_at_every_position():
    """At 24 positions half of the tokens become e^(1/2) times likelier, half less likely."""
    bound, certificate = audit_of_first_token("raw", others=24, samples=FEW)
    assert bound > bound.claim == 1.0
    assert bound <= 24 * 0.5 <= certificate.epsilon


@pytest.mark.slow
def test_a_released_context_costs_once():
    bound, certificate = audit_of_first_token("released", others=2, **QUICK)
    assert bound <= certificate.epsilon <= bound.claim == 1.0


def test_cape_strict_with_a_released_context_passes():
    mechanism = CapeStrict(epsilon=3.0, buckets=4, logit_bound=1.0, distance_weight=4.0)
    space = random_space(tokens=8, dimensions=1, seed=1)
    order = np.argsort(space.vectors[:, 0])
    texts = ([int(order[0]), 2], [int(order[-1]), 2])
    bound = dp.audit(mechanism, space, texts=texts, context=FirstTokenContext(), **QUICK)
    assert bound <= mechanism.position_loss(8) <= 3.0
    assert bound <= dp.certify(mechanism, space).epsilon


PEAKED, FLAT_LOGITS = [8.0] + [0.0] * 19, [0.0] * 20  # codebooks of 8 and of all 20 tokens


@over("kind", [known_bad.RawPrefix, known_bad.SizeFromRawPrefix])
def test_codebooks_of_the_raw_prefix_are_caught(kind):
    """One token under two logits, which differ by a token before it: supports differ."""
    bound = dp.audit(kind(epsilon=3.0), SPACE, logits=[PEAKED, FLAT_LOGITS])
    assert bound > bound.claim == 3.0
    assert bound.witness.token == bound.witness.other


def test_a_raw_prefix_is_caught_by_what_is_released():
    options = {"texts": ([0, 3], [1, 3]), "context": FirstTokenContext(), "samples": 200}
    bound = dp.audit(known_bad.RawPrefix(epsilon=0.2), SPACE, **options)
    assert bound > bound.claim == 0.2
    good = dp.audit(dp.ContextualResponse(epsilon=0.2), SPACE, **options, **SURE)
    assert good <= good.claim == 0.2


def test_a_floor_that_follows_the_model_is_caught():
    """Two tokens that are likely pay with the normaliser, too: nearly twice epsilon."""
    logits = [[6.0, 6.0] + [0.0] * 18]
    bound = dp.audit(known_bad.NoFloor(epsilon=2.0), SPACE, logits=logits)
    assert bound > bound.claim == 2.0


@over("logits", [PEAKED, FLAT_LOGITS])
def test_contextual_response_keeps_its_claim(logits):
    bound = dp.audit(dp.ContextualResponse(epsilon=2.0), SPACE, logits=[logits], **SURE)
    assert 1.0 < bound <= bound.claim == 2.0


@pytest.mark.slow
def test_stencil_is_a_function_of_the_text():
    space = random_space(tokens=20)
    bound = dp.audit(Stencil(window=3), space, samples=FEW)
    assert bound > math.log(FEW / 2) - math.log(20)  # all that so few draws can show
    assert bound.claim == math.inf
    assert bound.witness is not None
    texts = ([1, 2, 3], [1, 4, 3])
    assert dp.audit(Stencil(window=3), space, texts=texts, samples=MANY, claim=4.0) > 4.0


def test_leaving_out_the_original_is_caught():
    space = space_of([[0.0, 0.0], [0.1, 0.0], [2.0, 0.0], [2.0, 0.1], [0.0, 2.0], [0.1, 2.0]])
    given = {"eta": 1.0, "window": 3}
    bound = dp.audit(known_bad.LeavesOutTheOriginal(**given), space, samples=FEW)
    assert bound.claim == pytest.approx(2 * 0.1)
    assert bound > 2.0
    assert bound.witness.output == bound.witness.other
    kept = dp.audit(DChiStencil(**given), space, **QUICK)
    assert kept <= kept.claim


@pytest.mark.slow
def test_a_cosine_claim_for_dchi_stencil_is_refuted():
    """Two unit vectors 0.3 apart on the circle, and two tokens beyond them."""
    space, eta = on_the_circle(0.0, 0.3, -0.2, 0.5), 10.0
    mechanism = DChiStencil(eta=eta, window=3)
    chord, cosine_distance = 2 * math.sin(0.15), 1 - math.cos(0.3)
    laws = np.log([plane_law(space.points, space.points[k], eta) for k in (0, 1)])
    loss = np.abs(laws[0] - laws[1]).max()
    claim = 2 * eta * cosine_distance
    assert 2 * claim < loss <= eta * chord
    bound = dp.audit(mechanism, space, texts=([0], [1]), claim=claim, samples=8 * MANY, **SURE)
    assert claim < bound <= loss
    assert dp.audit(mechanism, space, texts=([0], [1]), **QUICK) <= eta * chord


@pytest.mark.slow
@pytest.mark.parametrize("eta", [1.0, 4.0])
def test_noise_passes(eta):
    space = random_space(tokens=12, dimensions=2, seed=3)
    texts, distance = ([5, 0, 7], [5, 1, 7]), space.distances([0])[0, 1]
    alone = dp.MetricNoise(eta=eta)
    for bound in (dp.audit(alone, space, **QUICK), dp.audit(alone, space, texts=texts, **QUICK)):
        assert bound <= bound.claim <= dp.certify(alone, space).epsilon
    assert bound.claim == pytest.approx(eta * distance)
    window = DChiStencil(eta=eta, window=3)
    bound = dp.audit(window, space, texts=texts, **QUICK)
    assert bound <= window.lipschitz(3) * distance < bound.claim


@pytest.mark.slow
def test_a_forked_generator_is_caught():
    """Two releases of one secret are equal, which two of different secrets need not be.

    Each release by itself follows its law, so only the pair of them shows it.
    """
    space, texts = random_space(tokens=8, seed=1), ([0, 0], [0, 1])
    forked, fresh = known_bad.ForkedWorkers(epsilon=1.0), known_bad.FreshWorkers(epsilon=1.0)
    for _ in range(50):
        first, second = forked.perturb([0, 0], space, os_entropy)
        assert first == second
    assert dp.audit(forked, space, texts=([0], [1]), **QUICK) <= 1.0
    assert dp.audit(fresh, space, texts=texts, **QUICK) <= 1.0
    bound = dp.audit(forked, space, texts=texts, samples=MANY)
    assert bound > bound.claim == 1.0
    left, right = bound.witness.output.split()
    assert left != right
