"""Settings for all tests: no time limits on examples, caches in a folder of their own."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.load_profile("project")

os.environ.setdefault("DP_MIDDLEWARE_CACHE", tempfile.mkdtemp(prefix="dp-middleware-tests-"))
os.environ["HF_HUB_OFFLINE"] = "1"
