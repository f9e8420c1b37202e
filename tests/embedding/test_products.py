"""Exact products, and what MKL computes is called once before threads call it."""

import re
from pathlib import Path

import numpy as np
import torch
from support.cases import over

import dp_middleware
from dp_middleware._torch import WARMED
from dp_middleware.embedding.products import product

OF_MKL = "exp|log|expm1|log1p|log10|log2|sqrt|rsqrt|sin|cos|tan|asin|acos|atan|tanh|erf|erfc|erfinv"
CALL = re.compile(rf"(\w+|\)|\])\.({OF_MKL})_?\(")
ELSEWHERE = {"math", "np", "cmath", "special", "context", "mpmath"}


def test_every_function_of_mkl_that_is_called_was_called_before():
    calls = {
        (path.name, name)
        for path in Path(dp_middleware.__file__).parent.rglob("*.py")
        for owner, name in CALL.findall(path.read_text(encoding="utf-8"))
        if owner not in ELSEWHERE
    }
    accelerators_only = {("products.py", "sqrt")}  # on the CPU the root is NumPy's
    assert {name for _, name in calls - accelerators_only} == set(WARMED)


@over("rows", [0, 1, 5, 8, 9, 31, 32, 70])
def test_products_of_any_number_of_rows_are_those_of_integers(rows):
    """In each of the ways in which they are made, blocks that do not come out even included."""
    drawn = np.random.default_rng(rows).integers(-(1 << 20), 1 << 20, (rows + 1501, 150))
    first, second = drawn[:rows], drawn[rows:]
    points = (torch.from_numpy(part * 2.0**-26) for part in (first, second))
    assert np.array_equal(product(*points).numpy() * 2.0**52, first @ second.T)
