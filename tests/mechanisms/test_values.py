"""Mechanisms that are no channels are values as channels are: equal, hashed, frozen, pickled."""

import dataclasses
import pickle

import numpy as np
import pytest
from support.cases import over

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
    "within-classes": (within(3, "aab"), within(3.0, "aab"), [{"classes": (0, 1, 1)}]),
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
