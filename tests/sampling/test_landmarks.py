"""Draws by landmarks are those of whole rows, bit for bit, or are left to whole rows."""

import os

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.entropy import assert_draws_alike, at_boundaries, stream
from support.spaces import CASES, host_rows, random_space, space_of, spaces

import dp_middleware as dp
from dp_middleware.certification.enumeration import enumerate_pairs
from dp_middleware.mechanisms import base, landmarks
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.landmarks import Survey
from dp_middleware.sampling import sampler as sampling

MARKED = ("token-exponential", "token-exponential-shifted", "santext", "truncated-exponential")
EPSILONS = (0.5, 3.0, 200.0)  # the last: 128 bits


@pytest.fixture(autouse=True)
def caches(monkeypatch, tmp_path):
    monkeypatch.setattr(sampling, "_caches", {})
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(base, "_WORTH_STORING", 0)
    monkeypatch.setattr(landmarks, "FINEST", 4)


def surveyed(mechanism, space):
    survey = Survey(mechanism, space)
    enumerate_pairs(mechanism, space, dp.Adjacency.substitution(), survey)
    return survey.landmarks()


def assert_as_tables(mechanism, space, made, seed):
    """Nothing is decided at the ends of an output, all else nearly always, and as tables do."""
    random = np.random.default_rng(seed).bytes(8 * 60)
    ids = np.arange(len(space))
    for number, table in zip(ids, sampling.tables(host_rows(mechanism, ids, space)), strict=True):
        for data, least in ((at_boundaries(table), 0.0), (random, 0.9)):
            words = np.frombuffer(data, dtype=np.uint64)
            decided, outputs = made.locate(np.full(len(words), number), words)
            assert outputs.tolist() == table.locate(words[decided], None).tolist()
            assert decided.mean() >= least
            assert not least or decided.any()
        assert not made.locate(np.full(len(table.lasts), number), table.lasts)[0].any()


@over("name", MARKED)
@settings(max_examples=20)
@given(space=spaces(max_tokens=9), epsilon=st.sampled_from(EPSILONS), seed=st.integers(0, 2**32))
def test_outputs_are_those_of_tables(name, space, epsilon, seed):
    mechanism = CASES[name](epsilon)
    assert_as_tables(mechanism, space, surveyed(mechanism, space), seed)


@over("name", [*MARKED, "rantext", "rantext-strict"])
@over("epsilon", EPSILONS)
def test_outputs_of_several_blocks_of_rows_are_those_of_tables(name, epsilon):
    vectors = np.random.default_rng(0).normal(size=(150, 20))
    vectors[7] = vectors[140]
    mechanism, space = CASES[name](epsilon), space_of(vectors)
    assert_as_tables(mechanism, space, surveyed(mechanism, space), 0)


def test_a_sampler_draws_the_same_by_landmarks_by_tables_and_by_both():
    """Unknown tokens have no landmarks; tokens that come often get a table."""
    mechanism, space = dp.SanText(epsilon=2.0), random_space(60)
    generator = np.random.default_rng(0)
    rows = surveyed(mechanism, space)
    samplers = [
        sampling.Sampler(lambda ids: rows_of(mechanism, ids, space), landmarks=of)
        for of in (None, rows)
    ]
    for length in 39 * [7] + [900]:
        ids = generator.choice(61, length, p=[0.4, 0.3, *np.full(59, 0.3 / 59)]) - 1
        data = generator.bytes(8 * length)
        plain, marked = (each.draw(ids, stream(data)).tolist() for each in samplers)
        assert plain == marked


@over("epsilon", EPSILONS)
def test_beside_landmarks_a_row_that_is_held_decides_as_its_table(epsilon):
    mechanism, space = dp.SanText(epsilon=epsilon), random_space(60)
    rows = surveyed(mechanism, space)
    sampler = sampling.Sampler(lambda ids: rows_of(mechanism, ids, space), landmarks=rows)
    (table,) = sampler.tables(np.array([3]))
    words = at_boundaries(table)
    for start in range(0, len(words), 8 * 30):  # too few for a row
        assert_draws_alike(sampler, 3, table, words[start : start + 8 * 30])


def test_only_tokens_that_come_often_in_one_call_are_computed_and_held(computed):
    mechanism, space = dp.SanText(epsilon=2.0), random_space(60)
    sanitizer = dp.Sanitizer(mechanism, space)
    for _ in range(sampling.OFTEN):
        sanitizer.release("w1 w2 w2")
    assert computed == []
    sanitizer.release("w1 unheard-of")
    assert computed == [-1]
    for _ in range(2):
        drawer(mechanism, space).draw([np.full(sampling.OFTEN, 3)], sampling.os_entropy)
    assert computed == [-1, 3]


