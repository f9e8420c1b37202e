"""``/v1/completions`` and ``/v1/embeddings``."""

import sqlite3
from contextlib import closing

from starlette.testclient import TestClient
from support.cases import over
from support.contract import OpenAIServer
from support.gateway import KEYS, MODEL, WORDS, running, settings
from support.texts import CANARY

from dp_middleware.gateway import create_app


def ask(gateway, path, **more):
    headers = more.pop("headers", {})
    return gateway.post(path, {"model": MODEL, **more}, **headers)


def test_completions(names):
    answer = ask(names, "/completions", prompt="Mirela Tamburi", max_tokens=5)
    assert answer.json()["choices"][0]["text"] == "Mirela Tamburi"
    assert ask(names, "/completions", prompt="x", stream=True).status_code == 400
    assert not names.upstream.saw("Mirela")


def test_embeddings_are_of_released_text(gateway):
    texts = [f"{CANARY} one", f"{CANARY} two"]
    answer = ask(gateway, "/embeddings", input=texts, encoding_format="float")
    assert [each["index"] for each in answer.json()["data"]] == [0, 1]
    sent = gateway.upstream.requests[-1]["input"]
    assert all(word in WORDS for text in sent for word in text.split())
    assert answer.headers["x-dp-draws"] == "2"


@over("path, field", [("/completions", "prompt"), ("/embeddings", "input")])
def test_every_request_is_a_new_one_unless_it_is_named(gateway, path, field):
    named = {"x_dp_conversation": f"batch{path}"}
    answers = [ask(gateway, path, **{field: "x y"}, headers=h) for h in ({}, {}, named, named)]
    assert [answer.headers["x-dp-draws"] for answer in answers] == ["1", "1", "1", "0"]


def test_what_belongs_to_no_conversation_is_kept_nowhere(tmp_path):
    """Each has pseudonyms of its own, as long as its request; a named one keeps them."""
    policies = {"default": {"mode": "pseudonyms", "on_empty": "pass"}}
    with running(mode="echo", memo=str(tmp_path / "memo.db"), policies=policies) as hiding:
        sent = set()
        for path, field in (("/completions", "prompt"), ("/embeddings", "input")):
            for _ in range(10):
                assert ask(hiding, path, **{field: "Mirela Tamburi"}).status_code == 200
                sent.add(hiding.upstream.requests[-1][field])
        assert len(sent) > 10
        with closing(sqlite3.connect(tmp_path / "memo-ann.db")) as memo:
            count = "SELECT count(*) FROM sealed"
            assert memo.execute(count).fetchone() == (0,)
            named = {"x_dp_conversation": "letters"}
            ask(hiding, "/completions", prompt="Mirela Tamburi", headers=named)
            assert memo.execute(count).fetchone() == (1,)
        sessions = hiding.app._app.state.gateway.sessions.sessions.values()
        assert sum(len(session._mappings) for session in sessions) == 1


def test_a_language_that_is_not_known_is_refused_with_the_remedy(caplog):
    text = "Меня зовут Иван Петров, я живу в Москве."
    user = {"role": "user", "content": "Hi"}
    bodies = {
        "/completions": {"prompt": text},
        "/embeddings": {"input": text},
        "/responses": {"input": text, "stream": True},
        "/chat/completions": {"messages": [{"role": "system", "content": text}, user]},
    }
    lax = {"mode": "pseudonyms", "on_empty": "pass"}
    policies = {"default": lax, "warn": {**lax, "on_language": "warn"}}
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    rules = [{"path": "/v1/embeddings", "policy": "warn"}]
    with OpenAIServer(mode="echo") as upstream:
        options = settings(upstream.url, policies=policies, rules=rules)
        with TestClient(create_app(options)) as client:
            answers = {
                path: client.post(f"/v1{path}", json={"model": MODEL, **body}, headers=headers)
                for path, body in bodies.items()
            }
    assert answers.pop("/embeddings").status_code == 200
    assert len(upstream.requests) == 1
    assert "this text is in Cyrillic letters" in caplog.text
    for answer in answers.values():
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "not_released")
        assert "one in Cyrillic letters" in error["message"]
        assert 'on_language="pass"' in error["message"]
        assert "Иван" not in answer.text
