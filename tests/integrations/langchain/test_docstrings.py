"""The examples in the docstrings run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["head"])
def test_examples(name):
    module = importlib.import_module(f"langchain_dp_middleware.{name}")
    assert doctest.testmod(module).attempted > 1
    assert doctest.testmod(module).failed == 0
