"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import langchain_dp_middleware
import pytest

pytest.importorskip("langchain")


@pytest.mark.parametrize("name", sorted(set(langchain_dp_middleware._HOME.values())))
def test_examples(name):
    module = importlib.import_module(f"langchain_dp_middleware.{name}")
    assert doctest.testmod(module).failed == 0
