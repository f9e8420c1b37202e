"""What an operator does to a gateway that runs: rules, other settings, numbers, limits."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import httpx
import pytest
from starlette.testclient import TestClient
from support.cases import over
from support.entities import CONTRACT, private
from support.gateway import KEYS, MODEL, SECRET, AllLogs, releases, running, settings
from support.servers import free_port
from support.texts import CANARY

from dp_middleware.gateway import Settings, create_app
from dp_middleware.gateway.app import reload
from dp_middleware.gateway.service import hash_of

NAMES = {"mode": "pseudonyms", "on_empty": "pass"}
FILE = f"""
[upstream]
url = "http://127.0.0.1:9/v1"
models = ["{MODEL}"]
seconds = 5.0

[policies.default]

[[clients]]
id = "ann"
subject = "ann"
key_hash = "{hash_of(SECRET, KEYS["ann"])}"
"""

BOB = f"""
[[clients]]
id = "bob"
subject = "bob"
key_hash = "{hash_of(SECRET, KEYS["bob"])}"
"""


def test_the_first_rule_that_fits_tells_the_policy():
    rules = [
        {"client": "ann", "model": "big", "policy": "one"},
        {"path": "/v1/messages", "policy": "two"},
        {"client": "ann", "policy": "three"},
    ]
    ruled = settings(
        "http://127.0.0.1:9/v1",
        policies={"default": {}, "one": {}, "two": {}, "three": {}},
        upstream={"models": [MODEL, "big"]},
        rules=rules,
    )
    told = ruled.policy_of
    chat, messages = "/v1/chat/completions", "/v1/messages"
    assert told(chat, "big", "ann") == told(messages, "big", "ann") == "one"
    assert told(messages, MODEL, "ann") == told(f"{messages}/count_tokens", "big", "bob") == "two"
    assert {told(chat, model, "ann") for model in (MODEL, "none", None)} == {"three"}
    assert told(chat, ["big"], "ann") == told(chat, {}, "ann") == "three"
    assert told(chat, "big", "bob") == told(chat) == "default"


def test_each_client_is_released_by_its_own_policy():
    rules = [{"client": "bob", "policy": "names"}]
    with running("fine", policies={"default": {}, "names": NAMES}, rules=rules) as gateway:
        units = [gateway.chat(CONTRACT, client=c).headers["x-dp-unit"] for c in ("ann", "bob")]
        assert units == ["occurrence", "value"]
        assert private(gateway.upstream) == []


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)


def opened(file, releases=releases):
    file.write_text(FILE)
    app = create_app(Settings.read(file), releases=releases)
    return TestClient(app), app._app.state.gateway


def test_other_settings_hold_from_the_next_request_on_and_what_is_the_same_stays(secret, tmp_path):
    """A release that a client had is in the memo still: it costs nothing again."""
    file, made = tmp_path / "gateway.toml", []

    def counted(policy, *terms):
        made.append(policy.mode)
        return releases(policy, *terms)

    client, gateway = opened(file, counted)
    with client:
        before = gateway.sessions.sessions["default", "ann"]
        limits = "[limits]\nbody_bytes = 77\n[[rules]]\nclient = 'bob'\npolicy = 'names'\n"
        policy = "[policies.names]\nmode = 'pseudonyms'\n"
        file.write_text(FILE + BOB + policy + limits)
        client.portal.call(reload, gateway, str(file))
        assert gateway.sessions.sessions["default", "ann"] is before
        assert gateway.settings.policy_of("/v1/messages", None, "bob") == "names"
        assert len(gateway.sessions.sessions) == 4
        assert gateway.gate.limits.body_bytes == 77
        assert made == ["sanitizer", "pseudonyms"]
        file.write_text(FILE.replace("[policies.default]", "[policies.default]\nepsilon = 3"))
        client.portal.call(reload, gateway, str(file))
        assert gateway.sessions.sessions["default", "ann"] is not before
        assert client.get("/readyz").status_code == 200


@over(
    "broken",
    [
        FILE.replace("seconds = 5.0", f'seconds = "{CANARY}"'),
        FILE.replace("127.0.0.1:9", f"{CANARY}:9"),
        f"{FILE}[policies.other]\nmode = 'pseudonyms'\nkinds = ['{CANARY}']",
        f"{FILE}[{CANARY}",
        None,
    ],
)
def test_a_broken_file_changes_nothing_and_is_logged_without_values(secret, tmp_path, broken):
    file = tmp_path / "gateway.toml"

    def refusing(policy, *terms):
        if policy.kinds:
            raise ValueError(str(policy.kinds))
        return releases(policy, *terms)

    client, gateway = opened(file, refusing)
    with client, AllLogs() as logs:
        was = gateway.settings, gateway.sessions
        file.unlink() if broken is None else file.write_text(broken)
        client.portal.call(reload, gateway, str(file))
        assert (gateway.settings, gateway.sessions) == was
    said = "\n".join(logs.lines)
    assert "the settings stay as they were" in said
    assert CANARY not in said


SERVER = """
import sys
from dp_middleware.gateway import Settings, create_app
from dp_middleware.gateway.app import server_options
from support.gateway import releases
import uvicorn
app = create_app(Settings.read(sys.argv[1]), releases=releases, config=sys.argv[1])
uvicorn.run(app, port=int(sys.argv[2]), log_config=None, **server_options())
"""


def test_a_signal_has_the_file_read_again_while_requests_run(secret, tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text(FILE)
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen([sys.executable, "-c", SERVER, file, str(port)], env=environment)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:

        def status(client):
            headers = {"authorization": f"Bearer {KEYS[client]}"}
            return http.get("/v1/models", headers=headers).status_code

        try:
            deadline, seen = time.monotonic() + 60, []
            while not seen and time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    seen.append(status("bob"))
                time.sleep(0.1)
            assert seen == [401]
            file.write_text(FILE + BOB)
            server.send_signal(signal.SIGHUP)
            while seen[-1:] != [200] and time.monotonic() < deadline:
                seen.append(status("bob"))
                assert status("ann") == 200
            assert seen[-1] == 200
        finally:
            server.terminate()
            server.wait(20)


def test_metrics_tell_what_was_found_and_refused_in_words_of_ours():
    found = re.compile(r'^dp_gateway_entities_total\{kind="(\w+)"\} (\S+)$', re.MULTILINE)
    with running(policies={"default": NAMES}) as gateway:
        gateway.chat(CONTRACT)
        gateway.chat(CANARY, user=CANARY)
        text = httpx.get(f"{gateway.root}/metrics").text
    counts = dict(found.findall(text))
    assert counts["date"] == "2.0"
    assert counts["email"] == counts["amount"] == "1.0"
    assert "dp_gateway_detection_seconds_count 1.0" in text
    assert "dp_gateway_charged_nats_total" in text
    assert 'dp_gateway_requests_total{route="/v1/chat/completions",status="200"} 1.0' in text
    assert re.search(r'dp_gateway_refusals_total\{code="\w+"\} 1\.0', text)
    private = (CANARY, "Mirela", "Berlin", *KEYS.values(), "ann", "bob")
    assert not [value for value in private if value in text]


def test_spans_tell_kinds_and_statuses_and_no_text(monkeypatch):
    spans = []

    class Span(list):
        set_attributes = list.append

        def start_span(self, name):
            return Span([name])

        def end(self):
            spans.append(self)

    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda _: Span())
    with running(policies={"default": NAMES}) as gateway:
        gateway.chat(CONTRACT)
        gateway.chat(CANARY, user=CANARY)
    (name, told), (_, refused) = spans
    assert name == "dp.gateway.request"
    assert {told.pop("http.route"), refused.pop("http.route")} == {"/v1/chat/completions"}
    assert (told["dp.found.date"], told["dp.found.email"], told["dp.draws"]) == (2, 1, 1)
    assert 0 < told["dp.detection_seconds"] < told["dp.release_seconds"]
    assert refused == {"http.response.status_code": 400}
    assert {type(value) for value in told.values()} <= {int, float}
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with running() as without:
        assert without.chat("w1").status_code == 200


def test_what_is_not_ready_is_named(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    options = settings("http://127.0.0.1:9/v1", ledger={"url": url, "budget": 5})
    app = create_app(options, releases=releases)
    unopened = TestClient(app).get("/readyz")
    assert (unopened.status_code, unopened.json()["waits_for"]) == (503, ["policies"])
    with TestClient(app) as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        app._app.state.gateway.ledger.close()
        (tmp_path / "ledger.db").unlink()
        (tmp_path / "ledger.db").mkdir()
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["waits_for"]) == (503, ["ledger"])


CHUNKED = "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


@over(
    "head, piece, status",
    [
        ("", f"x-more: {CANARY * 100}\r\n", b"400"),
        (CHUNKED, f"{1000 * len(CANARY):x}\r\n{CANARY * 1000}\r\n", b"413"),
    ],
)
def test_what_does_not_end_is_cut_off(gateway, head, piece, status):
    begun = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEYS['ann']}\r\n"
    answer, is_cut = b"", False
    with AllLogs() as logs, gateway.connected(begun + head) as connection:
        for _ in range(10_000):
            try:
                connection.sendall(piece.encode())
            except OSError:
                is_cut = True
                break
        with suppress(ConnectionError):
            answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 " + status) or (is_cut and not answer)
    assert CANARY not in answer.decode() + "".join(logs.lines)
    assert gateway.chat("w1").status_code == 200
