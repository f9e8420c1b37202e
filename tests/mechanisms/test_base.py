"""A channel's author writes one method; what was written last is read, certified and drawn from."""

import math

import numpy as np
import pytest
import torch
from support.spaces import host_rows, random_space

import dp_middleware as dp
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling.sampler import os_entropy

SPACE = random_space(tokens=8)
EVERYONE = np.arange(8)


class InTorch(dp.DynTextStrict):
    """Keeps every token."""

    def log_rows(self, ids, space):
        return torch.eye(len(space), dtype=torch.float64)[ids].log()


class InNumPy(InTorch):
    """Releases the last token for the first, and so on."""

    def log_probs(self, ids, space):
        return super().log_probs(ids, space)[:, ::-1]


class InTorchAgain(InNumPy):
    """One token further."""

    def log_rows(self, ids, space):
        return super().log_rows(ids, space).roll(1, dims=1)


class Heir(InTorchAgain):
    """Writes nothing."""


class Further:
    """Not a mechanism; one token further than whatever it stands before."""

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


def test_a_child_may_write_a_private_law_over_an_infinite_one():
    class Uniform(InTorch):
        def log_probs(self, ids, space):
            return np.full((len(ids), len(space)), -math.log(len(space)))

    assert dp.certify(Uniform(epsilon=3.0), SPACE).epsilon == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("kind", [InTorch, InTorchAgain, dp.TokenExponential])
def test_a_reader_s_ids_are_checked(kind):
    with pytest.raises(dp.ParameterError, match="expected ids"):
        kind(epsilon=3.0).log_probs([8], SPACE)


def test_a_channel_without_a_law_is_abstract():
    class Lawless(ChannelMechanism):
        name = "lawless"

    with pytest.raises(TypeError, match="log_rows"):
        Lawless(epsilon=1.0)
