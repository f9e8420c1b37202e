"""The page on local models is true: what it names opens, on this computer."""

import re
import textwrap
import tomllib
from pathlib import Path

from support.cases import over

import dp_middleware as dp
from dp_middleware.models.chat import open_model
from dp_middleware.models.trust import require_trusted

PAGE = (Path(__file__).parents[2] / "docs" / "local_models.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\S+).*\| `(http://\S+)` \| (.*) \|$", PAGE, flags=re.MULTILINE)
SPECS = [spec for *_, specs in ROWS for spec in re.findall(r"`((?:ollama|openai):\S+)`", specs)]


def test_the_four_servers_have_their_urls():
    ports = {name: int(url.split(":")[2].removesuffix("/v1")) for name, url, _ in ROWS}
    assert ports == {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM": 1234}
    assert all(url in specs for _, url, specs in ROWS)


@over("spec", SPECS)
def test_each_may_read_raw_text(spec):
    require_trusted(open_model(spec, private=True))


def test_the_example_runs(monkeypatch):
    local = lambda name: dp.chat_model(lambda messages: name, local=True)  # noqa: E731
    monkeypatch.setattr(dp, "ollama", local, raising=False)
    remote = dp.chat_model(lambda messages: "rest")
    shared = {"sanitizer": dp.sanitizer(epsilon=10), "remote": remote}
    [block] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(block, shared)
    assert shared["answer"].text == "llama3.2"


def test_the_upstream_is_one_that_the_gateway_reads():
    from dp_middleware.gateway import Settings

    upstream = tomllib.loads(textwrap.dedent(PAGE[PAGE.index("    [upstream]") :]))["upstream"]
    settings = Settings.of(
        secret="0" * 64,
        upstream=upstream,
        policies={"default": {"mode": "pseudonyms"}},
        clients=[{"id": "ann", "subject": "ann", "key_hash": "0" * 64}],
    )
    assert settings.upstream.models == ("llama3.2",)
