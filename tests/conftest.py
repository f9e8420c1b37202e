"""Settings for all tests: no time limits on examples, caches in a folder of their own."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

# Continuous integration tries the same examples every time, a developer other ones.
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # one thread a worker, or they wait for each other

os.environ.setdefault("DP_MIDDLEWARE_CACHE", tempfile.mkdtemp(prefix="dp-middleware-tests-"))
os.environ["HF_HUB_OFFLINE"] = "1"

pytest_plugins = ["support.servers"]
