"""How many files of the library a release without a ledger crosses."""

from support.cases import over
from support.ways import Way

import dp_middleware as dp


@over("files, changes", [(8, 17), (14, 38)])
def test_a_release_takes_a_short_way(files, changes, tmp_path_factory):
    """Without a ledger, and with one."""
    folder, terms = tmp_path_factory.mktemp("ledger"), {}
    if files > 8:
        ledger = dp.PrivacyLedger(f"sqlite:///{folder}/ledger.db", budget=100)
        terms = {"ledger": ledger, "subject": "anna"}
    space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space, **terms)
    sanitizer.release("blue and red")
    with Way() as way:
        sanitizer.release("Ann Lee is blue")
    assert len(way.files) <= files, sorted(way.files)
    assert way.changes <= changes
