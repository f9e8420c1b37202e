"""One cache of rows per process, and rows on disk: shared, bounded, and never chosen by use."""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from support.entropy import assert_draws_alike, at_boundaries, stream
from support.spaces import CASES, host_rows, random_space
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware import _files, embedding
from dp_middleware.cli import app
from dp_middleware.mechanisms import prepared as _prepared
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import files, sampler as sampling
from dp_middleware.sampling.cache import RowCache

KEY = {"mechanism": "toy"}
KINDS = ["full", "sparse", "steep", "sparse and steep"]


@pytest.fixture(autouse=True)
def caches(monkeypatch, tmp_path):
    """Empty ones, in memory and on disk."""
    monkeypatch.setattr(sampling, "_caches", {})
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path / "cache"))


def rows_of(kind, count, size, seed=0):
    """Rows of one kind: with impossible outputs, of 128 bits, both, or neither."""
    rows = np.random.default_rng(seed).normal(size=(count, size))
    rows *= 60 if "steep" in kind else 1
    if "sparse" in kind:
        for k, row in enumerate(rows):  # of many lengths
            row[: (k + 1) * size // (count + 2)] = -math.inf
    return sampling.log_softmax(rows)


def one_by_one(tables, ids, words):
    """What each id's own table gives for its word."""
    return [
        int(tables[number].draw(1, stream(words[8 * place :]))[0])
        for place, number in enumerate(ids)
    ]


def content(folder):
    """All files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sanitizer_of(mechanism=None, space=None, **options):
    mechanism = mechanism if mechanism is not None else dp.TokenExponential(epsilon=3.0)
    return dp.Sanitizer(mechanism, space if space is not None else random_space(), **options)


# in memory --------------------------------------------------------------------------------


def test_equal_sanitizers_compute_a_row_once(computed):
    text = "w1 w2 w3"
    first, second = sanitizer_of(), sanitizer_of()
    first.release(text)
    assert sorted(computed) == [1, 2, 3]
    second.release(f"{text} w4")
    assert computed[3:] == [4]
    sanitizer_of(dp.TokenExponential(epsilon=4.0)).release(text)
    assert sorted(computed[4:]) == [1, 2, 3]


def test_other_spaces_and_devices_have_other_rows():
    mechanism, space = dp.TokenExponential(epsilon=3.0), random_space()
    key = _prepared.key_in_memory(mechanism, space)
    assert key == _prepared.key_in_memory(dp.TokenExponential(epsilon=3), random_space())
    assert key != _prepared.key_in_memory(mechanism, random_space(seed=1))
    space.device = "meta"
    assert key != _prepared.key_in_memory(mechanism, space)


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
    assert not _prepared.is_ours(inside)
    assert _prepared.is_ours(dp.WithinClasses(mechanism=CASES["santext"](1.0), classes=("all",)))


def test_all_channels_together_are_bounded_whatever_threads_do():
    capacity, size = 60_000, 100
    cache = RowCache(capacity)
    rows = [rows_of(KINDS[k % 4], 20, size, seed=k) for k in range(12)]
    tables = [sampling.tables(each) for each in rows]

    def work(seed):
        generator = np.random.default_rng(seed)
        most = 0
        for _ in range(60):
            k = int(generator.integers(12))
            sampler = sampling.Sampler(lambda ids, k=k: rows[k][ids], cache=cache.channel(k))
            ids = generator.integers(0, 20, 8)
            words = generator.bytes(64)
            wanted = one_by_one(tables[k], ids, words)
            assert sampler.draw(ids, stream(words)).tolist() == wanted
            most = max(most, cache.held)
        return most

    kept = [cache.channel(k) for k in range(8)]  # the others come and go
    with ThreadPoolExecutor(4) as pool:
        most = max(pool.map(work, range(4)))
    assert capacity / 4 < most <= capacity
    assert len(kept) == 8


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), capacity=st.integers(0, 20_000))
def test_channels_of_all_kinds_share_memory_and_draw_from_their_own_rows(seed, capacity):
    generator = np.random.default_rng(seed)
    cache = RowCache(capacity)
    rows = [rows_of(kind, 6, 24, seed % 1000) for kind in KINDS]
    tables = [sampling.tables(each) for each in rows]
    samplers = {}
    for _ in range(40):
        k, ids, words = generator.integers(4), generator.integers(0, 6, 4), generator.bytes(32)
        if generator.random() < 0.1:
            samplers.pop(k, None)
        if k not in samplers:
            rows_k = rows[k]
            samplers[k] = sampling.Sampler(lambda ids, r=rows_k: r[ids], cache=cache.channel(k))
        wanted = one_by_one(tables[k], ids, words)
        assert samplers[k].draw(ids, stream(words)).tolist() == wanted
        assert cache.held <= capacity


def test_a_sparse_channel_leaves_the_rows_of_others_in_place():
    cache, full, asked = RowCache(100_000), rows_of("full", 4, 50), []

    def counted(ids):
        asked.extend(ids.tolist())
        return full[ids]

    dense = sampling.Sampler(counted, cache=cache.channel("dense"))
    dense.draw(np.arange(4))
    sparse = rows_of("sparse and steep", 4, 50)
    sampling.Sampler(lambda ids: sparse[ids], cache=cache.channel("sparse")).draw(np.arange(4))
    dense.draw(np.arange(4))
    assert asked == [0, 1, 2, 3]


def test_memory_of_a_channel_goes_back_to_the_system():
    """In a process of its own: the heap of this one may have room for all of it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(give_back).result()


def give_back():
    process, cache = psutil.Process(), RowCache(200_000_000)
    tables = sampling.tables(rows_of("full", 100, 1 << 16))
    kept, gone = cache.channel("kept"), cache.channel("gone")
    kept.store(np.arange(2), tables[:2])
    before = process.memory_info().rss
    gone.store(np.arange(100), tables)  # 57 MB
    assert process.memory_info().rss > before + 50_000_000
    del gone
    assert cache.held < 3_000_000
    assert process.memory_info().rss < before + 25_000_000  # malloc keeps some
    del kept
    assert cache.held == 0


def test_sanitizers_at_other_epsilons_leave_nothing_behind():
    sanitizer = sanitizer_of()
    sanitizer.release("w1 w2 w3")
    cache = sampling._caches["process"]
    before = cache.held
    for epsilon in (0.5, 1.0, 1.5):
        sanitizer.at(epsilon).release("w1 w2 w3")
    gc.collect()
    assert cache.held == before > 0


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
            empty = cache.held == 0
            os._exit(7 if empty and sanitizer.release("w1 w2").tokens_total == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert cache.held > 0


def test_the_bound_is_the_one_in_the_environment(monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_ROW_CACHE_MB", "0")
    sanitizer = sanitizer_of()
    sanitizer.release("w1 w2")
    assert sampling._caches["process"].held == 0
    for nonsense in ("-1", "1.5", "much", "²"):
        monkeypatch.setattr(sampling, "_caches", {})
        monkeypatch.setenv("DP_MIDDLEWARE_ROW_CACHE_MB", nonsense)
        with pytest.raises(dp.ParameterError, match="whole number of megabytes"):
            sanitizer_of().release("w1 w2")


# on disk ----------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs permissions")
def test_what_was_prepared_can_be_read_by_who_runs_the_server():
    """Certificates and codebooks, too: without them a process of another user starts anew."""
    before = os.umask(0o022)
    try:
        _files.store({"near": 1}, "codebooks", "key")
        rows = _prepared.prepare(dp.TokenExponential(epsilon=3.0), random_space(), np.arange(12))
    finally:
        os.umask(before)
    (stored,) = (rows.parent.parent / "codebooks").iterdir()
    assert {path.stat().st_mode & 0o777 for path in (stored, *rows.iterdir())} == {0o644}
    assert rows.stat().st_mode & 0o777 == 0o755
    with pytest.raises(TypeError):
        _files.store({"near": object()}, "codebooks", "other")
    assert list(stored.parent.iterdir()) == [stored]
    assert _files.load("codebooks", "key") == {"near": 1}


@pytest.mark.parametrize(
    "name", ["sampling/tables.py", "embedding/grid.py", "mechanisms/kernels/radius.py"]
)
def test_the_version_of_rows_changes_with_the_code_that_decides_them(monkeypatch, tmp_path, name):
    package = Path(dp.__file__).parent
    shutil.copytree(package, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_files, "__file__", str(tmp_path / "copy" / "_files.py"))
    monkeypatch.setattr(_files, "folders_fingerprint", _files.folders_fingerprint.__wrapped__)
    before = _files.code_fingerprint()
    with (tmp_path / "copy" / name).open("a") as file:
        file.write("# other")
    assert _files.code_fingerprint() != before


@pytest.mark.parametrize("name", CASES)
def test_prepared_rows_are_the_computed_ones_bit_for_bit(name):
    for epsilon in (2.0, 200.0):  # 64 and 128 bits
        mechanism, space = CASES[name](epsilon), random_space(30)
        ids = np.arange(-1, 30)
        _prepared.prepare(mechanism, space, ids[1:])
        prepared = _prepared.opened(mechanism, space)
        assert prepared is not None
        sampler = sampling.Sampler(None, prepared=prepared)
        for number, table in zip(
            ids, sampling.tables(host_rows(mechanism, ids, space)), strict=True
        ):
            found = prepared._table(prepared._places.of(np.array([number]))[0])
            for name_of in ("lasts", "low", "support"):
                assert np.array_equal(getattr(found, name_of), getattr(table, name_of))
            words = at_boundaries(table) + sampling.insecure_entropy(0)(8 * 200)
            assert_draws_alike(sampler, number, table, words)


def test_a_prepared_sanitizer_computes_nothing(computed):
    sanitizer = sanitizer_of()
    path = sanitizer.prepare()
    computed.clear()
    text = "w1 w2 w11 unheard-of"
    assert sanitizer.release(text).tokens_total == 4
    later = sanitizer_of(insecure_entropy=sampling.insecure_entropy(1))
    released = later.release(text).text
    assert computed == []
    shutil.rmtree(path)
    fresh = sanitizer_of(insecure_entropy=sampling.insecure_entropy(1))
    assert fresh.release(text).text == released
    assert sorted(computed) == [-1, 1, 2, 11]


def test_which_rows_are_on_disk_is_chosen_by_no_use(computed):
    sanitizer = sanitizer_of()
    sanitizer.release("w7 w8")
    path = sanitizer.prepare(["w1", "w2", "w2"])
    few = content(path)
    computed.clear()
    sanitizer.release("w1 w2 w3 w7")
    assert sorted(computed) == [3, 7]
    assert content(path) == few
    assert list(path.parent.iterdir()) == [path]
    shutil.rmtree(path)
    assert content(sanitizer_of().prepare(["w2", "w1"])) == few
    sanitizer_of().prepare()
    everything = content(path)
    assert len(everything["lasts.npy"]) > len(few["lasts.npy"])
    assert content(sanitizer_of().prepare(["w1"])) == everything  # it has these rows


def test_draws_from_disk_follow_the_law():
    mechanism, space = dp.TokenExponential(epsilon=6.0), random_space()
    sanitizer = sanitizer_of(mechanism, space)
    sanitizer.prepare(space.vocabulary.tokens[:6])
    drawing = drawer(mechanism, space)
    count = 40_000
    for number in (0, 5, 9, -1):  # 9 is not on disk
        drawn = drawing.draw([np.full(count, number)], sampling.os_entropy)[0]
        expected = np.exp(host_rows(mechanism, np.array([number]), space)[0]) * count
        observed = np.bincount(drawn, minlength=len(space))
        assert stats.chisquare(observed, expected * count / expected.sum()).pvalue > 1e-9


@pytest.mark.parametrize("name", ["guide.npy", "lasts.npy", "rows.npy", "rows.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-1],
        lambda data: b"PK" + data[2:],
        lambda data: os.urandom(len(data)),
        None,
    ],
)
def test_a_damaged_folder_is_not_there_and_is_written_anew(damage, name):
    mechanism, space = dp.TokenExponential(epsilon=3.0), random_space()
    path = _prepared.prepare(mechanism, space, np.arange(12))
    before, file = content(path), path / name
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    assert _prepared.opened(mechanism, space) is None
    assert sanitizer_of(mechanism, space).release("w1 w2").tokens_total == 2
    assert _prepared.prepare(mechanism, space, np.arange(12)) == path
    assert content(path) == before


@pytest.mark.parametrize("place", [200, -1])
def test_a_flipped_bit_is_noticed_when_rows_are_prepared_again(place):
    mechanism, space = dp.TokenExponential(epsilon=3.0), random_space()
    path = _prepared.prepare(mechanism, space, np.arange(12))
    before, file = content(path), path / "lasts.npy"
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert not _prepared.opened(mechanism, space).is_intact()
    _prepared.prepare(mechanism, space, np.arange(12))
    assert content(path) == before


def test_rows_of_another_channel_version_or_device_are_not_there(monkeypatch):
    mechanism, space = dp.TokenExponential(epsilon=3.0), random_space()
    path = _prepared.prepare(mechanism, space, np.arange(12))
    other = dp.TokenExponential(epsilon=4.0)
    copied = _prepared.prepare(other, space, np.arange(12))
    shutil.copytree(path, copied, dirs_exist_ok=True)
    assert _prepared.opened(other, space) is None
    assert _prepared.opened(mechanism, space) is not None
    assert _prepared.opened(mechanism, random_space(seed=1)) is None
    monkeypatch.setattr(_files, "code_fingerprint", lambda: "other")
    assert _prepared.opened(mechanism, space) is None


WRITER = """
import sys, time
import numpy as np
from pathlib import Path
from dp_middleware.sampling import files, sampler as sampling

def rows():
    table = sampling.tables(np.full((1, 1 << 16), -np.log(1 << 16)))[0]
    for number in range(8):
        yield number, table
    print("half", flush=True)
    time.sleep(60)

files.write(Path(sys.argv[1]), {"mechanism": "toy"}, rows())
"""


def test_a_killed_writer_leaves_nothing_that_is_read(tmp_path):
    path = tmp_path / "toy.rows"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout.readline() == "half\n"
        writer.kill()
    (part,) = tmp_path.iterdir()
    assert (part / "lasts.npy").stat().st_size > 1 << 20
    assert files.open_rows(path, KEY) is None
    part.rename(path)  # not even if it had the right name
    assert files.open_rows(path, KEY) is None
    path.rename(part)
    table = sampling.tables(rows_of("full", 1, 10))[0]
    files.write(path, KEY, [(0, table)])
    assert part.exists()  # somebody may still write to it
    os.utime(part, (time.time() - 7200,) * 2)
    files.write(path, KEY, [(0, table)])
    assert list(tmp_path.iterdir()) == [path]
    assert files.open_rows(path, KEY).is_intact()


def test_a_writer_that_fails_leaves_the_rows_that_were_there(tmp_path):
    path = tmp_path / "toy.rows"
    table = sampling.tables(rows_of("full", 1, 10))[0]
    files.write(path, KEY, [(0, table)])
    before = content(path)

    def failing():
        yield 1, table
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(path, KEY, failing())
    assert content(path) == before
    assert list(tmp_path.iterdir()) == [path]


def test_rows_that_were_replaced_are_drawn_from_until_they_are_opened_again(tmp_path):
    path, tables = tmp_path / "toy.rows", sampling.tables(rows_of("full", 2, 10))
    files.write(path, KEY, [(0, tables[0])])
    before = files.open_rows(path, KEY)
    files.write(path, KEY, [(0, tables[1])])
    for rows, table in ((before, tables[0]), (files.open_rows(path, KEY), tables[1])):
        assert np.array_equal(rows._table(0).lasts, table.lasts)


def test_writers_at_once_leave_one_whole_folder(tmp_path):
    path, tables = tmp_path / "toy.rows", sampling.tables(rows_of("sparse", 20, 100))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(files.write, path, KEY, enumerate(tables)) for _ in range(20)]:
            done.result()
    assert list(tmp_path.iterdir()) == [path]
    assert files.open_rows(path, KEY).is_intact()


def test_the_room_is_known_before_anything_is_written(monkeypatch):
    space = random_space(60)
    for name, epsilon in (("token-exponential", 3.0), ("token-exponential", 300.0), ("custext", 3)):
        path = _prepared.prepare(CASES[name](epsilon), space, np.arange(60))
        size = sum(map(len, content(path).values()))
        needed, _ = _prepared.needs(CASES[name](epsilon), space, np.arange(60))
        assert size - 2000 < needed < 1.1 * size
        shutil.rmtree(path)
    usage = type("Usage", (), {"free": 10_000})
    monkeypatch.setattr(_prepared.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(dp.ParameterError, match=r"GB free for 61 rows .* DP_MIDDLEWARE_CACHE"):
        sanitizer_of(space=space).prepare()
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path / "file"))
    with pytest.raises(dp.ParameterError, match="cannot write"):
        sanitizer_of().prepare()


def test_what_cannot_be_prepared_is_refused():
    class Mine(dp.TokenExponential):
        pass

    with pytest.raises(dp.ParameterError, match="law per token"):
        sanitizer_of(dp.MetricNoise(eta=1.0)).prepare()
    with pytest.raises(dp.ParameterError, match="Mine"):
        sanitizer_of(Mine(epsilon=1.0)).prepare()
    with pytest.raises(dp.ParameterError, match="not in it"):
        sanitizer_of().prepare(["w1", "nothing"])
    with pytest.raises(dp.ParameterError, match="got none"):
        sanitizer_of().prepare([])
    with pytest.raises(dp.InfiniteEpsilon):
        sanitizer_of(CASES["custext"](1.0)).prepare()


def test_the_command_line_asks_before_it_writes_much(monkeypatch):
    space = random_space(40)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    monkeypatch.setattr("dp_middleware.cli.certify._MUCH", 1.0)
    command = ["prepare", "-m", "token-exponential", "--nominal", "-e", "3"]
    refused = CliRunner().invoke(app, command, input="n\n")
    assert refused.exit_code != 0
    assert "GB in" in refused.output
    assert "for 40 rows" in refused.output
    assert _prepared.opened(dp.TokenExponential(epsilon=3.0), space) is None
    assert CliRunner().invoke(app, [*command, "--yes"]).exit_code == 0
    assert CliRunner().invoke(app, command).exit_code == 0  # they are there
    few = CliRunner().invoke(app, ["prepare", "-m", "nearest-response", "--nominal", "-e", "3"])
    assert few.exit_code == 0, few.output
    assert Path(few.stdout.partition(" (")[0]).suffix == ".npz"  # lists need no rows


def test_the_command_line_prepares(monkeypatch):
    space = random_space(40)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    sizes = []
    for options in (["--first", "5"], []):
        result = CliRunner().invoke(
            app, ["prepare", "-m", "token-exponential", "--nominal", "-e", "3", *options]
        )
        assert result.exit_code == 0, result.output
        path = Path(result.stdout.partition(" (")[0])
        sizes.append((path / "lasts.npy").stat().st_size)
    assert sizes[0] < sizes[1]
    found = _prepared.opened(dp.TokenExponential(epsilon=3.0), space)
    assert found.holds(np.arange(-1, 40))
    assert CliRunner().invoke(app, ["prepare", "--first", "0"]).exit_code == 2
