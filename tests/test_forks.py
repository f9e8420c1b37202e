"""A forked child of a process that has computed with several threads computes, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, warnings
import numpy as np
import dp_middleware as dp

vectors = np.random.default_rng(0).normal(size=(3000, 16))
space = dp.EmbeddingSpace(dp.Vocabulary([f"w{k}" for k in range(3000)]), vectors, device="cpu")
sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=1.0), space)
sanitizer.release("w1 w2")
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
child = os.fork()
if not child:
    signal.alarm(30)
    os._exit(0 if sanitizer.release("w3 w4").tokens_total == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_threads_that_it_has_not():
    """OpenMP's threads are not forked: the first parallel loop would wait for them for ever."""
    several = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=several, timeout=120, check=False)
    assert done.returncode == 0
