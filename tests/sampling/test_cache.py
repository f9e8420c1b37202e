"""One cache of rows per process, shared and bounded, and what is on disk for all of them."""

import math
import os
import shutil
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.cases import refuses
from support.entropy import stream
from support.spaces import CASES, random_space
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware import _files, embedding
from dp_middleware.cli import app
from dp_middleware.mechanisms import base
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler as sampling
from dp_middleware.sampling._cache import RowCache


@pytest.fixture(autouse=True)
def caches(monkeypatch, tmp_path):
    monkeypatch.setattr(sampling, "_caches", {})
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path / "cache"))


def held(cache):
    with cache.lock:
        return sum(rows.bytes for rows in list(cache._channels.values()))


def sanitizer_of(mechanism=None, space=None, **options):
    mechanism = mechanism if mechanism is not None else dp.TokenExponential(epsilon=3.0)
    return dp.Sanitizer(mechanism, space if space is not None else random_space(), **options)


def test_equal_sanitizers_compute_a_row_once(computed):
    text = "w1 w2 w3"
    first, second = sanitizer_of(), sanitizer_of()
    first.release(text)
    assert sorted(computed) == [1, 2, 3]
    second.release(f"{text} w4")
    assert computed[3:] == [4]
    sanitizer_of(dp.TokenExponential(epsilon=4.0)).release(text)
    sanitizer_of(space=random_space(seed=1)).release(text)
    assert sorted(computed[4:]) == [1, 1, 2, 2, 3, 3]
    here, there = (dp.EmbeddingSpace(s.vocabulary, s.vectors) for s in [random_space()] * 2)
    there.device = "meta"
    assert len({base.key_in_memory(first.mechanism, space) for space in (here, there)}) == 2


def test_a_mechanism_whose_code_is_unknown_shares_with_itself_only():
    """Two classes of one name, so of one fingerprint, with different laws."""
    space, ids = random_space(), np.arange(12)

    def made(answer):
        class Constant(dp.TokenExponential):
            def log_probs(self, ids, space):
                rows = np.full((len(ids), len(space)), -math.inf)
                rows[:, answer] = 0.0
                return rows

        return Constant(epsilon=3.0)

    first, second = made(1), made(2)
    assert first.fingerprint == second.fingerprint
    for mechanism, answer in ((first, 1), (second, 2), (first, 1)):
        drawn = drawer(mechanism, space).draw([ids], sampling.os_entropy)
        assert drawn[0].tolist() == [answer] * 12
    inside = dp.WithinClasses(mechanism=first, classes=("all",) * 12)
    assert not base.is_ours(inside)
    assert not base.is_ours(dp.ByClass({"all": first}, ("all",) * 12))
    assert base.is_ours(dp.WithinClasses(mechanism=CASES["santext"](1.0), classes=("all",)))


def test_all_channels_together_are_bounded_whatever_threads_do():
    """Of rows with impossible outputs, of 128 bits, both, or neither."""
    cache, scores = RowCache(60_000), np.random.default_rng(0).normal(size=(12, 20, 100))
    scores[1::2] *= 60
    sparse, lengths = np.arange(12) % 4 > 1, 4 * np.arange(1, 21)[:, None]
    scores[sparse] = np.where(np.arange(100) < lengths, -math.inf, scores[sparse])
    rows = [sampling.log_softmax(each) for each in scores]
    tables = [sampling.tables(each) for each in rows]

    def work(seed):
        generator = np.random.default_rng(seed)
        most = 0
        for _ in range(60):
            k = int(generator.integers(12))
            sampler = sampling.Sampler(lambda ids, k=k: rows[k][ids], cache=cache.channel(k))
            ids = generator.integers(0, 20, 8)
            words = generator.bytes(64)
            wanted = [tables[k][number].draw(1, stream(words[8 * place :]))[0]
                      for place, number in enumerate(ids)]  # fmt: skip
            assert sampler.draw(ids, stream(words)).tolist() == wanted
            most = max(most, held(cache))
        return most

    kept = [cache.channel(k) for k in range(8)]  # the others come and go
    with ThreadPoolExecutor(4) as pool:
        most = max(pool.map(work, range(4)))
    assert 60_000 / 4 < most <= 60_000
    assert len(kept) == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_with_no_rows_and_draws():
    sanitizer = sanitizer_of()
    sanitizer.release("w1 w2")
    cache = sampling._caches["process"]
    with cache.lock:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if not child:
            signal.alarm(20)
            empty = held(cache) == 0
            os._exit(7 if empty and sanitizer.release("w1 w2").tokens_total == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert held(cache) > 0


def test_the_bound_is_the_one_in_the_environment(monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_ROW_CACHE_MB", "0")
    sanitizer = sanitizer_of()
    sanitizer.release("w1 w2")
    assert held(sampling._caches["process"]) == 0
    for nonsense in ("-1", "1.5", "much", "²"):
        monkeypatch.setattr(sampling, "_caches", {})
        monkeypatch.setenv("DP_MIDDLEWARE_ROW_CACHE_MB", nonsense)
        refuses("number of megabytes", lambda text: sanitizer_of().release(text), "w1 w2")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs permissions")
def test_what_was_prepared_can_be_read_by_who_runs_the_server():
    """Codebooks, too: without them a process of another user starts anew."""
    before = os.umask(0o022)
    try:
        _files.store({"near": 1}, "codebooks", "key")
        lists = sanitizer_of(CASES["nearest-response"](3.0)).prepare()
    finally:
        os.umask(before)
    (stored,) = (lists.parent.parent / "codebooks").iterdir()
    assert {path.stat().st_mode & 0o777 for path in (stored, lists)} == {0o644}
    with pytest.raises(TypeError):
        _files.store({"near": object()}, "codebooks", "other")
    assert list(stored.parent.iterdir()) == [stored]
    assert _files.load("codebooks", "key") == {"near": 1}


def test_the_version_of_rows_changes_with_the_code_that_decides_them(monkeypatch, tmp_path):
    package = Path(dp.__file__).parent
    shutil.copytree(package, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_files, "__file__", str(tmp_path / "copy" / "_files.py"))
    found = {_files.code_fingerprint.__wrapped__()}
    for name in ("sampling/integers.py", "embedding/grid.py", "mechanisms/kernels/radius.py"):
        with (tmp_path / "copy" / name).open("a") as file:
            file.write("# other")
        found.add(_files.code_fingerprint.__wrapped__())
    assert len(found) == 4


def test_of_a_mechanism_without_lists_and_landmarks_the_certificate_is_prepared(computed):
    class Mine(dp.TokenExponential):
        pass

    for mechanism in (CASES["dyntext-strict"](1.0), dp.MetricNoise(eta=1.0), Mine(epsilon=1.0)):
        sanitizer = sanitizer_of(mechanism)
        assert sanitizer.prepare() is None
        assert "certificate" in sanitizer.__dict__
        assert sanitizer.release("w1 w2").tokens_total == 2
    assert sorted(computed) == [1, 1, 2, 2]
    with pytest.raises(dp.InfiniteEpsilon):
        sanitizer_of(CASES["custext"](1.0)).prepare()


def test_the_command_line_prepares(monkeypatch):
    space = random_space(40)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    shown = []
    for mechanism in ("nearest-response", "token-exponential"):
        command = ["prepare", "-m", mechanism, "--nominal", "-e", "3"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        shown.append(result.stdout)
    assert Path(shown[0].partition(" (")[0]).suffix == ".npz"
    assert "rows of token-exponential are computed when they are used" in " ".join(shown[1].split())
