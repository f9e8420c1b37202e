"""Random bytes, and uniform integers made of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import shake_256
from itertools import count

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]

os_entropy: Entropy = os.urandom
"""Bytes from the operating system's generator; fresh after fork and unpickling."""


def random_words(count: int, entropy: Entropy) -> Words:
    """Draws uniform integers below 2^64."""
    return np.frombuffer(entropy(8 * count), dtype=np.uint64)


def expanded(seed: bytes) -> Entropy:
    """Bytes that follow from a secret seed of 32 random ones, the same again: SHAKE-256.

    A seed is used once, for one draw; who knows it knows what was drawn for what.
    """
    numbers = count()
    return lambda size: shake_256(seed + next(numbers).to_bytes(8, "big")).digest(size)


def below(total: int, entropy: Entropy) -> int:
    """Draws a uniform integer in 0 .. total - 1: bits are drawn until they are below it."""
    bits = total.bit_length()
    size = (bits + 7) // 8
    while (number := int.from_bytes(entropy(size), "little") >> (8 * size - bits)) >= total:
        pass
    return number
