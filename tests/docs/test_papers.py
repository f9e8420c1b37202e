"""The scripts of benchmarks/papers: what they compute of what was measured."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.spaces import random_space

import dp_middleware as dp

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Scripts import each other as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (PAPERS.parent, PAPERS):
            patch.syspath_prepend(str(folder))
        yield
        for name in ("probing", *(path.stem for path in PAPERS.glob("*.py"))):
            sys.modules.pop(name, None)


def test_the_size_of_rantexts_lists_with_its_own_constants():
    """One dimension, tokens at 0, ..., 99; at epsilon 1 the radius is exponential, of mean 99.

    So y is on the list of x with probability exp(-|x - y| / 99), and the share is their mean.
    """
    import inferdpt

    places = np.arange(100.0)
    words = dp.Vocabulary([f"w{k}" for k in range(100)])
    space = dp.EmbeddingSpace(words, places[:, None])
    expected = np.exp(-np.abs(places[:, None] - places) / 99.0).mean()
    shares = inferdpt.published_shares(space, 1.0, draws=20_000)
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


def test_defaults_say_what_options_take(monkeypatch):
    import pages

    words = "x.py data --sizes 3 --sizes 4 --half b --flag --per-text 2"
    monkeypatch.setattr("sys.argv", words.split())
    defaults = {"sizes": [int], "rows": ["a"], "half": ("a", "b"), "flag": False, "per_text": 1.5}
    found = vars(pages.options("In 95 % of all.", "folder", "more*", model=str, **defaults))
    known = {"sizes": [3, 4], "rows": ["a"], "half": "b", "flag": True, "per_text": 2.0}
    assert found == known | {"folder": Path("data"), "more": [], "model": None}


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
    assert pool.candidates == ["one", "two", "three", "two again"]
    np.testing.assert_allclose(pool.scores[:, 0], [1.0, 0.6, 0.0, 0.6])
    return bench, pool


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


def test_paired_differences_are_judged_by_hand():
    import common

    # t = 2 / (1 / sqrt(3)) = 3.464 with 2 degrees of freedom
    more, less, both = np.array([1.0, 2, 3]), np.array([-1.0, -2, -3]), np.array([-1.0, 0, 1])
    assert common.chance(more) == pytest.approx(0.0371, abs=1e-4)
    assert common.chance(less) == pytest.approx(1 - 0.0371, abs=1e-4)
    assert [common.chance(np.full(3, k)) for k in (2.0, 0.0, -2.0)] == [0.0, 0.5, 1.0]
    assert common.paired("more", {"a": more}).holds is True
    assert common.paired("more", {"a": more, "b": both}).holds is None
    assert common.paired("more", {"a": more, "b": np.full(3, -1.0)}).holds is False


def test_dyntexts_parts_are_its_own():
    import dyntext as parts
    import protocol

    space = random_space(tokens=60, dimensions=4)
    ids = np.arange(60)
    whole = dp.DynText(epsilon=2.0).log_probs(ids, space)
    of_parts = parts.OnLists(epsilon=2.0, smooth=True).log_probs(ids, space)
    np.testing.assert_allclose(of_parts, whole, atol=1e-9)
    public, lengths = parts.lists(space, smooth=False)
    assert np.ptp(public.log_sigma) == 0
    rows = parts.ABLATIONS["w/o smooth"](2.5, space).log_probs(ids, space)
    assert ((rows > -np.inf).sum(axis=1) == lengths).all()
    entropy = protocol.sampler.insecure_entropy(0)
    drawn = parts.ABLATIONS["w/o replacement"](1e6, space).perturb(ids, space, entropy)
    assert drawn.tolist() == ids.tolist()
    drawn = parts.ABLATIONS["w/o replacement"](1.0, space).perturb(ids, space, entropy)
    assert all(whole[x, y] > -np.inf for x, y in zip(ids, drawn, strict=True))
    assert (drawn != ids).any()


def test_kept_words_are_no_tokens_to_attack():
    import protocol

    words = ["the", "good", "bad", "film"]
    space = dp.EmbeddingSpace(dp.Vocabulary(words), np.eye(4))
    policy = dp.KeepPolicy.words(["the", "!"], label="two")
    sharp = dp.TokenExponential(epsilon=1000.0)
    sent = protocol.release(sharp, space, ["the good film !", "bad cow"], 0, policy=policy)
    assert sent.texts[0] == "the good film !"
    assert [ids.tolist() for ids in sent.raw] == [[1, 3], [2, -1]]
    assert sent.drawn[0].tolist() == [1, 3]


def test_cape_measures_texts_and_laws():
    import cape
    import cape_study
    import probing

    words = ["the", "good", "bad", "film", "old", "new"]
    space = dp.EmbeddingSpace(dp.Vocabulary(words), np.eye(6))
    texts = ["the good film", "the bad film", "the old film", "the new film"] * 2
    records = [{"text": text, "label": k % 2} for k, text in enumerate(texts)]
    encoder = probing.remembered(lambda some: np.array([[t.count("o"), len(t)] for t in some]))
    data = probing.Labelled("sst2", records, 4, 4, encoder)
    given = {"space": space, "policy": dp.KeepPolicy.words(["the"], label="one")}
    sharp = cape_study.Method(name="sharp", make=lambda e: dp.SanText(epsilon=1000 * e), **given)
    rouge, _, privacy = cape.measured([sharp], data)
    assert rouge["sharp"] == [100] * len(cape.EPSILONS)
    assert privacy["sharp"] == [0] * len(cape.EPSILONS)
    assert sharp.deniability(1.0, texts) == pytest.approx((100, 1))
    uniform = dp.CusTextAggressive(epsilon=1e-9, candidates=6)
    flat = cape_study.Method(name="flat", make=lambda _: uniform, **given)
    assert flat.deniability(1.0, texts) == pytest.approx((100 / 6, 6))
