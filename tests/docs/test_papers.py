"""The scripts of benchmarks/papers: their tables, options and prompts."""

import numpy as np
import pytest

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("scripts")


def test_the_size_of_rantexts_lists_with_its_own_constants():
    """One dimension, tokens at 0, ..., 99; at epsilon 1 the radius is exponential, of mean 99.

    So y is on the list of x with probability exp(-|x - y| / 99), and the share is their mean.
    """
    import rantext_lists

    places = np.arange(100.0)
    words = dp.Vocabulary([f"w{k}" for k in range(100)])
    space = dp.EmbeddingSpace(words, places[:, None])
    expected = np.exp(-np.abs(places[:, None] - places) / 99.0).mean()
    shares = rantext_lists.published_shares(space, 1.0, draws=20_000)
    assert shares.mean() == pytest.approx(expected, abs=0.01)
    within = dp.RanText(epsilon=1.0).list_chances(space, 0.3)[0]
    assert (abs(shares - 0.3) < 0.031).mean() == pytest.approx(within, abs=0.02)


def test_inferdpts_claims_are_judged_at_the_top_ten():
    import inferdpt

    privacy = {
        ("SANTEXT+", 6.0): (0.60, 0.58),
        ("CUSTEXT+", 6.0): (0.30, 0.21),
        ("RANTEXT", 6.0): (0.97, 0.92),
        (inferdpt.FITTED, 6.0): (0.99, 0.95),
        ("SANTEXT+", 0.01): (0.74, 0.73),
        ("CUSTEXT+", 0.01): (0.60, 0.39),
    }
    above, ratios, unchanged, least = inferdpt.verdicts(privacy, {})
    assert [each.holds for each in (above, ratios, unchanged, least)] == [True, True, False, False]
    assert ratios.because == "1.59 and 4.38 times"
    assert unchanged.because == "SANTEXT+ -2.0 points, CUSTEXT+ -9.0 points"
    lower = privacy | {("RANTEXT", 6.0): (0.97, 0.89)}
    assert not next(inferdpt.verdicts(lower, {})).holds


def test_printed_lines_stand_above_ours():
    import common

    table = common.beside(("a", "b"), {"x": "1; 2", "y": "3"}, {"y": ["4", "5"], "z": ["6"]})
    assert table.splitlines()[2:] == [
        "| x | paper | 1 | 2 |",
        "| y | paper | 3 | - |",
        "| y | here | 4 | 5 |",
        "| z | here | 6 | - |",
    ]


class Vectors:
    """A sentence vector for each text, by a table."""

    def __init__(self):
        two = (0.6, 0.8)
        self.table = {"one": (1.0, 0.0), "two": two, "three": (0.0, 1.0), "two again": two}

    def encode(self, texts):
        return np.array([self.table[text] for text in texts])


def rewrite_pool():
    import privrewrite

    words = ("one", "two", "three", "again", "x")
    vectors = np.array([[1.0, 0], [0.6, 0.8], [0, 1.0], [0, 0], [1.0, 0]])
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
    texts = ("one", "two", "three", "two again")
    cosines = np.array([1.0, 0.6, 0.0, 0.6])  # with the private text, "x"
    pool = privrewrite.Pool(ids=np.array([4]), candidates=texts, cosines=cosines, sanitized=0.25)
    return space, pool


def test_the_expected_cosine_of_a_choice_by_hand():
    """Utilities (<m(x), m(y)> + 1) / 2 with m(x) = (1, 0) are 1, 0.8, 0.5; sensitivity 1."""
    import privrewrite

    space, pool = rewrite_pool()
    setting = privrewrite.Setting(k=3, tau=1.0)
    found = privrewrite.expected(pool, setting, 4.0, "naive", space, Vectors())
    weights = np.exp([2.0, 1.6, 1.0])
    assert found == pytest.approx(float(weights @ [1.0, 0.6, 0.0]) / weights.sum(), abs=1e-5)


def test_pruning_and_the_number_of_candidates_cut_the_choice():
    import privrewrite

    space, pool = rewrite_pool()
    arguments = (4.0, "naive", space, Vectors())
    one = privrewrite.expected(pool, privrewrite.Setting(k=1), *arguments)
    assert one == pytest.approx(1.0)
    # (1 + 0.6) / 2 = 0.8 and (1 + 0.8) / 2 = 0.9: with 0.75 "two" goes, "three" stays
    pruned = privrewrite.expected(pool, privrewrite.Setting(k=3, tau=0.75), *arguments)
    weights = np.exp([2.0, 1.0])
    assert pruned == pytest.approx(weights[0] / weights.sum(), abs=1e-5)


def test_the_script_of_privrewrite_runs(tmp_path, monkeypatch, capsys):
    import privrewrite

    words = [f"w{k}" for k in range(30)]
    vectors = np.random.default_rng(0).normal(size=(30, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)

    class Service:
        def encode(self, texts):
            rows = np.array(
                [vectors[[words.index(w) for w in t.split()]].sum(axis=0) for t in texts]
            )
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    class Writer:
        chats = False

        def __call__(self, prompts, tokens):
            sent = [prompt.splitlines()[-2].removeprefix("Scrambled: ") for prompt in prompts]
            return [f"{text} w{number % 7}" for number, text in enumerate(sent)]

    (tmp_path / "sst2").mkdir()
    lines = [f'{{"text": "{" ".join(words[k : k + 12])}"}}\n' for k in (0, 5, 9)]
    (tmp_path / "sst2" / "dev.jsonl").write_text("".join(lines))
    monkeypatch.setattr(dp, "default_space", lambda: space)
    monkeypatch.setattr(dp, "EmbeddingService", Service)
    monkeypatch.setattr(privrewrite, "open_writer", lambda model, temperature: Writer())
    monkeypatch.setattr("sys.argv", ["privrewrite.py", str(tmp_path), "--model", "m"])
    privrewrite.main()
    shown = capsys.readouterr().out
    assert all(f"| {name} | not at hand |" in shown for name in privrewrite.GRID)
    assert "| the best candidate |" in shown
    assert "| a peak in alpha (Fig. 3) | " in shown
