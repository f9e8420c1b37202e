"""The papers' scripts: what they compute of what was measured, by hand-made figures."""

import numpy as np
import pytest
from support.spaces import random_space

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("scripts")


def test_welchs_test_by_hand():
    import protocol

    # t = 1 / sqrt(1/3 + 1/3) = 1.2247 with 4 degrees of freedom
    assert protocol.greater([1, 2, 3], [0, 1, 2]) == pytest.approx(0.1440, abs=1e-4)
    assert protocol.greater([0, 1, 2], [1, 2, 3]) == pytest.approx(1 - 0.1440, abs=1e-4)
    assert protocol.greater([2, 2], [1, 1]) == 0
    assert protocol.greater([1, 1], [1, 1]) == 1


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
    assert protocol.inverted(sent, space)["k = 1"] == 1


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
    import protocol

    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[float("good" in t), float(len(t) % 2)] for t in texts], dtype=np.float32)

    texts = ["good", "so good", "bad", "so bad"] * 3
    records = [{"text": t, "question": "good", "label": int("good" in t)} for t in texts]
    encoder = protocol.Remembered(encode)
    alone = protocol.Labelled.of("sst2", records, 4, 8, encoder)
    assert alone.accuracy(["good", "so good", "bad", "bad"]) == 1
    assert alone.accuracy(["bad", "bad", "good", "good"]) == 0
    pairs = protocol.Labelled.of("qnli", records, 4, 8, encoder)
    assert pairs.accuracy(pairs.texts, pairs.questions) == 1
    assert pairs.accuracy(pairs.texts, ["bad"] * 4) < 1
    assert len(asked) == len(set(asked))


def test_cape_measures_texts_and_laws():
    pytest.importorskip("rouge_score", reason="needs the extra eval")
    import cape
    import cape_study
    import protocol

    words = ["the", "good", "bad", "film", "old", "new"]
    space = dp.EmbeddingSpace(dp.Vocabulary(words), np.eye(6))
    texts = ["the good film", "the bad film", "the old film", "the new film"] * 2
    records = [{"text": text, "label": k % 2} for k, text in enumerate(texts)]
    encoder = protocol.Remembered(lambda some: np.array([[t.count("o"), len(t)] for t in some]))
    data = protocol.Labelled.of("sst2", records, 4, 4, encoder)
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


def outcome(recovered, accuracy):
    from stencil_study import Outcome

    return Outcome(recovered={"k = 1": recovered, "k = 10": recovered}, accuracy=accuracy)


def test_stencil_is_compared_where_as_much_is_hidden():
    import stencil

    alone = [outcome(0.8, 0.9), outcome(0.2, 0.6)]
    # at .5 the line is at .75; beyond it stays at .9
    assert stencil.advantage([outcome(0.5, 0.85)], alone, "k = 1") == pytest.approx(0.1)
    assert stencil.advantage([outcome(0.9, 0.85)], alone, "k = 1") == pytest.approx(-0.05)
    shape = stencil.better("A", "k = 1", [([outcome(0.5, 0.85)], alone)], 50)
    assert (shape.holds, shape.because) == (
        None,
        "by +10.0 points of accuracy, standard error 10.0",
    )
    assert stencil.better("A", "k = 1", [([outcome(0.5, 0.85)], alone)], 5000).holds
