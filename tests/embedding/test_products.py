"""What MKL computes is called once before threads call it."""

from __future__ import annotations

import re
from pathlib import Path

import dp_middleware
from dp_middleware.embedding.products import WARMED

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
