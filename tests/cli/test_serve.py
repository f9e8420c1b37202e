"""``dp-middleware serve``: keys, refusals, and a real gateway of two processes."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import httpx
import psutil
import pytest
from support.commands import refused, run
from support.contract import OpenAIServer
from support.postgres import new_database
from support.servers import free_port
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.gateway.service import client_of, hash_of, new_key
from dp_middleware.gateway.settings import Client

SECRET = secrets.token_hex(32)


def test_a_new_client(monkeypatch):
    run("serve", "--new-client", "ann", code=2)
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    result = run("serve", "--new-client", "ann", code=0)
    key = result.stderr.split()[-1]
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("key_hash")]
    client = Client(id="ann", subject="ann", key_hash=line.split('"')[1])
    assert client_of({"x-api-key": key}, SECRET, [client]) == client
    assert key not in result.stdout
    run("serve", "--new-client", f"{CANARY} {CANARY}", code=2)


def test_refusals(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    run("serve", code=2)
    run("serve", "--config", tmp_path / "none.toml", code=2)
    config = tmp_path / "gateway.toml"
    config.write_text('[upstream]\nurl = "http://127.0.0.1:1/v1"\nmodels = ["m"]\n')
    assert "memo" in run("serve", "--config", config, "--workers", 2, code=2).stderr


def lines_of(tmp_path, url, key, ledger=None, budget=1000):
    ledger = ledger or f"sqlite:///{tmp_path}/ledger.db"
    return f"""
memo = "{tmp_path}/memo.db"
[upstream]
url = "{url}"
models = ["m"]
[policies.default]
mode = "pseudonyms"
on_empty = "pass"
[ledger]
url = "{ledger}"
budget = {budget}
[[clients]]
id = "ann"
subject = "ann"
key_hash = "{hash_of(SECRET, key)}"
"""


@contextmanager
def two_workers(tmp_path, config, **variables):
    """A process that serves, its address and the file of its log; it ends as it is told."""
    port = free_port()
    (tmp_path / "gateway.toml").write_text(config)
    code = "from dp_middleware.cli import app; app()"
    command = [sys.executable, "-c", code, "serve", "--config", str(tmp_path / "gateway.toml")]
    with (tmp_path / "log").open("wb") as log:
        command += ["--port", str(port), "--workers", "2"]
        environment = {**os.environ, "DP_GATEWAY_SECRET": SECRET, **variables}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_for(process, f"http://127.0.0.1:{port}")
            yield process, f"http://127.0.0.1:{port}", tmp_path / "log"
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_workers(tmp_path):
    key = new_key()
    with OpenAIServer(mode="echo") as upstream:
        config = lines_of(tmp_path, upstream.url, key)
        with two_workers(tmp_path, config, DP_GATEWAY_UPSTREAM_KEY=CANARY) as (process, root, log):
            talk(process, root, key)
    text = log.read_text()
    assert not [secret for secret in (CANARY, key) if secret in text]
    assert not upstream.saw("Mirela")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_workers_on_postgresql_share_a_budget_and_lose_no_charge(tmp_path):
    key, ledger = new_key(), new_database()
    price = dp.Pseudonyms(lambda _: [], kinds=["age"]).certificate.epsilon
    with OpenAIServer(mode="echo") as upstream:
        config = lines_of(tmp_path, upstream.url, key, ledger, 40.5 * price)
        with two_workers(tmp_path, config) as (process, root, _):

            def ask(number):
                text = f"She is {20 + number % 60} years old, says letter {number}."
                with suppress(httpx.TransportError):
                    return chat(root, key, text)

            with ThreadPoolExecutor(8) as callers:
                before = [callers.submit(ask, number) for number in range(20)]
                before[3].result()
                workers_of(process)[0].kill()
                answers = [each.result() for each in before]
                answers += callers.map(ask, range(20, 100))
        sent = len(upstream.requests)
    statuses = Counter(each.status_code for each in answers if each is not None)
    assert {*statuses} == {200, 429}
    with closing(dp.PrivacyLedger(ledger)) as book:
        spent = book.spent("ann") / price
        book.verify()
    assert sent <= round(spent) == 40  # of a killed one a charge may have bought nothing
    assert statuses[200] <= sent


def workers_of(process):
    children = psutil.Process(process.pid).children()
    return [each for each in children if "spawn_main" in str(each.cmdline())]


def wait_for(process, root):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(f"{root}/readyz", timeout=20).status_code == 200:
                return
        assert process.poll() is None
        time.sleep(0.2)
    raise AssertionError("the gateway did not start")


def chat(root, key, text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{root}/v1/chat/completions", json=body, headers=headers, timeout=60)


def talk(process, root, key):
    def ask():
        for _ in range(8):
            answer = chat(root, key, "Ask Mirela Tamburi.").json()["choices"][0]["message"]
            assert answer["content"] == "Ask Mirela Tamburi."

    ask()
    httpx.get(f"{root}/{CANARY}?x={CANARY}")
    worker = workers_of(process)[0]
    worker.kill()
    psutil.wait_procs([worker], timeout=20)
    ask()
    metrics = httpx.get(f"{root}/metrics").text
    assert 'route="/v1/chat/completions",status="200"} 16.0' in metrics


def test_the_playground_is_a_page_with_plain_choices_first():
    command = [sys.executable, "-c", "from dp_middleware.cli import app; app()", "playground"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = map(re.compile(r"http://127\S+/").search, process.stderr)
            url = next(match[0] for match in said if match)
            with httpx.Client(trust_env=False, timeout=30) as client:
                assert "Playground" in client.get(url).text
                form = client.get(f"{url}playground/form").json()
        finally:
            process.send_signal(signal.SIGINT)
    titles = [choice["title"] for choice in form["choices"]]
    assert titles[:3] == ["Pseudonyms", "Whole text", "Every word"]


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert refused("playground", "--port", str(taken.getsockname()[1])).exit_code == 2
