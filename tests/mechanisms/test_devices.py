"""Every channel on a device: the law, the integers and the certificate of the host.

On the pretended device the arithmetic is the host's, so bits are compared; on a real one the
bound that certificates grant to another device.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support.cases import over
from support.pretend_device import DEVICES, device_named
from support.spaces import CASES, Case, host_rows, random_space, space_of

import dp_middleware as dp
from dp_middleware.certification.enumeration import RECOMPUTED
from dp_middleware.embedding import space as spaces
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.kernels import lists as _lists
from dp_middleware.sampling import sampler

TOKENS = 75  # two blocks of rows on the host
IDS = np.array([3, -1, 70, 3, 0, 74, *range(5, 68)])


def tuned(epsilon):
    codebook = (*range(0, TOKENS, 2), 4, 4, 10)
    options = {"codebook": codebook, "candidates": 3, "nearness": "centred_cosine"}
    return dp.NearestResponse(epsilon=epsilon, **options)


def among(epsilon):
    return dp.NearestResponse(epsilon=epsilon, codebook=tuple(range(0, TOKENS, 3)), candidates=4)


def within(epsilon, inner=dp.TokenExponential):
    return dp.WithinClasses(mechanism=inner(epsilon=epsilon), classes=tuple(np.arange(TOKENS) % 4))


def within_lists(epsilon):
    """A class that the inner mechanism does not reach is released uniformly."""
    inner = dp.CusTextPlus(epsilon=epsilon, candidates=2, kept=frozenset({"w1"}))
    return dp.WithinClasses(mechanism=inner, classes=tuple(np.arange(TOKENS) % 25))


MORE = {"nearest-response-tuned": tuned, "nearest-response-among": among, "within": within}
ALL = CASES | {name: Case(make, proved=False) for name, make in MORE.items()}
ALL["within-lists"] = Case(within_lists, proved=False)
EVERY = over("name", ALL)


@dataclass(frozen=True)
class Pair:
    """One space on the host and on a device that computes bit for bit as the host, or not."""

    host: dp.EmbeddingSpace
    there: dp.EmbeddingSpace
    exact: bool

    def same(self, host, there, slack=0.0):
        """Logarithms of probabilities that may be recomputed."""
        if self.exact:
            assert np.array_equal(host, there)
            return
        assert np.array_equal(np.isneginf(host), np.isneginf(there))
        possible = np.isfinite(host)
        bound = RECOMPUTED * np.maximum(1.0, np.abs(host[possible]) / 10) + slack
        assert (np.abs(host[possible] - there[possible]) <= bound).all()


@pytest.fixture(scope="module", params=DEVICES[1:])
def there(request):
    with device_named(request.param) as device, pytest.MonkeyPatch.context() as patch:
        if request.param == "pretend":  # products of the host's shape have the host's bits
            patch.setattr(spaces, "_DEVICE_BLOCK", spaces.BLOCK)

        def placed(space):
            other = dp.EmbeddingSpace(space.vocabulary, space.vectors, device=device.type)
            assert other.device.type == device.type
            return Pair(space, other, exact=request.param != "cuda")

        yield placed


@pytest.fixture(scope="module")
def pair(there):
    return there(random_space(tokens=TOKENS, dimensions=4, seed=5))


@EVERY
def test_rows_are_those_of_the_host_and_the_same_alone(name, pair):
    mechanism = ALL[name](3.0)
    rows = rows_of(mechanism, IDS, pair.there)
    assert (rows.device.type, rows.dtype) == (pair.there.device.type, torch.float64)
    pair.same(host_rows(mechanism, IDS, pair.host), rows.cpu().numpy())
    known = IDS[IDS >= 0]
    pair.same(mechanism.log_probs(known, pair.host), mechanism.log_probs(known, pair.there))
    none = rows_of(mechanism, np.empty(0, dtype=np.int64), pair.there)
    assert tuple(none.shape) == (0, TOKENS)
    for place in (0, 1, 40, 68):
        alone = rows_of(mechanism, IDS[place : place + 1], pair.there)
        assert torch.equal(alone[0], rows[place])  # bit for bit


@EVERY
def test_integers_and_tables_are_those_of_the_host(name, pair):
    mechanism = ALL[name](3.0)
    near, far = host_rows(mechanism, IDS, pair.host), rows_of(mechanism, IDS, pair.there)
    ours, theirs = sampler.integer_rows(near), sampler.integer_rows(far)
    assert theirs.weights.device.type == pair.there.device.type
    assert ours.bits.tolist() == theirs.bits.tolist()
    for one, other in zip(sampler.tables(near), sampler.tables(far), strict=True):
        integers, others = one.integers(TOKENS), other.integers(TOKENS)
        if pair.exact:
            assert integers == others
            continue
        assert [k > 0 for k in integers] == [k > 0 for k in others]
        total = sum(integers)
        for a, b in zip(integers, others, strict=True):
            steep = max(1.0, 0.1 * float(np.log(total / max(a, 1))))
            assert abs(a - b) <= RECOMPUTED * steep * max(a, b) + 1


@EVERY
@over("classes", [None, 3])
def test_certificates_are_those_of_the_host(name, classes, pair):
    labels = (np.arange(TOKENS + 1) % (classes or 1)).tolist()
    relation = dp.Adjacency.within(labels) if classes else dp.Adjacency.substitution()
    ours, theirs = (
        dp.certify(ALL[name](3.0), space, adjacency=relation) for space in (pair.host, pair.there)
    )
    assert type(theirs.guarantee) is type(ours.guarantee)
    assert (theirs.metric is None) == (ours.metric is None)
    if ours.finite:
        slack = 0.0 if pair.exact else 10 * RECOMPUTED
        assert theirs.epsilon == pytest.approx(ours.epsilon, rel=1e-12, abs=slack)
    for each in ("recovery", "retention"):
        assert getattr(theirs, each) == pytest.approx(getattr(ours, each), rel=1e-9)


@over("kind", [dp.Cape, dp.CapeStrict])
@over("buckets", [5, 50, 10**6])
def test_rows_given_logits_are_those_of_the_host(kind, buckets, pair):
    mechanism = kind(epsilon=3.0, logit_bound=9.0, buckets=buckets)
    ids = IDS[IDS >= 0]
    logits = np.random.default_rng(0).normal(2.0, 4.0, size=(len(ids), TOKENS))
    pair.same(*(mechanism.log_probs(ids, s, logits) for s in (pair.host, pair.there)), slack=1e-12)


def test_lists_and_classes_cut_ties_by_index_on_every_device(there):
    """A lattice with duplicates: distances are exact, and nearly all of them tied."""
    lattice = np.array([[i % 4, i // 4 % 5] for i in range(70)], dtype=float)
    pair = there(space_of(lattice))
    everyone = np.arange(70)
    for size in (1, 2, 9, 69, 70, 90):
        for ours, theirs in zip(
            *(_lists.nearest(everyone, s, size) for s in (pair.host, pair.there)), strict=True
        ):
            assert ours.tolist() == theirs.tolist()
    listed, _ = _lists.nearest(everyone, pair.there, 9)
    for token, distances in zip(everyone, pair.host.distances(everyone), strict=True):
        literal = sorted(everyone, key=lambda t: (t != token, distances[t], t))
        assert listed[token].tolist() == literal[:9]
    classes = [_lists.greedy_classes(s, 6).tolist() for s in (pair.host, pair.there)]
    assert classes[0] == classes[1]
