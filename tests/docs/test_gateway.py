"""The gateway's page, its example, and the files for containers say what the code does."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from support.commands import run
from support.gateway import SECRET, running

from dp_middleware.gateway import Settings, app
from dp_middleware.gateway.settings import Client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gateway.md").read_text("utf-8")


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    monkeypatch.setenv("DP_GATEWAY_UPSTREAM_KEY", "sk-1")


def test_the_example_is_read(environment, tmp_path, monkeypatch):
    text = (ROOT / "docs/gateway.toml").read_text("utf-8")
    settings = Settings.read(ROOT / "docs/gateway.toml")
    assert settings.policy_of("/v1/chat/completions") == "letters"
    assert settings.policies["default"].epsilon == 10
    whole = tmp_path / "gateway.toml"  # with a client, as the page says, and all that is commented
    client = run("serve", "--new-client", "ann", code=0).stdout
    whole.write_text(re.sub(r"^# (memo|extractor) ", r"\1 ", text, flags=re.M) + client)
    more = Settings.read(whole)
    assert isinstance(more.clients[0], Client)
    assert more.policies["letters"].extractor == "ollama:llama3.2"
    monkeypatch.setenv("DP_GATEWAY_LEDGER__URL", "postgresql+psycopg://dp:x@db/dp")
    changed = Settings.read(whole)
    assert changed.ledger.url.startswith("postgresql")
    assert changed.ledger.budget == 1000
    assert "dp:x" not in repr(changed)


def test_the_files_for_containers():
    steps = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    given = dict(step.split(" ", 1) for step in steps if re.match("[A-Z]+ ", step))
    entry, options = json.loads(given["ENTRYPOINT"]), json.loads(given["CMD"])
    assert entry[:2] == ["dp-middleware", "serve"]
    help_text = run("serve", "--help", code=0).output
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service = compose["services"]["gateway"]
    for words in (entry[2:], options, service["command"]):
        assert all(word in help_text for word in words if word.startswith("--"))
    assert "--workers" in service["command"]
    assert service["ports"][0].startswith("127.0.0.1:8300")
    assert entry[-1] == service["volumes"][0].split(":")[1]
    assert "DP_GATEWAY_MEMO" in service["environment"]
    assert set(compose["volumes"]) == {"memo", "ledger"}
    assert given["USER"] == "gateway"


def test_the_page_names_all_paths_and_headers():
    paths = {path.replace("{id:path}", "{id}") for path, _ in app.ROUTES}
    named = set(re.findall(r"`(/(?:v1|beta)/[^`]+)`", PAGE))
    assert paths - named == {"/v1/models/{id}"}
    assert named <= paths
    with running() as gateway:
        answer = gateway.chat("hello")
    sent = {name for name in answer.headers if name.startswith("x-dp-")}
    known = set(re.findall(r"`(x-dp-[a-z-]+)`", PAGE))
    assert known - sent == {"x-dp-conversation", "x-dp-budget-remaining"}
    assert sent <= known


def test_commands_of_the_page_are_there(environment):
    commands = [line.strip() for line in PAGE.splitlines() if "dp-middleware serve" in line]
    help_text = run("serve", "--help", code=0).output
    for line in [command for command in commands if command.startswith("dp-middleware")]:
        options = [word for word in shlex.split(line, comments=True) if word.startswith("--")]
        assert all(option in help_text for option in options)
