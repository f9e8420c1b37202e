"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import langchain_dp_middleware
import pytest

pytest.importorskip("langchain")


NAMES = [each.name for each in pkgutil.iter_modules(langchain_dp_middleware.__path__)]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    module = importlib.import_module(f"langchain_dp_middleware.{name}")
    assert doctest.testmod(module).failed == 0
