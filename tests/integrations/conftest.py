"""What the tests of both packages share."""

from __future__ import annotations

import pytest

from dp_middleware.testing import Probe


@pytest.fixture
def probe(tmp_path):
    """Records what the frameworks may show or send."""
    with Probe(tmp_path) as probe:
        yield probe
