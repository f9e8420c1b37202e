"""How many files of the library a release without a ledger crosses."""

from support.ways import Way

import dp_middleware as dp


def test_a_release_takes_a_short_way():
    space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
    sanitizer.release("blue and red")
    with Way() as way:
        sanitizer.release("Ann Lee is blue")
    assert len(way.files) <= 8, sorted(way.files)
    assert way.changes <= 16


def test_a_release_with_a_ledger_takes_a_short_way(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100)
    space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
    mechanism = dp.TokenExponential(epsilon=2.0)
    sanitizer = dp.Sanitizer(mechanism, space, ledger=ledger, subject="anna")
    sanitizer.release("blue and red")
    with Way() as way:
        sanitizer.release("Ann Lee is blue")
    assert len(way.files) <= 14, sorted(way.files)
    assert way.changes <= 37
