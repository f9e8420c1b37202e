"""``dp-middleware serve``: keys, refusals, and a real gateway of two processes."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import psutil
import pytest
from support.commands import run
from support.contract import OpenAIServer
from support.postgres import new_database
from support.servers import free_port
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.gateway.service import Clients, hash_of, new_key
from dp_middleware.gateway.settings import Client

SECRET = secrets.token_hex(32)


def test_a_new_client(monkeypatch):
    run("serve", "--new-client", "ann", code=2)
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    result = run("serve", "--new-client", "ann", code=0)
    key = result.stderr.split()[-1]
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("key_hash")]
    client = Client.made(id="ann", subject="ann", key_hash=line.split('"')[1])
    assert Clients(SECRET, [client]).asking({"x-api-key": key}) == client
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
        process = subprocess.Popen(
            [*command, "--port", str(port), "--workers", "2"],
            env={**os.environ, "DP_GATEWAY_SECRET": SECRET, **variables},
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(process, f"http://127.0.0.1:{port}")
            yield process, f"http://127.0.0.1:{port}", tmp_path / "log"
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_workers(tmp_path):
    """One is killed; the other has its memo, and no log has text, whatever is asked for."""
    key = new_key()
    with OpenAIServer(mode="echo") as upstream:
        config = lines_of(tmp_path, upstream.url, key)
        with two_workers(tmp_path, config, DP_GATEWAY_UPSTREAM_KEY=CANARY) as (process, root, log):
            talk(process, root, key)
    text = log.read_text()
    assert CANARY not in text
    assert key not in text
    assert not upstream.saw("Mirela")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_workers_on_postgresql_share_a_budget_and_lose_no_charge(tmp_path):
    """Many callers at once, one worker killed among them, until nothing is left."""
    key, ledger = new_key(), new_database()
    headers = {"authorization": f"Bearer {key}"}
    price = dp.Pseudonyms(lambda _: [], kinds=["age"]).certificate.epsilon
    with OpenAIServer(mode="echo") as upstream:
        config = lines_of(tmp_path, upstream.url, key, ledger, 40.5 * price)
        with two_workers(tmp_path, config) as (process, root, _):

            def ask(number):
                text = f"She is {20 + number % 60} years old, says letter {number}."
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                try:
                    url = f"{root}/v1/chat/completions"
                    return httpx.post(url, json=body, headers=headers, timeout=60)
                except httpx.TransportError:
                    return None

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
    while True:
        try:
            if httpx.get(f"{root}/readyz", timeout=20).status_code == 200:
                break
        except httpx.TransportError:
            assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)


def talk(process, root, key):
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "m", "messages": [{"role": "user", "content": "Ask Mirela Tamburi."}]}

    def ask():
        return httpx.post(f"{root}/v1/chat/completions", json=body, headers=headers, timeout=60)

    for _ in range(8):
        answer = ask().json()["choices"][0]["message"]["content"]
        assert answer == "Ask Mirela Tamburi."
    httpx.get(f"{root}/{CANARY}?x={CANARY}")
    worker = workers_of(process)[0]
    worker.kill()
    psutil.wait_procs([worker], timeout=20)
    for _ in range(8):
        assert ask().json()["choices"][0]["message"]["content"] == "Ask Mirela Tamburi."
    metrics = httpx.get(f"{root}/metrics").text
    assert 'route="/v1/chat/completions",status="200"} 16.0' in metrics
