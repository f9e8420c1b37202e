"""One conversation that is charged for."""

import pytest
from support.spaces import random_space

import dp_middleware as dp


@pytest.fixture
def ledger(tmp_path):
    return dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1000.0)


@pytest.fixture
def session(ledger):
    mechanism = dp.TokenExponential(epsilon=2.0)
    return dp.Session(dp.Sanitizer(mechanism, random_space(), ledger=ledger, subject="user"))
