"""What the tests of both packages share."""

import pytest
from support.contract import Probe
from support.contract._sources import installed

NEEDED = {
    "langchain": ("langchain", "langchain_openai"),
    "llama_index": ("llama_index.core", "llama_index.llms.openai"),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai",),
}
collect_ignore = [folder for folder, names in NEEDED.items() if not all(map(installed, names))]


@pytest.fixture
def probe(tmp_path):
    """Records what the frameworks may show or send."""
    with Probe(tmp_path) as probe:
        yield probe
