"""An encoder that needs no model."""

from __future__ import annotations

import pytest
from support.letters import Letters


@pytest.fixture
def letters():
    return Letters()
