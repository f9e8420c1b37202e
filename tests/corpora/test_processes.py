"""Processes: actors of Ray that are killed, what a worker of a corpus is sent, what it holds."""

import json
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.postgres import new_database

import dp_middleware as dp

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_actors_and_a_second_reading_lose_nothing_and_draw_nothing_twice(tmp_path):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install '.[ray]'")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SUPPORT / "ray_job.py"), str(tmp_path / "job"), new_database()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] == 2
    assert found["places"] == [*range(len(found["places"]))]
    assert [text is None for text in found["texts"]] == [n % 100 == 7 for n in found["places"]]
    assert found["same"]
    assert found["in_another_order"]
    assert found["charged_in_the_end"] == found["charged"]
    assert found["parts"] <= found["charged"] <= found["parts"] + 2
    assert found["epsilon"] <= found["spent"] * (1 + 1e-9)
    assert "has changed" in found["refused"]
    assert found["logs"]
    assert not found["leaks"]


def private_megabytes(sanitizer, folder):
    """Of a fresh process that was sent the sanitizer and has drawn with it."""
    (folder / "sanitizer").write_bytes(pickle.dumps(sanitizer))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, SUPPORT / "memory_of_worker.py", folder / "sanitizer"]
    return float(subprocess.check_output(command, env=environment, text=True))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_a_worker_is_sent_little_and_holds_little_of_its_own(tmp_path):
    sanitizer = dp.sanitizer(epsilon=10)
    assert len(pickle.dumps(sanitizer)) < 20_000
    sanitizer.prepare()
    assert private_megabytes(sanitizer, tmp_path) < 500
