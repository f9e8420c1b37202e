"""Mechanisms are values, and of what a channel's author writes the last counts."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch
from support.cases import over
from support.spaces import CASES, host_rows, random_space

import dp_middleware as dp
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling.sampler import os_entropy

PUBLIC = np.random.default_rng(0).normal(size=(60, 6))
VECTOR = [dp.VectorResponse.fitted(some, epsilon=5) for some in (PUBLIC, PUBLIC, PUBLIC[1:])]
WINDOW = {"eta": 3.0, "window": 5, "sigma": 1.0}
PARTS = {"a": dp.SanText(epsilon=3), "b": dp.RanText(epsilon=1)}


def cape(kind, **more):
    return kind(**{"epsilon": 3, "logit_bound": 2, "buckets": 7, "logit_weight": 1, **more})


def within(epsilon, labels):
    return dp.WithinClasses(mechanism=dp.TokenExponential(epsilon=epsilon), classes=tuple(labels))


VALUES = [  # a mechanism, the same in other words, and changes each of which makes another
    (dp.MetricNoise(eta=3), dp.MetricNoise(eta=np.float64(3)), {"eta": 2.0}),
    (dp.Stencil(), dp.Stencil(), {"window": 3, "sigma": 1.0}),
    (
        dp.DChiStencil(**WINDOW),
        dp.DChiStencil(eta=3, window=np.int64(5), sigma=1),
        {"eta": 2.0, "window": 3, "sigma": 2.0},
    ),
    (cape(dp.Cape), cape(dp.Cape, buckets=np.int64(7)), {"epsilon": 4.0}),
    (cape(dp.CapeStrict), cape(dp.CapeStrict, epsilon=3.0), {"epsilon": 4.0}),
    (
        dp.ContextualResponse(epsilon=3, unigram=np.array([1, 2, 3]), allowed=[1, 0]),
        dp.ContextualResponse(epsilon=3.0, unigram=(1.0, 2.0, 3.0), allowed=(0, 1)),
        {"epsilon": 4.0},
    ),
    (dp.DocumentResponse(epsilon=25.0), dp.DocumentResponse(epsilon=25), {"epsilon": 24.0}),
    (VECTOR[0], VECTOR[1], {"epsilon": 6, "components": VECTOR[2].components}),
    (
        dp.ByClass(PARTS, "aab"),
        dp.ByClass([("b", dp.RanText(epsilon=1.0)), ("a", dp.SanText(epsilon=3))], tuple("aab")),
        {"classes": tuple("aba"), "mechanisms": dict.fromkeys("ab", PARTS["a"])},
    ),
    (within(3, "aab"), within(3.0, "aab"), {"classes": (0, 1, 1)}),
    *((make(3), make(np.float32(3)), {"epsilon": 3.1}) for make in CASES.values()),
]


@over("one, same, changes", VALUES)
def test_a_mechanism_is_a_value(one, same, changes):
    assert one == same == pickle.loads(pickle.dumps(one)) == type(one)(**one.parameters)
    assert hash(one) == hash(same) == hash(dataclasses.replace(one))
    assert one.fingerprint == same.fingerprint
    for name, value in changes.items():
        other = dataclasses.replace(one, **{name: value})
        assert other != one
        assert other.fingerprint != one.fingerprint
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.epsilon = 1.0


RIGHT = {"epsilon": 1.0, "eta": 1.0, "logit_bound": 1.0, "non_sensitive": [], "candidates": 1}
NUMBERS = [0, -1.0, math.nan, math.inf, "3", None, True]
CAPE = {
    "epsilon": NUMBERS,
    "logit_bound": [0.0, math.inf],
    "buckets": [0, 2.0, 10**6 + 1],
    "logit_weight": [-0.5, math.nan, False],
    "distance_weight": [-1.0],
    "context": ["both"],
}
STENCIL = {"window": [0, -1, 2.5, "5", True], "sigma": [0, -1.0, math.nan, math.inf, "1"]}
TABLES = {"table_seed": [-1, None], "delta": [0.0, 1.0], "candidates": [0, 2.0]}
UNIGRAMS = [(), (0, 0), (1.0, -1.0), (1, math.inf), ("a",), ((1.0,), (1.0, 2.0))]
BOOKS = [(), (-1, 2), (0.5,), ((1, 2),)]
UNITS = ["abc", (), ("a", "a"), ("a", " ")]
WRONG = {  # what its parameters must not be, beside those that it is made with
    dp.Cape: CAPE,
    dp.CapeStrict: CAPE,
    dp.SanTextPlus: {"keep": [-0.1, 1.0, 1, math.nan, "0.5", None, True]},
    dp.DynText: {**TABLES, "epsilon_density": [0, math.inf], "reading": ["clean"]},
    dp.TruncatedExponential: {"beta": [0.0, 1], "threshold": [0, "2"]},
    dp.MetricNoise: {"eta": [*NUMBERS, 1e-7, 1e7]},
    dp.DChiStencil: {"eta": [*NUMBERS, 1e-7, 1e7], **STENCIL},
    dp.Stencil: STENCIL,
    dp.ContextualResponse: {
        "epsilon": NUMBERS,
        "mixture": [0.0, 1.0],
        "unigram": UNIGRAMS,
        "allowed": BOOKS[:3],
    },
    dp.NearestResponse: {"candidates": [0, 1.5], "codebook": BOOKS, "nearness": ["fame"]},
    dp.DocumentResponse: {
        "epsilon": NUMBERS,
        "rounds": [0, 65],
        "codebook": UNITS,
        "shortlist": [0],
    },
    dp.WeightedResponse: {"epsilon": NUMBERS},
    dp.VectorResponse: {"epsilon": [0, -1.0, math.inf, 501], "components": [PUBLIC]},
}


@over("kind", WRONG)
def test_a_wrong_parameter_is_refused_by_its_name(kind):
    needed = {each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING}
    right = {name: RIGHT[name] for name in needed}
    kind(**right)
    for name, value in ((name, value) for name, values in WRONG[kind].items() for value in values):
        with pytest.raises(dp.ParameterError, match=name):
            kind(**{**right, name: value})


SPACE = random_space(tokens=8)
EVERYONE = np.arange(8)


class InTorch(dp.DynTextStrict):
    def log_rows(self, ids, space):
        return torch.eye(len(space), dtype=torch.float64)[ids].log()


class InNumPy(InTorch):
    def log_probs(self, ids, space):
        return super().log_probs(ids, space)[:, ::-1]


class InTorchAgain(InNumPy):
    def log_rows(self, ids, space):
        return super().log_rows(ids, space).roll(1, dims=1)


class Heir(InTorchAgain):
    """Writes nothing."""


class Further:
    def log_probs(self, ids, space):
        return np.roll(super().log_probs(ids, space), 1, axis=1)


class Mixed(Further, InNumPy):
    """What stands first counts."""


LAWS = {
    InTorch: EVERYONE,
    InNumPy: EVERYONE[::-1],
    InTorchAgain: (8 - EVERYONE) % 8,
    Heir: (8 - EVERYONE) % 8,
    Mixed: (8 - EVERYONE) % 8,
}


@pytest.mark.parametrize("kind", LAWS)
def test_the_law_written_last_is_read_certified_and_drawn(kind):
    mechanism, expected = kind(epsilon=3.0), np.eye(8)[LAWS[kind]]
    assert np.array_equal(np.exp(mechanism.log_probs(EVERYONE, SPACE)), expected)
    assert np.array_equal(mechanism.log_rows(EVERYONE, SPACE).exp().numpy(), expected)
    assert np.array_equal(np.exp(host_rows(mechanism, EVERYONE, SPACE)), expected)
    drawn = drawer(mechanism, SPACE).draw([EVERYONE], os_entropy)[0]
    assert drawn.tolist() == LAWS[kind].tolist()
    certificate = dp.certify(mechanism, SPACE)
    assert certificate.epsilon == math.inf
    assert certificate.retention == (LAWS[kind] == EVERYONE).mean()
    within = dp.WithinClasses(mechanism=mechanism, classes=(0,) * 8)
    assert np.array_equal(np.exp(within.log_probs(EVERYONE, SPACE)), expected)
