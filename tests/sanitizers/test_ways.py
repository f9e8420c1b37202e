"""How many files of the library a release without a ledger crosses."""

from __future__ import annotations

from support.ways import Way

import dp_middleware as dp


def test_a_release_takes_a_short_way():
    space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
    sanitizer.release("blue and red")
    with Way() as way:
        sanitizer.release("Ann Lee is blue")
    assert len(way.files) <= 12, sorted(way.files)
    assert way.changes <= 20
