"""An encoder that needs no model."""

import pytest
from support.letters import Letters


@pytest.fixture
def letters():
    return Letters()
