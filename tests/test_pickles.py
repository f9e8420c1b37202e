"""What is handed out and holds private text does not show it, and never leaves in a pickle."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.evaluation.data import Texts

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
    "token": lambda: SANITIZER.read(f"{CANARY} w1").tokens[0],
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


@pytest.mark.parametrize("make", HELD.values(), ids=HELD)
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
