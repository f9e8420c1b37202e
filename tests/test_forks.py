"""A forked child of a process that has computed with several threads computes, too."""

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


SEARCHING = """
import os, signal, threading, warnings
import numpy as np
import dp_middleware as dp
from dp_middleware.mechanisms.kernels import codebook

vectors = np.random.default_rng(0).normal(size=(20, 4))
space = dp.EmbeddingSpace(dp.Vocabulary([f"word{k}" for k in range(20)]), vectors, device="cpu")
held, done = threading.Event(), threading.Event()

def search():
    with codebook._SEARCHING:
        held.set()
        done.wait()

thread = threading.Thread(target=search)
thread.start()
held.wait()
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if not child:
    signal.alarm(30)
    os._exit(0 if dp.NearestResponse.tuned(space, epsilon=3.0).codebook else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
thread.join()
raise SystemExit(code)
"""

ELSEWHERE = """
import mmap, os
import numpy, torch  # before names are gone that a system without forks has not
for module, names in ((os, ["fork", "register_at_fork"]), (mmap, list(vars(mmap)))):
    for name in names:
        if name.startswith(("MAP_", "MADV_", "fork", "register_")):
            delattr(module, name)
from dp_middleware.sampling.sampler import Sampler, log_softmax
sampler = Sampler(lambda ids: log_softmax(numpy.eye(4)[ids]), capacity=200)
for _ in range(2):
    assert len(sampler.draw(numpy.arange(4))) == 4
assert sampler._cache.bytes > 0
cache = sampler._cache._cache
del sampler
assert not len(cache._channels)
"""


@pytest.mark.slow
def test_a_system_without_forks_caches_rows():
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], timeout=120, check=False)
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_a_search_of_its_parent(tmp_path):
    own = {**os.environ, "DP_MIDDLEWARE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SEARCHING], env=own, timeout=120, check=False)
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_threads_that_it_has_not():
    """OpenMP's threads are not forked: the first parallel loop would wait for them for ever."""
    several = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=several, timeout=120, check=False)
    assert done.returncode == 0
