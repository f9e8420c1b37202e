"""Toy spaces, strategies for random ones, and the mechanisms that every law is tried on."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dp_middleware as dp
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.sampling import sampler


def space_of(vectors, *, unknown="uniform"):
    vectors = np.asarray(vectors, dtype=float)
    tokens = [f"w{i}" for i in range(len(vectors))]
    return dp.EmbeddingSpace(dp.Vocabulary(tokens, unknown=unknown), vectors)


def random_space(tokens=12, dimensions=3, seed=0, **options):
    vectors = np.random.default_rng(seed).normal(size=(tokens, dimensions))
    return space_of(vectors, **options)


@st.composite
def spaces(draw, max_tokens=9, max_dimensions=4):
    """Spaces of 2 to 9 tokens with duplicates, dead dimensions, zero and collinear vectors."""
    shape = (draw(st.integers(2, max_tokens)), draw(st.integers(1, max_dimensions)))
    numbers = st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-3, 3).map(lambda x: round(x, 3))
    )
    vectors = draw(hnp.arrays(np.float64, shape, elements=numbers))
    return space_of(vectors, unknown=draw(st.sampled_from(["uniform", "raise"])))


@st.composite
def responses(draw, size):
    """Nearest responses to so many tokens, with repeated codewords and more near than there are."""
    ids = st.integers(0, size - 1)
    book = draw(st.none() | st.lists(ids, min_size=1, max_size=12))
    if book is not None:
        book = (*book, *[book[0]] * draw(st.sampled_from([0, 0, 1, 30])))
    return dp.NearestResponse(
        epsilon=draw(st.sampled_from([1e-6, 1e-3, 20.0]) | st.floats(0.01, 25.0)),
        candidates=draw(st.integers(1, 9)),
        codebook=book,
        nearness=draw(st.sampled_from(["distance", "centred_cosine"])),
    )


@dataclass(frozen=True)
class Case:
    """A mechanism, made of epsilon, with what is known of it.

    Attributes:
        proved: The paper's or our epsilon really bounds the loss under substitution.
        finite: The loss under substitution is finite (more than one token).
    """

    make: object
    proved: bool
    finite: bool = True

    def __call__(self, epsilon):
        return self.make(epsilon=epsilon)


LOSSY = {"proved": False, "finite": False}
CASES = {
    "token-exponential": Case(dp.TokenExponential, proved=True),
    "token-exponential-shifted": Case(partial(dp.TokenExponential, score="shifted_cosine"), True),
    "santext": Case(dp.SanText, proved=False),
    "custext": Case(partial(dp.CusText, candidates=3), **LOSSY),
    "custext-aggressive": Case(partial(dp.CusTextAggressive, candidates=3), **LOSSY),
    "custext-strict": Case(partial(dp.CusTextStrict, candidates=3), proved=True),
    "santext-plus": Case(partial(dp.SanTextPlus, non_sensitive=frozenset({"w1"})), **LOSSY),
    "truncated-exponential": Case(partial(dp.TruncatedExponential, threshold=1.0), proved=False),
    "custext-plus": Case(partial(dp.CusTextPlus, candidates=3, kept=frozenset({"w1"})), **LOSSY),
    "dyntext": Case(partial(dp.DynText, candidates=3, table_seed=1), **LOSSY),
    "dyntext-strict": Case(partial(dp.DynTextStrict, candidates=3), proved=True),
    "nearest-response": Case(partial(dp.NearestResponse, candidates=1), proved=True),
    "nearest-response-two": Case(
        partial(dp.NearestResponse, candidates=2, nearness="centred_cosine"), proved=True
    ),
    "rantext": Case(dp.RanText, proved=False),
    "rantext-strict": Case(dp.RanTextStrict, proved=True),
}


def host_rows(mechanism, ids, space):
    """The law of each id, the unknown symbol's (-1) included; float64 (n, V), NumPy."""
    return rows_of(mechanism, ids, space).cpu().numpy()


def drawn_law(mechanism, space):
    """P(y|x) by Python's own big integers, of the tables that are drawn from; float64 (V, V)."""
    tables = sampler.tables(host_rows(mechanism, np.arange(len(space)), space))
    integers = [table.integers(len(space)) for table in tables]
    return np.array([[weight / sum(row) for weight in row] for row in integers])


def brute_force_loss(mechanism, space):
    """max over pairs and outputs of ln P(y|x) - ln P(y|x'), the unknown symbol included."""
    rows = mechanism.log_probs(np.arange(len(space)), space)
    if space.vocabulary.has_unknown_symbol:
        rows = np.vstack([rows, host_rows(mechanism, np.array([-1]), space)])
    possible = np.isfinite(rows)
    if (possible.any(axis=0) & ~possible.all(axis=0)).any():
        return math.inf
    rows = rows[:, possible.all(axis=0)]
    return float((rows.max(axis=0) - rows.min(axis=0)).max())


def crowded_space():
    """Ten tokens: the first at distance 1 from all others, the second near three of them."""
    chords = [1.0, 0.142, 0.300, 0.487, *[1.0] * 5]  # from the second; the first is the centre
    angles = 2 * np.arcsin(np.array(chords[1:]) / 2)
    turns = np.arange(len(angles)) * 0.7
    sphere = [np.cos(angles), np.sin(angles) * np.cos(turns), np.sin(angles) * np.sin(turns)]
    return space_of(np.vstack([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], np.transpose(sphere)]))
