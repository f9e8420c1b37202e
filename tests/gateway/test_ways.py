"""The way of one request through the library: how many files it crosses, and how often."""

from starlette.testclient import TestClient
from support.contract import OpenAIServer
from support.gateway import KEYS, MODEL, releases, settings
from support.ways import Way

from dp_middleware.gateway import create_app


def test_a_streamed_chat_with_pseudonyms_takes_a_short_way(tmp_path):
    policies = {"default": {"mode": "pseudonyms", "on_empty": "pass"}}
    ledger = {"url": f"sqlite:///{tmp_path}/ledger.db", "budget": 100}
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    with Way() as way, OpenAIServer(mode="echo") as upstream:
        options = settings(upstream.url, policies=policies, ledger=ledger)
        with TestClient(create_app(options, releases=releases)) as client:
            for text in ("Ask Mirela Tamburi.", "Call Mirela Tamburi."):
                way.forget()
                body = {"model": MODEL, "stream": True}
                body["messages"] = [{"role": "user", "content": text}]
                answer = client.post("/v1/chat/completions", json=body, headers=headers)
                assert answer.status_code == 200
                assert "Mirela" in answer.text
    assert not upstream.saw("Mirela")
    assert len(way.files) <= 20
    assert way.changes <= 118
    own = ("middleware/gateway/", "middleware/conversation/")
    assert sum(any(part in file for part in own) for file in way.files) <= 10
