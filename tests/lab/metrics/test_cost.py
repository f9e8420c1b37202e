"""Cost: times that are slept, memory that is held."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.lab import metrics


def test_times_and_memory_are_those_of_the_program():
    setups = []

    def setup():
        setups.append(1)
        time.sleep(0.05)
        return np.ones(1_000_000)  # 8 MB

    def work(held):
        time.sleep(0.02)
        return held + 1  # 8 MB more

    found = metrics.cost(setup, work, tokens=10, runs=3)
    assert len(setups) == 2
    assert 0.002 <= found.low <= found.value <= found.high
    assert found.low < 0.02  # of three
    assert 0.05 <= found.details["setup seconds"] < 20
    assert 16e6 <= found.details["peak bytes"] < 20e6
    assert (found.trials, found.confidence) == (3, 0.75)
    assert not tracemalloc.is_tracing()


def test_refusals():
    for wrong in ({"tokens": 0}, {"tokens": 1, "runs": 1}):
        with pytest.raises(dp.ParameterError, match="expected an integer"):
            metrics.cost(lambda: None, lambda nothing: None, **wrong)
