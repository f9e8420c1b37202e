"""The scripts of benchmarks/papers: their tables, options and prompts."""

from __future__ import annotations

import numpy as np
import pytest

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("scripts")


@pytest.mark.slow
def test_a_local_model_writes_the_same_alone_and_with_others(tmp_path):
    import writer
    from support.chat_models import save_llama

    save_llama(tmp_path, length=64)
    write = writer.open_writer(str(tmp_path), temperature=0.0)
    prompts = ["w1 w2 w3", "w4", "w5 w5 w6 w7 w8"] * 8
    together = write(prompts, 6)
    assert together == [write([prompt], 6)[0] for prompt in prompts]
    sampled = writer.open_writer(str(tmp_path), temperature=1.0)
    assert sampled(prompts, 6) == sampled(prompts, 6)
    assert len(set(sampled(["w4"] * 8, 6))) > 1


def test_the_size_of_rantexts_lists_with_its_own_constants():
    """One dimension, tokens at 0, ..., 99; at epsilon 1 the radius is exponential, of mean 99.

    So y is on the list of x with probability exp(-|x - y| / 99), and the share is their mean.
    """
    import rantext_lists

    places = np.arange(100.0)
    words = dp.Vocabulary([f"w{k}" for k in range(100)])
    space = dp.EmbeddingSpace(words, places[:, None])
    expected = np.exp(-np.abs(places[:, None] - places) / 99.0).mean()
    assert rantext_lists.published_share(space, 1.0, draws=20_000) == pytest.approx(
        expected, abs=0.01
    )


def test_what_a_mechanism_is_measured_by(monkeypatch):
    """A model that repeats its prompt: the generated text is scored, and the raw one extracted."""
    import continuation
    import inferdpt

    class Echo:
        chats = False

        def __init__(self):
            self.prompts = []

        def __call__(self, prompts, tokens):
            self.prompts.append(list(prompts))
            return [f"<{prompt}>" for prompt in prompts]

    import common

    space = dp.EmbeddingSpace(dp.Vocabulary(["a", "b", "c"]), np.eye(3))
    remote, local = Echo(), Echo()
    study = continuation.Study(
        space=space, pairs=[("a b", "c"), ("b c", "a")], continued=1, guessed=1,
        writers=(remote, local), prompts=common.templates(inferdpt.BASE, []),
    )  # fmt: skip
    scored = []
    monkeypatch.setattr(continuation.Study, "scores", lambda self, w: scored.append(w) or {})
    guess = type("Guess", (), {"rate": 0.25})
    monkeypatch.setattr(continuation.Study, "_guess", lambda self, raw, sent, m: guess)
    cells = study.measure(dp.TokenExponential(epsilon=200.0))
    assert cells == {
        "inversion, k = 1": "0.0%",
        "inversion, k = 10": "0.0%",
        "inversion of words, k = 1": "0.0%",
        "inversion of words, k = 10": "0.0%",
        "the model, one guess": "75.0%",
    }
    assert remote.prompts == [["a b"]]
    assert local.prompts == [["<a b>\n\na b"]]
    assert scored == [["<<a b>\n\na b>"]]


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


@pytest.mark.slow
def test_a_model_that_only_continues_attacks_with_what_it_expects(tmp_path):
    """With a law that tells nothing, a guess is the model's likeliest token."""
    import common
    import continuation
    import inferdpt
    import writer
    from support.chat_models import save_llama

    save_llama(tmp_path, length=64)
    local = writer.open_writer(str(tmp_path), temperature=0.0)
    space = dp.EmbeddingSpace(dp.Vocabulary([f"w{k}" for k in range(20)]), np.eye(20))
    study = continuation.Study(
        space=space, pairs=[("w1 w2 w3", "w4")], continued=1, guessed=1,
        writers=(local, local), prompts=common.templates(inferdpt.BASE, []),
    )  # fmt: skip
    raw = [np.array([3, 1, 2])]
    sent = [np.array([5, 6, 7])]
    nothing, all_of_it = dp.TokenExponential(epsilon=1e-9), dp.TokenExponential(epsilon=400.0)
    assert study._guess(raw, sent, nothing).rate <= 1 / 3
    assert study._guess(raw, raw, all_of_it).rate == 1.0


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
