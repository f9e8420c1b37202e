"""The papers' scripts: what they compute of what was measured, by hand-made figures."""

import numpy as np
import pytest
from support.spaces import random_space

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("scripts")


def test_paired_differences_are_judged_by_hand():
    import protocol

    # t = 2 / (1 / sqrt(3)) = 3.464 with 2 degrees of freedom
    more, less, both = np.array([1.0, 2, 3]), np.array([-1.0, -2, -3]), np.array([-1.0, 0, 1])
    assert protocol.chance(more) == pytest.approx(0.0371, abs=1e-4)
    assert protocol.chance(less) == pytest.approx(1 - 0.0371, abs=1e-4)
    assert [protocol.chance(np.full(3, k)) for k in (2.0, 0.0, -2.0)] == [0.0, 0.5, 1.0]
    assert protocol.paired("more", {"a": more}).holds is True
    assert protocol.paired("more", {"a": more, "b": both}).holds is None
    assert protocol.paired("more", {"a": more, "b": np.full(3, -1.0)}).holds is False


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
    study = cape_study.Study(
        space=space,
        policy=dp.KeepPolicy.words(["the"], label="one"),
        sets=[protocol.Labelled.of("sst2", records, 4, 4, encoder)],
        prefixes={"cnndm": ["the old film", "the new good film"]},
        encoder=encoder,
    )
    santext, custext, *_ = cape.methods({}, [], space)
    sharp = study.measured(santext, dp.SanText(epsilon=1000.0))
    assert sharp[cape_study.ROUGE] == sharp["cnndm, Rouge-L"] == sharp["N_t"] == 100
    assert sharp["sst2, re-identified, k = 1"] == 100
    assert sharp["cnndm, cosine"] == pytest.approx(100)
    assert sharp["S_t"] == pytest.approx(1)
    flat = study.measured(custext, dp.CusTextAggressive(epsilon=1e-9, candidates=6))
    assert flat["N_t"] == pytest.approx(100 / 6)
    assert flat["S_t"] == pytest.approx(6)
    assert study.bare(santext, dp.SanText(epsilon=1000.0)) == {cape_study.BARE: 100}


def test_cape_is_the_papers_with_one_part_changed():
    import cape

    published = cape.cape(20.0, 14.0)
    assert (published.sensitivity, published.context) == ("printed", "raw")
    assert (published.buckets, published.logit_weight, published.distance_weight) == (50, 0.5, 1.0)
    varied = cape.ablations(published)
    assert varied.pop("as published") == published
    changed = [
        [name for name, value in one.parameters.items() if value != published.parameters[name]]
        for one in varied.values()
    ]
    assert changed == [["sensitivity"], ["logit_weight"], ["distance_weight"], *[["buckets"]] * 2]


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
