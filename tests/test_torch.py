"""torch is loaded by the first name that is read of it, and warmed once, whoever loaded it."""

import os
import subprocess
import sys

import pytest

FIRST = """
import importlib, pkgutil, sys
import dp_middleware
for module in pkgutil.walk_packages(dp_middleware.__path__, "dp_middleware."):
    importlib.import_module(module.name)
assert not {"torch", "transformers", "scipy"} & set(sys.modules)
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import torch as first
from dp_middleware._torch import WARMED, torch
calls, start = Counter(), Barrier(8)
for name in WARMED:
    def count(numbers, name=name, call=getattr(first, name)):
        calls[name] += 1
        return call(numbers)
    setattr(first, name, count)
def read(_):
    start.wait()
    return torch.Tensor
with ThreadPoolExecutor(8) as threads:
    assert set(threads.map(read, range(8))) == {first.Tensor}
assert calls == dict.fromkeys(WARMED, 1)
assert torch.ones(1, dtype=torch.float64).dtype is first.float64
first.new = 7
assert torch.new == 7
"""

FORKED = """
import os, signal, sys, threading, time
from dp_middleware._torch import torch
import logging
thread = threading.Thread(target=lambda: torch.ones(1))
thread.start()
while "torch" not in sys.modules:
    time.sleep(0.001)
signal.alarm(60)  # ends it if the thread that loads waits for the fork, as for the lock of logging
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it if it waits for the thread that loads, which it does not have
    os._exit(int(torch.ones(2).sum()))
thread.join()
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 2, status
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_module_loads_it_and_threads_that_come_first_warm_it_once():
    run(FIRST)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_a_thread_loads_it_has_it():
    run(FORKED)
