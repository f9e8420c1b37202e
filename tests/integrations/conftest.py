"""What the tests of all packages share."""

import pytest
from support.contract import OpenAIServer, Probe
from support.contract._sources import installed

NEEDED = {
    "langchain": ("langchain", "langchain_openai"),
    "llama_index": ("llama_index.core", "llama_index.llms.openai"),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai",),
}
collect_ignore = [folder for folder, names in NEEDED.items() if not all(map(installed, names))]


def pytest_collection_modifyitems(items):
    """Leaves out the tests of an adapter's tables that are empty."""
    items[:] = [item for item in items if "NOTSET" not in item.name]


@pytest.fixture
def probe(tmp_path, capsys):
    """Records what the frameworks may show or send, and the console."""
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        yield probe


@pytest.fixture
def remote():
    """A remote model that must see nothing of the entities."""
    from support.entities import private

    with OpenAIServer() as server:
        yield server
    assert private(server) == []
