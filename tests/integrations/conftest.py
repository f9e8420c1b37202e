"""What the tests of both packages share."""

import pytest
from support.contract import Probe


@pytest.fixture
def probe(tmp_path):
    """Records what the frameworks may show or send."""
    with Probe(tmp_path) as probe:
        yield probe
