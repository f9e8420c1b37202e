"""Numbers and texts as they are shown."""

from __future__ import annotations

import math

import pytest

from dp_middleware.cli import show


@pytest.mark.parametrize("epsilon", [0.63485001, 9.99999, 12345.67891, math.pi])
def test_a_loss_is_never_understated(epsilon):
    assert epsilon <= float(show.nats(epsilon)) < epsilon + 1e-3
    assert show.nats(math.inf) == "infinite"


def test_control_characters_of_a_remote_model_do_not_reach_the_terminal():
    assert show.printable("a\x1b[2Jb\r\n\tc\x9b") == "a[2Jb\n\tc"
