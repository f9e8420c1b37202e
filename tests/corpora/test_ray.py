"""Rows of Ray Data have one release, on actors that are killed and in results read twice."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.postgres import new_database

JOB = Path(__file__).parents[1] / "support" / "ray_job.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_actors_and_a_second_reading_lose_nothing_and_draw_nothing_twice(tmp_path):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install '.[ray]'")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(JOB), str(tmp_path / "job"), new_database()]
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
