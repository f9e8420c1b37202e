"""What a worker of a corpus is sent, and what it holds."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dp_middleware as dp

WORKER = Path(__file__).parents[1] / "support" / "memory_of_worker.py"


def private_megabytes(sanitizer, folder):
    """Of a fresh process that was sent the sanitizer and has drawn with it."""
    (folder / "sanitizer").write_bytes(pickle.dumps(sanitizer))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, WORKER, folder / "sanitizer"]
    return float(subprocess.check_output(command, env=environment, text=True))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_a_worker_is_sent_little_and_holds_little_of_its_own(tmp_path):
    sanitizer = dp.sanitizer(epsilon=10)
    assert len(pickle.dumps(sanitizer)) < 20_000
    sanitizer.prepare()
    assert private_megabytes(sanitizer, tmp_path) < 500
