"""The page of a gateway: off unless asked for, with its ledger, and its upstream only if asked."""

from __future__ import annotations

import httpx
import pytest
from support import playground as small
from support.gateway import MODEL, AllLogs, running

import dp_middleware as dp
from dp_middleware.gateway.playground import mounting

CANARY = "Zephyrine"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounting, "default_choices", small.choices)
        with running(playground=True, mode="echo", ledger={"url": url, "budget": 20}) as opened:
            opened.ledger = dp.PrivacyLedger(url)
            yield opened
            opened.ledger.close()


def release(gateway, **changes):
    body = {"text": small.TEXT, "choice": "both", "epsilon": 3.0, "ask": False, **changes}
    origin = {"origin": gateway.root}
    return httpx.post(f"{gateway.root}/playground/release", json=body, headers=origin)


def test_it_is_off_unless_asked_for(shared):
    root = shared["sanitizer"].root
    assert httpx.get(f"{root}/").status_code == 404
    assert httpx.get(f"{root}/playground/form").status_code == 404
    assert httpx.post(f"{root}/playground/release", json={}).status_code == 404


def test_it_is_served_without_a_key_to_this_machine(gateway):
    answer = httpx.get(f"{gateway.root}/")
    assert answer.status_code == 200
    assert "Playground" in answer.text
    assert httpx.get(f"{gateway.root}/playground/form").json()["model"] == MODEL
    wrong = httpx.get(f"{gateway.root}/", headers={"host": "evil.test"})
    assert wrong.status_code == 403


def test_releases_are_charged_and_go_upstream_only_if_asked(gateway):
    before = gateway.ledger.spent("playground")
    with AllLogs() as logs:
        quiet = release(gateway).json()
        assert gateway.upstream.requests == []
        asked = release(gateway, ask=True).json()
    (seen,) = gateway.upstream.requests
    sent = "".join(text for text, _, _ in asked["released"])
    assert seen == {"model": MODEL, "messages": [{"role": "user", "content": sent}]}
    assert "answer" not in quiet
    assert asked["answer"] == sent  # an echo
    assert "Mirela Tamburi" in asked["restored"]
    assert gateway.ledger.spent("playground") == pytest.approx(before + 6)
    assert "playground" in asked["budget"]
    everything = repr(gateway.upstream.raw) + "\n".join(logs.lines)
    metrics = httpx.get(f"{gateway.root}/metrics").text
    for private in (CANARY, "Mirela", "Tamburi", "Berlin"):
        assert private not in everything + metrics


def test_an_upstream_that_fails_is_said_and_the_release_is_shown(gateway):
    gateway.upstream.mode = "error"
    try:
        answer = release(gateway, ask=True)
    finally:
        gateway.upstream.mode = "echo"
    assert answer.status_code == 200
    assert "withheld" in answer.json()["failed"]


def test_the_rest_of_the_gateway_asks_for_a_key(gateway):
    assert httpx.get(f"{gateway.root}/v1/models").status_code == 401
