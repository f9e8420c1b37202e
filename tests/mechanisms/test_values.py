"""Mechanisms are values: equal, hashed, frozen, pickled, and never with a wrong parameter."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from support.cases import over
from support.spaces import CASES

import dp_middleware as dp

PUBLIC = np.random.default_rng(0).normal(size=(60, 6))


def cape(kind, **more):
    return kind(**{"epsilon": 3, "logit_bound": 2, "buckets": 7, "logit_weight": 1, **more})


def within(epsilon, labels):
    return dp.WithinClasses(mechanism=dp.TokenExponential(epsilon=epsilon), classes=tuple(labels))


WINDOW = {"eta": 3.0, "window": 5, "sigma": 1.0}
MECHANISMS = {  # one, the same in other words, and others
    "metric-noise": (dp.MetricNoise(eta=3), dp.MetricNoise(eta=np.float64(3)), [{"eta": 2.0}]),
    "stencil": (dp.Stencil(), dp.Stencil(), [{"window": 3}, {"sigma": 1.0}]),
    "dchi-stencil": (
        dp.DChiStencil(**WINDOW),
        dp.DChiStencil(eta=3, window=np.int64(5), sigma=1),
        [{"eta": 2.0}, {"window": 3}, {"sigma": 2.0}],
    ),
    "cape": (cape(dp.Cape), cape(dp.Cape, buckets=np.int64(7)), [{"epsilon": 4.0}]),
    "cape-strict": (cape(dp.CapeStrict), cape(dp.CapeStrict, epsilon=3.0), [{"epsilon": 4.0}]),
    "contextual-response": (
        dp.ContextualResponse(epsilon=3, unigram=np.array([1, 2, 3]), allowed=[1, 0]),
        dp.ContextualResponse(epsilon=3.0, unigram=(1.0, 2.0, 3.0), allowed=(0, 1)),
        [{"epsilon": 4.0}],
    ),
    "document-response": (
        dp.DocumentResponse(epsilon=25.0),
        dp.DocumentResponse(epsilon=25),
        [{"epsilon": 24.0}],
    ),
    "vector-response": (
        dp.VectorResponse.fitted(PUBLIC, epsilon=5),
        dp.VectorResponse.fitted(PUBLIC, epsilon=5.0),
        [
            {"epsilon": 6},
            {"components": dp.VectorResponse.fitted(PUBLIC[1:], epsilon=5).components},
        ],
    ),
    "by-class": (
        dp.ByClass({"a": dp.SanText(epsilon=3), "b": dp.RanText(epsilon=1)}, "aab"),
        dp.ByClass([("b", dp.RanText(epsilon=1.0)), ("a", dp.SanText(epsilon=3))], tuple("aab")),
        [{"classes": tuple("aba")}, {"mechanisms": dict.fromkeys("ab", dp.SanText(epsilon=3))}],
    ),
    "within-classes": (within(3, "aab"), within(3.0, "aab"), [{"classes": (0, 1, 1)}]),
    **{n: (make(3), make(np.float32(3)), [{"epsilon": 3.1}]) for n, make in CASES.items()},
}


@over("name", MECHANISMS)
def test_a_mechanism_is_a_value(name):
    one, same, others = MECHANISMS[name]
    assert one == same == pickle.loads(pickle.dumps(one)) == type(one)(**one.parameters)
    assert hash(one) == hash(same) == hash(dataclasses.replace(one))
    assert one.fingerprint == same.fingerprint
    for changes in others:
        other = dataclasses.replace(one, **changes)
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
WRONG = [  # what makes it with epsilon or eta, and what its parameters must not be
    (dp.Cape, CAPE),
    (dp.CapeStrict, CAPE),
    (dp.SanTextPlus, {"keep": [-0.1, 1.0, 1, math.nan, "0.5", None, True]}),
    (dp.DynText, {**TABLES, "epsilon_density": [0, math.inf], "reading": ["clean"]}),
    (dp.TruncatedExponential, {"beta": [0.0, 1], "threshold": [0, "2"]}),
    (dp.MetricNoise, {"eta": [*NUMBERS, 1e-7, 1e7]}),
    (dp.DChiStencil, {"eta": [*NUMBERS, 1e-7, 1e7], **STENCIL}),
    (dp.Stencil, STENCIL),
    (
        dp.ContextualResponse,
        {
            "epsilon": NUMBERS,
            "mixture": [0.0, 1.0],
            "unigram": [(), (0, 0), (1.0, -1.0), (1, math.inf), ("a",), ((1.0,), (1.0, 2.0))],
            "allowed": [(), (-1,), (0.5,)],
        },
    ),
    (
        dp.NearestResponse,
        {
            "candidates": [0, 1.5],
            "codebook": [(), (-1, 2), (0.5,), ((1, 2),)],
            "nearness": ["fame"],
        },
    ),
    (
        dp.DocumentResponse,
        {
            "epsilon": NUMBERS,
            "rounds": [0, 65],
            "codebook": ["abc", (), ("a", "a"), ("a", " ")],
            "shortlist": [0],
        },
    ),
    (dp.WeightedResponse, {"epsilon": NUMBERS}),
    (dp.VectorResponse, {"epsilon": [0, -1.0, math.inf, 501], "components": [PUBLIC]}),
]


@over("kind, wrong", WRONG)
def test_a_wrong_parameter_is_refused_by_its_name(kind, wrong):
    needed = {each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING}
    right = {name: RIGHT[name] for name in needed}
    kind(**right)
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        with pytest.raises(dp.ParameterError, match=name):
            kind(**{**right, name: value})
