"""A place for a ledger in each kind of database."""

import pytest
from support import postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return postgres.new_database() if request.param == "postgresql" else f"sqlite:///{tmp_path}/l"
