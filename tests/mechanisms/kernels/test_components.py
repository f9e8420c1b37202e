"""Components are those of the public vectors, and a damaged file is not read."""

import os
import subprocess
import sys

import numpy as np
import pytest

from dp_middleware.mechanisms.kernels import components
from dp_middleware.mechanisms.kernels.components import Components

PUBLIC = np.random.default_rng(0).normal(size=(200, 12)) * np.linspace(3, 1, 12)


def test_directions_are_orthonormal_and_variances_fall():
    made = Components.of(PUBLIC)
    assert made.directions @ made.directions.T == pytest.approx(np.eye(12), abs=1e-12)
    assert (np.diff(made.variances) <= 0).all()
    assert (np.diff(made.lengths) > 0).all()
    assert repr(made).startswith("Components(12 of 12, components-")


def test_the_default_is_kept_on_disk_and_a_damaged_file_is_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    asked = []

    class Service:
        def __init__(self, name):
            asked.append(name)

        def encode(self, texts):
            return PUBLIC

    class Space:
        fingerprint = "toy"

    monkeypatch.setattr(components, "EmbeddingService", Service)
    monkeypatch.setattr(components, "default_space", Space)
    monkeypatch.setattr(components, "_random_texts", list)
    make = components.default_components.__wrapped__
    first, second = make(), make()
    assert first == second == Components.of(PUBLIC)
    assert len(asked) == 1
    (file,) = (tmp_path / "components").glob("*.npz")
    for damaged in (b"{}", file.read_bytes()[:-30]):
        file.write_bytes(damaged)
        assert make() == first
    assert len(asked) == 3


KERNELS = {
    "plain": {},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "default"},
}
FITTED = """
import numpy as np
from dp_middleware.mechanisms.kernels.components import Components
print(Components.of(np.random.default_rng(1).normal(size=(700, 33))).fingerprint)
"""


def test_components_are_the_same_whatever_kernels_a_machine_has():
    found = [
        subprocess.run(
            [sys.executable, "-c", FITTED],
            env={**os.environ, **kernels, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kernels in KERNELS.values()
    ]
    assert len({*found}) == 1, found


def test_eigenvectors_are_those_of_lapack():
    rows = np.random.default_rng(2).normal(size=(60, 17))
    values, vectors = components.eigen(rows.T @ rows)
    expected, theirs = np.linalg.eigh(rows.T @ rows)
    assert values == pytest.approx(expected[::-1], rel=1e-12)
    assert np.abs((vectors * theirs.T[::-1]).sum(axis=1)) == pytest.approx(1.0, abs=1e-10)
