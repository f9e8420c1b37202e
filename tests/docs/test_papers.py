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
        self.table["x"] = (1.0, 0.0)

    def encode(self, texts):
        return np.array([self.table[text] for text in texts])


def rewrites():
    import privrewrite

    words = ("one", "two", "three", "again", "x")
    vectors = np.array([[1.0, 0], [0.6, 0.8], [0, 1.0], [0, 0], [1.0, 0]])
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
    bench = privrewrite.Bench(space=space, service=Vectors())
    pool = bench.pool("x", ["one", "two", " ", "three", "TWO", "two again"], bert=False)
    assert pool.candidates == ("one", "two", "three", "two again")
    np.testing.assert_allclose(pool.scores[:, 0], [1.0, 0.6, 0.0, 0.6])
    return bench, pool


def test_the_expected_cosine_of_a_choice_by_hand():
    """Utilities (<m(x), m(y)> + 1) / 2 with m(x) = (1, 0) are 1, 0.8, 0.5; sensitivity 1."""
    import privrewrite

    bench, pool = rewrites()
    naive = privrewrite.Setting(k=3, tau=1.0, epsilon=4.0, sensitivity="naive")
    found = bench.chosen(pool, [naive, privrewrite.Setting(k=1)])[:, 0]
    weights = np.exp([2.0, 1.6, 1.0])
    assert found[0] == pytest.approx(float(weights @ [1.0, 0.6, 0.0]) / weights.sum())
    assert found[1] == pytest.approx(1.0)
    # (1 + 0.6) / 2 = 0.8 and (1 + 0.8) / 2 = 0.9: with 0.75 "two" goes, "three" stays
    pruned = privrewrite.Setting(k=3, tau=0.75, epsilon=4.0, sensitivity="naive")
    weights = np.exp([2.0, 1.0])
    assert bench.chosen(pool, [pruned])[0, 0] == pytest.approx(weights[0] / weights.sum())


def test_the_law_of_a_choice_is_the_librarys():
    import privrewrite

    from dp_middleware.frameworks._selection import Selection

    bench, pool = rewrites()
    ids = [bench.space.vocabulary.encode(text) for text in pool.candidates]
    for sensitivity in privrewrite.CHOICES.values():
        setting = privrewrite.Setting(tau=1.0, alpha=0.5, epsilon=3.0, sensitivity=sensitivity)
        choice = Selection(epsilon=3.0, alpha=0.5, sensitivity=sensitivity)
        law = np.exp(choice.log_probs(pool.ids, ids, bench.space))
        found = bench.chosen(pool, [setting])[0, 0]
        assert found == pytest.approx(float(law @ pool.scores[:, 0]), abs=1e-5)


def test_known_candidates_keep_a_share_of_a_texts_words():
    import privrewrite

    texts = [" ".join(f"{name}{k}" for k in range(50)) for name in "ab"]
    first, second = privrewrite.known(texts, 200)
    shares = [np.mean([word.startswith("a") for word in text.split()]) for text in first]
    # a uniform share is its own, of the others half is foreign
    assert np.mean(shares) == pytest.approx(0.75, abs=0.1)
    assert min(shares) < 0.6 < 0.9 < max(shares)
    assert {len(text.split()) for text in first + second} == {50}


def test_the_script_of_privrewrite_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("bert_score", reason="needs the extra eval")
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

    def writer(prompts, tokens):
        sent = [prompt.splitlines()[-1] for prompt in prompts]
        return [f"{text}\nw{number % 7}" for number, text in enumerate(sent)]

    lines = [f'{{"text": "{" ".join(words[k : k + 12])}"}}\n' for k in (0, 5, 9)]
    for name in ("medquad", "imdb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dev.jsonl").write_text("".join(lines))
    monkeypatch.setattr(privrewrite, "frequent_space", lambda size: space)
    monkeypatch.setattr(privrewrite, "QUICK", (3, 2, 2, 2))
    monkeypatch.setattr(dp, "EmbeddingService", Service)
    monkeypatch.setattr(privrewrite, "open_writer", lambda model, temperature: writer)
    monkeypatch.setattr("sys.argv", ["privrewrite.py", str(tmp_path), "--model", "m"])
    privrewrite.main()
    shown = capsys.readouterr().out
    assert all(f"| {name} | " in shown for name in (*privrewrite.STUDIES, *privrewrite.CHOICES))
    assert all(f"| imdb, known | {name} | 1 / 2 / 4 | " in shown for name in ("WP", "EM"))
    assert "| Fig. 3: a peak at a moderate alpha" in shown
