"""The door: keys before bodies, limits, paths that are not repeated, metrics, logs, budgets."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from starlette.datastructures import URL
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient
from support.cases import over
from support.gateway import KEYS, MODEL, AllLogs, running, settings
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import CannotCalibrate, InfiniteEpsilon, MissingExtra
from dp_middleware.gateway import create_app
from dp_middleware.gateway.failures import NO_RETRY, failure_of


def test_health(gateway):
    for path in ("/healthz", "/readyz"):
        assert httpx.get(gateway.root + path).status_code == 200
    models = gateway.get("/models").json()
    assert [model["id"] for model in models["data"]] == [MODEL]
    assert gateway.get(f"/models/{MODEL}").json()["id"] == MODEL
    assert gateway.get(f"/models/{CANARY}").status_code == 404


@over("path", [f"/{CANARY}", f"/v1/{CANARY}", f"/v1/chat/completions/?q={CANARY}"])
def test_unknown_paths_are_not_repeated(gateway, path):
    answer = httpx.post(gateway.root + path)
    assert answer.status_code in (404, 405)
    assert CANARY not in answer.text + str(answer.headers)
    assert answer.json()["error"]["code"] == "not_found"


def test_the_header_host_decides_nothing(monkeypatch):
    """Starlette makes a URL of it: neither the policy nor the query may be read from there."""
    made_up = URL("http://x/v1/embeddings#")
    monkeypatch.setattr(HTTPConnection, "url", property(lambda _: made_up))
    policies = {"default": {}, "lax": {"mode": "pseudonyms", "on_empty": "pass"}}
    with running(policies=policies, rules=[{"path": "/v1/embeddings", "policy": "lax"}]) as routed:
        assert routed.chat(CANARY).status_code == 200
        for host in ("x/v1/embeddings#", "[", "x#"):
            answer = routed.post(f"/chat/completions?{CANARY}", {}, host=host)
            assert (answer.status_code, CANARY in answer.text) == (400, False)
        assert not routed.upstream.saw(CANARY)


def head_of(key, length=99):
    """Of a request whose body never comes."""
    named = "" if key is None else f"authorization: {key}\r\n"
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{named}"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )


@over("key", [None, "", "Bearer", f"Bearer {CANARY}", KEYS["ann"]])
def test_a_wrong_key_is_refused_before_the_body(gateway, key):
    with gateway.connected(head_of(key)) as connection:
        answer = connection.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 401")
    assert CANARY not in answer


def test_limits():
    limits = {"body_bytes": 200, "body_seconds": 1.0, "requests_per_minute": 3}
    with running(limits=limits) as small:
        assert small.chat("x" * 300).status_code == 413
        with small.connected(head_of(f"Bearer {KEYS['ann']}") + "{") as connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 408")
        assert small.chat("x").status_code == 200
        slowed = small.chat("x")
        assert slowed.status_code == 429
        assert slowed.json()["error"]["code"] == "rate_limit_exceeded"
        assert int(slowed.headers["retry-after"]) > 0
        assert small.chat("x", client="bob").status_code == 200


def test_logs_have_no_text(gateway):
    with AllLogs() as logs:
        gateway.chat(CANARY)
        gateway.chat(CANARY, user=CANARY)
        gateway.chat(CANARY, stream=True)
        gateway.upstream.mode = "error"
        gateway.chat(CANARY)
        httpx.post(f"{gateway.root}/{CANARY}", json={CANARY: CANARY})
    ours = [line for line in logs.lines if "POST /v1/chat/completions 200" in line]
    assert ours
    own = f"HTTP Request: POST {gateway.root}"  # of this test's client
    text = "\n".join(line for line in logs.lines if own not in line)
    assert not any(secret in text for secret in (CANARY, KEYS["ann"], "sk-upstream"))


def test_no_websocket_and_no_query_in_a_log(gateway):
    """Uvicorn would log the path of a handshake as it came."""
    head = (
        f"GET /v1/realtime?text={CANARY} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with AllLogs() as logs, gateway.connected(head) as connection:
        answer = connection.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 404")
    assert CANARY not in answer + "".join(logs.lines)


@over("error", [CannotCalibrate("no"), InfiniteEpsilon("no"), MissingExtra("x", "detect")])
def test_what_an_operator_did_wrong_is_said_at_the_start(error):
    def fail(*_):
        raise error

    app = create_app(settings("http://127.0.0.1:1/v1"), releases=fail)
    with pytest.raises(type(error)), TestClient(app):
        raise AssertionError
    failure = failure_of(error)
    assert (failure.status, failure.code, failure.headers) == (500, "misconfigured", NO_RETRY)


def test_budgets(tmp_path):
    ledger = {"url": f"sqlite:///{tmp_path}/ledger.db", "budget": 2.5}
    with running(ledger=ledger, memo=str(tmp_path / "memo.db")) as paid:
        first = paid.chat(f"{CANARY} one")
        nats = float(first.headers["x-dp-charged-nats"])
        assert float(first.headers["x-dp-budget-remaining"]) == pytest.approx(2.5 - nats, rel=1e-4)
        assert paid.get("/dp/budget").json()["charged"] == pytest.approx(nats, rel=1e-4)
        assert paid.get("/dp/budget", "ann2").json() == paid.get("/dp/budget").json()
        assert paid.get("/dp/budget", "bob").json()["charged"] == 0
        assert paid.chat(f"{CANARY} one").headers["x-dp-draws"] == "0"
        assert paid.chat("two", client="ann2").status_code == 200
        count = len(paid.upstream.requests)
        broke = paid.chat(f"{CANARY} three")
        assert broke.status_code == 429
        error = broke.json()["error"]
        assert error["code"] == error["type"] == "insufficient_quota"
        assert broke.headers["x-should-retry"] == "false"
        assert len(paid.upstream.requests) == count
        assert paid.chat("four", client="bob").status_code == 200
        release = paid.get(f"/dp/releases/{first.headers['x-dp-release-id']}").json()
        assert release["charged"] == pytest.approx(nats, rel=1e-4)
        assert release["spent"] == pytest.approx(2 * nats, rel=1e-4)
        assert float(first.headers["x-dp-spent-nats"]) == pytest.approx(2 * nats, rel=1e-4)
        assert release["certificate"]["method"] == "exact"
        assert (release["messages"], release["draws"], release["tokens"]) == (1, 1, 2)
        for client, name in (("bob", first.headers["x-dp-release-id"]), ("ann", "rel-" + "A" * 90)):
            assert paid.get(f"/dp/releases/{name}", client).status_code == 404
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert CANARY.encode() not in data
        assert not any(key.encode() in data for key in KEYS.values())


@pytest.mark.parametrize("kept", [False, True])
def test_no_client_fills_the_memo_of_another(tmp_path, kept):
    memo = {"memo": str(tmp_path / "memo.db")} if kept else {}
    with running(memo_entries=20, **memo) as small:
        assert small.chat("w1 w2", client="bob").headers["x-dp-draws"] == "1"
        blanks = [{"type": "text", "text": " " * k} for k in range(30)]
        assert small.chat({"role": "user", "content": blanks}).status_code == 200
        assert small.chat("w1 w2", client="bob").headers["x-dp-draws"] == "0"


def test_a_restart_forgets_nothing(tmp_path):
    kept = {
        "ledger": {"url": f"sqlite:///{tmp_path}/ledger.db", "budget": 100},
        "memo": str(tmp_path / "memo.db"),
        "policies": {"default": {"mode": "pseudonyms", "on_empty": "pass"}},
    }
    text = "Mirela Tamburi lives in Berlin"
    with running(mode="echo", **kept) as before:
        message = before.chat(text).json()["choices"][0]["message"]
        sent = before.upstream.requests[-1]["messages"]
        response = before.post("/responses", {"model": MODEL, "input": text}).json()
    with running(mode="echo", **kept) as after:
        answer = after.chat(text, message, "Tell Mirela Tamburi")
        assert answer.status_code == 200
        assert after.upstream.requests[-1]["messages"][:1] == sent
        body = {"model": MODEL, "input": "Berlin?", "previous_response_id": response["id"]}
        assert after.post("/responses", body).status_code == 200
        assert not any(after.upstream.saw(word) for word in ("Mirela", "Berlin"))


def test_a_gateway_that_fails_says_the_type_only(gateway, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError(CANARY)

    monkeypatch.setattr("dp_middleware.gateway.chat.plan_of", fail)
    monkeypatch.setattr("dp_middleware.gateway.app.budget_of", fail)
    for ask, status, said in (
        (lambda: gateway.chat("x"), 503, "/chat/completions failed: not_released"),
        (lambda: gateway.get("/dp/budget"), 500, "/dp/budget failed: internal (RuntimeError)"),
    ):
        with AllLogs() as logs:
            answer = ask()
        assert answer.status_code == status
        assert any(said in line for line in logs.lines)
        assert CANARY not in answer.text + "".join(logs.lines)


def test_the_event_loop_never_waits_for_the_ledger(tmp_path, monkeypatch):
    answers = Event()
    account = dp.PrivacyLedger.account

    def slow(ledger, subject):
        answers.wait(60)
        return account(ledger, subject)

    monkeypatch.setattr(dp.PrivacyLedger, "account", slow)
    terms = {"url": f"sqlite:///{tmp_path / 'ledger.db'}", "budget": 100.0}
    with running(ledger=terms) as charging, ThreadPoolExecutor(1) as client:
        try:
            asked = client.submit(charging.get, "/dp/budget")
            assert httpx.get(f"{charging.root}/readyz", timeout=20).status_code == 503
            assert httpx.get(f"{charging.root}/healthz", timeout=20).status_code == 200
            assert not asked.done()
        finally:
            answers.set()
        assert asked.result().json()["charged"] == 0.0
        assert httpx.get(f"{charging.root}/readyz", timeout=20).status_code == 200
