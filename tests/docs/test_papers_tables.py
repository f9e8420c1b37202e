"""The papers' scripts: what they compute of what was measured, by hand-made figures."""

import numpy as np
import pytest
from support.spaces import random_space

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("scripts")


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
    import dyntext_parts as parts
    import protocol

    space = random_space(tokens=60, dimensions=4)
    ids = np.arange(60)
    whole = dp.DynText(epsilon=2.0).log_probs(ids, space)
    np.testing.assert_allclose(
        parts.OnLists(epsilon=2.0, smooth=True).log_probs(ids, space), whole, atol=1e-9
    )
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
    assert (sent.kept, sent.unknown) == (pytest.approx(2 / 6), pytest.approx(1 / 6))
    assert sent.drawn[0].tolist() == [1, 3]


def test_a_seed_repeats_its_release():
    import protocol

    space, nothing = random_space(), dp.KeepPolicy.nothing()
    texts = [" ".join(space.vocabulary.tokens[:8])]
    draws = [
        protocol.release(dp.SanText(epsilon=1.0), space, texts, seed, policy=nothing).drawn[0]
        for seed in (0, 0, 1)
    ]
    assert draws[0].tolist() == draws[1].tolist()
    assert draws[0].tolist() != draws[2].tolist()


def test_a_probe_reads_labels_of_texts_and_of_pairs():
    import probing

    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[float("good" in t), float(len(t) % 2)] for t in texts], dtype=np.float32)

    texts = ["good", "so good", "bad", "so bad"] * 3
    records = [{"text": t, "question": "good", "label": int("good" in t)} for t in texts]
    encoder = probing.remembered(encode)
    alone = probing.Labelled.of("sst2", records, 4, 8, encoder)
    assert alone.accuracy(["good", "so good", "bad", "bad"]) == 1
    assert alone.accuracy(["bad", "bad", "good", "good"]) == 0
    pairs = probing.Labelled.of("qnli", records, 4, 8, encoder)
    assert pairs.accuracy(pairs.texts, pairs.questions) == 1
    assert pairs.accuracy(pairs.texts, ["bad"] * 4) < 1
    assert len(asked) == len(set(asked))


def test_cape_measures_texts_and_laws():
    pytest.importorskip("rouge_score", reason="needs the extra eval")
    import cape
    import cape_study
    import probing

    words = ["the", "good", "bad", "film", "old", "new"]
    space = dp.EmbeddingSpace(dp.Vocabulary(words), np.eye(6))
    texts = ["the good film", "the bad film", "the old film", "the new film"] * 2
    records = [{"text": text, "label": k % 2} for k, text in enumerate(texts)]
    encoder = probing.remembered(lambda some: np.array([[t.count("o"), len(t)] for t in some]))
    data = probing.Labelled.of("sst2", records, 4, 4, encoder)
    sharp = cape_study.Method(
        name="sharp",
        space=space,
        make=lambda epsilon: dp.SanText(epsilon=1000 * epsilon),
        policy=dp.KeepPolicy.words(["the"], label="one"),
    )
    rouge, _, privacy = cape.measured([sharp], data)
    assert rouge["sharp"] == [100] * len(cape.EPSILONS)
    assert privacy["sharp"] == [0] * len(cape.EPSILONS)
    assert sharp.deniability(1.0, texts) == pytest.approx((100, 1))
    flat = cape_study.Method(
        name="flat",
        space=space,
        make=lambda epsilon: dp.CusTextAggressive(epsilon=1e-9, candidates=6),
        policy=sharp.policy,
    )
    assert flat.deniability(1.0, texts) == pytest.approx((100 / 6, 6))


def test_cape_is_the_papers_with_one_part_changed():
    import cape

    published = cape.cape(20.0, 14.0)
    assert (published.sensitivity, published.context) == ("printed", "raw")
    assert (published.buckets, published.logit_weight, published.distance_weight) == (50, 0.5, 1.0)
    changed = [
        [name for name, value in one.parameters.items() if value != published.parameters[name]]
        for one in cape.ablations(published).values()
    ]
    assert changed.count([]) == 2  # the published one, of either row
    assert changed.count(["logit_weight"]) == 5
    assert changed.count(["buckets"]) == 4


def test_cape_is_compared_at_equal_privacy():
    from cape_study import advantage

    line = [(100.0, 50.0), (0.0, 90.0)]
    assert advantage([(50.0, 75.0)], line) == pytest.approx(5)
    assert advantage([(25.0, 75.0), (75.0, 55.0)], line) == pytest.approx(-5)


def curve(*points):
    """Outcomes of 20 texts of 10 tokens each, with shares named and read."""
    from stencil_study import Outcome

    return [
        Outcome(
            hits=np.full(20, 10 * named),
            drawn=np.full(20, 10),
            right=np.arange(20) < 20 * read,
        )
        for named, read in points
    ]


def test_stencil_is_compared_where_as_much_is_named():
    import stencil_study

    alone = curve((0.8, 0.9), (0.2, 0.6))  # at .5 the line is at .75
    assert stencil_study.advantage(curve((0.5, 0.85)), alone) == pytest.approx(0.1)
    assert stencil_study.advantage(alone, curve((0.5, 0.85))) == pytest.approx(-0.1)
    assert np.isnan(stencil_study.advantage(curve((0.9, 0.85)), alone))
    # labels of 20 texts: an error of about 7 points
    near, far = (stencil_study.better("A", {"b": (curve((0.5, a)), alone)}) for a in (0.85, 0.35))
    assert (near.holds, far.holds) == (None, False)
    assert near.because.startswith("b +10 ± ")
    apart = stencil_study.better("A", {"b": (curve((0.9, 0.85)), alone)})
    assert apart.holds is None


def test_stencil_keeps_stop_words_and_unknown_words_and_is_attacked_by_the_cosine():
    import probing
    from stencil_study import Study

    words = ["the", "good", "great", "bad", "film", "book"]
    vectors = np.eye(6) * np.arange(1, 7)[:, None]  # of other lengths: a cosine does not see them
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
    encoder = probing.remembered(lambda some: np.array([[t.count("o"), len(t)] for t in some]))
    records = [{"text": t, "label": k % 2} for k, t in enumerate(["The good Zyx", "the bad film"])]
    data = probing.Labelled.of("sst2", records * 2, 2, 2, encoder)
    study = Study.keeping(space, [data])
    found = study.outcome(dp.MetricNoise(eta=1e6, nearness="cosine"), data)
    assert (found.hits.tolist(), found.drawn.tolist()) == ([1, 2], [1, 2])
    assert found.point() == (1.0, float(found.right.mean()))


def test_stencils_claims_are_judged_by_its_curves():
    import stencil

    rising = curve((0.2, 0.55), (0.5, 0.7), (0.8, 0.9))
    lines = {name: rising for name, _ in stencil.curves(figures=True)}
    lines |= {stencil.windowed(w): curve((0.1, 0.9), (0.3, 0.9)) for w in stencil.EVEN}
    lines[stencil.NOISE] = curve((0.2, 0.1), (0.8, 0.3))
    found = stencil.shapes({"sst2": lines, "qnli": lines}, unknown=0.2)
    holds = [shape.holds for shape in found]
    assert holds == [None, True, None, None, True, True, False, True, False]
    assert "L = 4 0.30" in found[3].because
