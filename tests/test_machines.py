"""The same products and distances on every machine, and integers within what certificates allow.

One processor behaves like others by the settings of its libraries: which kernels NumPy's OpenBLAS,
torch and MKL take, and how many threads.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dp_middleware.certification.enumeration import RECOMPUTED, left_over_drift

WORKER = Path(__file__).parent / "support" / "machine_rows.py"
NARROW = ("default", "avx2", "avx512")  # what torch calls them, each with more registers

NAMES = ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS")
MACHINES = {
    name: dict(zip(NAMES, values, strict=True)) | own
    for name, values, own in (
        ("old", ("Prescott", "default", "1"), {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
        ("avx2", ("Haswell", "avx2", "2"), {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
        ("plain torch", ("Haswell", "default", "2"), {}),
        ("another brand", ("Zen", "avx2", "2"), {"MKL_CBWR": "COMPATIBLE"}),
        ("avx512", ("SkylakeX", "avx512", "1"), {"MKL_ENABLE_INSTRUCTIONS": "AVX512"}),
    )
}


def machine_rows(settings, folder):
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    path = folder / "rows.npz"
    done = subprocess.run(
        [sys.executable, WORKER, path], env=environment | settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as rows:
        return dict(rows)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """What this machine computes, as it is."""
    return machine_rows({}, tmp_path_factory.mktemp("here"))


def runs_here(settings):
    """A processor can leave instructions out, not take ones that it does not have."""
    import torch

    own = torch.backends.cpu.get_cpu_capability().lower()
    return own in NARROW and NARROW.index(settings["ATEN_CPU_CAPABILITY"]) <= NARROW.index(own)


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_another_machine_computes_the_same(name, here, tmp_path):
    if not runs_here(MACHINES[name]):
        pytest.skip(f"expected a processor with {MACHINES[name]['ATEN_CPU_CAPABILITY']}")
    there = machine_rows(MACHINES[name], tmp_path)
    assert there.keys() == here.keys()
    for key, ours in here.items():
        if key.endswith("weights"):
            stem = key.removesuffix("weights")
            assert_within_the_allowance(ours, there[key], here[f"{stem}bits"])
        elif key.endswith("masses"):  # as the code assumes
            np.testing.assert_allclose(there[key], ours, rtol=2.0**-10, err_msg=key)
        else:
            assert np.array_equal(ours, there[key]), key


def assert_within_the_allowance(ours, theirs, bits):
    """What ``certification.enumeration`` adds to every loss for another machine."""
    units = 2.0 ** -bits.astype(float)[:, None]
    assert np.array_equal(ours > 0, theirs > 0)
    possible = np.where(ours > 0, ours * units, 1.0)
    steepest = np.maximum(1.0, -np.log(possible).min(axis=1))
    largest = possible.max(axis=1, initial=0.0, where=ours > 0)
    allowed = RECOMPUTED * np.maximum(1.0, 0.1 * steepest)
    allowed += np.array(
        [left_over_drift(s, ours.shape[1], p) for s, p in zip(steepest, largest, strict=True)]
    )
    bound = np.maximum(ours, theirs) * allowed[:, None] + 1
    assert (np.abs(ours - theirs) <= bound).all()