def test_a_certificate_leaves_landmarks_for_other_processes(computed):
    mechanism, space = dp.TokenExponential(epsilon=3.0), random_space(60)
    assert landmarks.opened(mechanism, space) is None
    dp.certify(mechanism, space)
    assert landmarks.opened(mechanism, space) is not None
    assert landmarks.survey(mechanism, space) is None
    assert dp.Sanitizer(mechanism, space).release("w1 w5 w7").tokens_total == 3
    assert computed == []
    assert landmarks.opened(dp.TokenExponential(epsilon=4.0), space) is None
    assert landmarks.opened(mechanism, random_space(60, seed=1)) is None


def test_none_are_made_where_they_cannot_be_trusted_or_are_large(monkeypatch):
    class Mine(dp.TokenExponential):
        pass

    space = random_space(60)
    for mechanism in (Mine(epsilon=1.0), CASES["custext-strict"](1.0), dp.MetricNoise(eta=1.0)):
        assert landmarks.survey(mechanism, space) is None
        assert landmarks.opened(mechanism, space) is None
    monkeypatch.setattr(landmarks, "MOST", 100)
    dp.certify(dp.SanText(epsilon=1.0), space)
    assert landmarks.opened(dp.SanText(epsilon=1.0), space) is None


def test_a_file_with_any_bit_flipped_or_cut_short_is_not_there(tmp_path):
    made, path = surveyed(dp.SanText(epsilon=1.0), random_space(40)), tmp_path / "marks.npy"
    made.store(path)
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    assert list(tmp_path.iterdir()) == [path]
    assert np.array_equal(landmarks.load(made.mechanism, made.space, path).rows, made.rows)
    for place in (0, 40, *generator.integers(len(whole), size=400), len(whole) - 1):
        data = bytearray(whole)
        data[place] ^= 1 << int(generator.integers(8))
        for damaged in (data, whole[:place], os.urandom(place)):
            path.write_bytes(damaged)
            assert landmarks.load(made.mechanism, made.space, path) is None


def test_landmarks_that_do_not_fit_decide_nothing():
    """As of a file whose digest was made again: no draw leaves the law of the row."""
    mechanism, space = dp.SanText(epsilon=2.0), random_space(60)
    made, generator = surveyed(mechanism, space), np.random.default_rng(0)
    words = np.frombuffer(generator.bytes(8 * 4000), dtype=np.uint64)
    ids = generator.integers(0, 60, 4000)
    tables = sampling.tables(host_rows(mechanism, np.arange(60), space))
    wanted = np.array([tables[i].locate(w[None], None)[0] for i, w in zip(ids, words, strict=True)])
    rows = made
    made.rows["offset"] += 1e-6
    assert not rows.locate(ids, words)[0].any()
    made.rows["offset"] -= 1e-6
    made.rows["starts"][:, 3] += 1 << 20  # of two blocks of 15
    decided, outputs = rows.locate(ids, words)
    assert outputs.tolist() == wanted[decided].tolist()
    assert 0.75 < decided.mean() < 0.95


def test_prepared_landmarks_are_kept_and_all_draws_look_at_them(computed, monkeypatch):
    """Without a cache of rows, no draw takes longer because its token is new."""
    monkeypatch.setenv("DP_MIDDLEWARE_ROW_CACHE_MB", "0")
    mechanism, space = dp.SanText(epsilon=2.0), random_space(60)
    sanitizer = dp.Sanitizer(mechanism, space)
    path = sanitizer.prepare()
    whole = path.read_bytes()
    assert path.parent.name == "prepared"
    assert list((path.parents[1] / "landmarks").iterdir()) == []
    assert sanitizer.prepare() == path
    for _ in range(3 * sampling.OFTEN):
        sanitizer.release("w1 w2 w59")
    assert computed == []
    path.write_bytes(whole[:-1])
    assert landmarks.opened(mechanism, space) is None
    assert dp.Sanitizer(mechanism, space).prepare().read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_an_error_or_does_without(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file", "n" * 300):  # the second cannot even be asked for
        monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path / name))
        for mechanism in ("santext", "nearest-response"):
            sanitizer = dp.Sanitizer(CASES[mechanism](2.0), random_space(60))
            assert sanitizer.release("w1 w2").tokens_total == 2
            with pytest.raises(dp.ParameterError, match="cannot write"):
                sanitizer.prepare()
