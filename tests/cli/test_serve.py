"""``dp-middleware serve``: keys, refusals, and a real gateway of two processes."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest
from support.commands import run
from support.texts import CANARY

from dp_middleware.gateway.clients import Clients, hash_of, new_key
from dp_middleware.gateway.settings import Client
from dp_middleware.testing import OpenAIServer

SECRET = secrets.token_hex(32)


def test_a_new_client(monkeypatch):
    run("serve", "--new-client", "ann", code=2)
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    result = run("serve", "--new-client", "ann", code=0)
    key = result.stderr.split()[-1]
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("key_hash")]
    client = Client.made(id="ann", subject="ann", key_hash=line.split('"')[1])
    assert Clients(SECRET, [client]).of(f"Bearer {key}") == client
    assert key not in result.stdout
    run("serve", "--new-client", f"{CANARY} {CANARY}", code=2)


def test_refusals(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    run("serve", code=2)
    run("serve", "--config", tmp_path / "none.toml", code=2)
    config = tmp_path / "gateway.toml"
    config.write_text('[upstream]\nurl = "http://127.0.0.1:1/v1"\nmodels = ["m"]\n')
    assert "memo" in run("serve", "--config", config, "--workers", 2, code=2).stderr


def lines_of(tmp_path, url, key):
    return f"""
memo = "{tmp_path}/memo.db"
[upstream]
url = "{url}"
models = ["m"]
[policies.default]
mode = "pseudonyms"
on_empty = "pass"
[ledger]
url = "sqlite:///{tmp_path}/ledger.db"
budget = 1000
[[clients]]
id = "ann"
subject = "ann"
key_hash = "{hash_of(SECRET, key)}"
"""


@pytest.mark.slow
def test_two_workers(tmp_path):
    """One is killed; the other has its memo, and no log has text, whatever is asked for."""
    key = new_key()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with OpenAIServer(mode="echo") as upstream:
        config = tmp_path / "gateway.toml"
        config.write_text(lines_of(tmp_path, upstream.url, key))
        code = "from dp_middleware.cli import app; app()"
        command = [sys.executable, "-c", code, "serve", "--config", str(config)]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--port", str(port), "--workers", "2"],
                env={**os.environ, "DP_GATEWAY_SECRET": SECRET, "DP_GATEWAY_UPSTREAM_KEY": CANARY},
                stdout=log,
                stderr=log,
            )
            try:
                talk(process, f"http://127.0.0.1:{port}", key)
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
    text = (tmp_path / "log").read_text()
    assert CANARY not in text
    assert key not in text
    assert not upstream.saw("Mirela")


def talk(process, root, key):
    deadline = time.monotonic() + 90
    while True:
        try:
            assert httpx.get(f"{root}/readyz").status_code == 200
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "m", "messages": [{"role": "user", "content": "Ask Mirela Tamburi."}]}

    def ask():
        return httpx.post(f"{root}/v1/chat/completions", json=body, headers=headers, timeout=30)

    for _ in range(8):
        answer = ask().json()["choices"][0]["message"]["content"]
        assert answer == "Ask Mirela Tamburi."
    httpx.get(f"{root}/{CANARY}?x={CANARY}")
    children = psutil.Process(process.pid).children()
    workers = [each for each in children if "spawn_main" in str(each.cmdline())]
    workers[0].kill()
    time.sleep(0.5)
    for _ in range(8):
        assert ask().json()["choices"][0]["message"]["content"] == "Ask Mirela Tamburi."
    metrics = httpx.get(f"{root}/metrics").text
    assert 'route="/v1/chat/completions",status="200"} 16.0' in metrics
