"""A session with a ledger and a real server, without recorders."""

from pathlib import Path

import pytest
from support.contract import Probe


class Desk(Probe):
    """What adapters are built from, of a probe that records nothing; its text is the same."""

    listens = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.canary = "zxqvcanary"
        self.private_text = f"{self.canary} one two {self.canary} three"
        self.ledger, self._key = self._ledger, bytes(range(32))

    @property
    def charges(self) -> list[int]:
        """Tokens of every release that was charged."""
        return [row.tokens for row in super().charges]


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as desk:
        yield desk


@pytest.fixture
def remote(desk):
    """The desk's, which repeats what it is sent and must see nothing of the entities."""
    from support.entities import private

    desk.remote.mode = "echo"
    yield desk.remote
    assert private(desk.remote) == []
