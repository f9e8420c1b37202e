"""Sources of random bytes that tests choose, and the uniform integers that decide a row."""

import numpy as np


def stream(words):
    """An entropy source that yields these bytes, and zeros behind them."""
    at = 0

    def entropy(count):
        nonlocal at
        at += count
        return words[at - count : at].ljust(count, b"\0")

    return entropy


def at_boundaries(table):
    """The integers at and beside every boundary of a row, as bytes."""
    boundaries = [int(last) + step for last in table.lasts for step in (-1, 0, 1)]
    return b"".join((k % 2**64).to_bytes(8, "little") for k in boundaries)


def assert_draws_alike(sampler, number, table, words):
    """The sampler draws for this id what its table draws for the same words."""
    count = len(words) // 8
    drawn = sampler.draw(np.full(count, number), stream(words))
    assert drawn.tolist() == table.draw(count, stream(words)).tolist()
