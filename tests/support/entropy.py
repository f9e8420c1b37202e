"""Sources of random bytes that tests choose."""

from __future__ import annotations


def stream(words):
    """An entropy source that yields these bytes, and zeros behind them."""
    at = 0

    def entropy(count):
        nonlocal at
        at += count
        return words[at - count : at].ljust(count, b"\0")

    return entropy
