"""Random bytes, and uniform integers made of them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]

os_entropy: Entropy = os.urandom
"""Bytes from the operating system's generator; fresh after fork and unpickling."""


def random_words(count: int, entropy: Entropy) -> Words:
    """Draws uniform integers below 2^64."""
    return np.frombuffer(entropy(8 * count), dtype=np.uint64)


def below(total: int, entropy: Entropy) -> int:
    """Draws a uniform integer in 0 .. total - 1: bits are drawn until they are below it."""
    bits = total.bit_length()
    size = (bits + 7) // 8
    while (number := int.from_bytes(entropy(size), "little") >> (8 * size - bits)) >= total:
        pass
    return number
