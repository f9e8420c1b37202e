"""The page of a gateway: off unless asked for, with its ledger, and its upstream only if asked."""

import httpx
import pytest
from support import playground as small
from support.cases import over
from support.gateway import MODEL, AllLogs, running

import dp_middleware as dp
from dp_middleware.gateway import playground as pages
from dp_middleware.gateway.playground.releasing import policy_choices

CANARY = "Zephyrine"
POLICIES = {
    "default": {},
    "all of it": {"mode": "both"},
    "names": {"mode": "pseudonyms", "on_empty": "pass"},
}
RULES = [{"path": "/v1/responses", "policy": "all of it"}]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "default_choices", small.choices)
        terms = {"ledger": {"url": url, "budget": 60}, "policies": POLICIES, "rules": RULES}
        with running(playground=True, mode="echo", **terms) as opened:
            opened.ledger = dp.PrivacyLedger(url)
            yield opened
            opened.ledger.close()


def release(gateway, **changes):
    body = {"text": small.TEXT, "choice": "both", "epsilon": 3.0, "ask": False, **changes}
    origin = {"origin": gateway.root}
    return httpx.post(f"{gateway.root}/playground/release", json=body, headers=origin, timeout=60)


def test_it_is_off_unless_asked_for(shared):
    root = shared["sanitizer"].root
    assert {httpx.get(root + path).status_code for path in ("/", "/playground/form")} == {404}
    assert httpx.post(f"{root}/playground/release", json={}).status_code == 404


def test_it_is_served_without_a_key_to_this_machine_and_no_more_is(gateway):
    answer = httpx.get(f"{gateway.root}/")
    assert (answer.status_code, "Playground" in answer.text) == (200, True)
    assert httpx.get(f"{gateway.root}/playground/form").json()["model"] == MODEL
    assert httpx.get(f"{gateway.root}/", headers={"host": "evil.test"}).status_code == 403
    assert httpx.get(f"{gateway.root}/v1/models").status_code == 401


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


def test_the_policies_come_first_and_say_whose_they_are(gateway):
    choices = httpx.get(f"{gateway.root}/playground/form").json()["choices"][:3]
    assert [choice["title"] for choice in choices] == [f"Policy {name}" for name in POLICIES]
    assert "/v1/chat/completions" in choices[0]["about"]
    assert choices[1]["about"].endswith("used by /v1/responses.")
    assert choices[2]["about"].endswith("used by no whole route.")
    assert [choice["epsilon"] for choice in choices] == [None] * 3


@over("number, name", [*enumerate(POLICIES)])
def test_a_policy_releases_with_what_its_routes_release_with(gateway, number, name):
    state = gateway.app._app.state.gateway
    route = state.sessions.sessions[name, state.settings.clients[0].id].sanitizer
    (own,) = [choice for choice in policy_choices(state) if choice.title.endswith(name)]
    made = own.make(0.0)
    assert made.certificate == route.certificate
    for part in ("_detector", "_laws", "mechanism", "space", "on_empty"):
        assert getattr(made, part, None) is getattr(route, part, None)

    def spent():
        return [gateway.ledger.spent(subject) for subject in ("playground", "ann", "gateway")]

    before = spent()
    answer = release(gateway, choice=f"policy-{number}", epsilon=None).json()
    price = route.certificate.epsilon if name != "names" else 0.0
    assert spent() == pytest.approx([before[0] + price, *before[1:]])
    assert "".join(text for text, _, _ in answer["original"]) == small.TEXT
    sent = "".join(text for text, _, _ in answer["released"])
    assert ("Tamburi" in sent, CANARY in sent) == (False, name == "names")
    assert bool(answer["words"]) == (name != "names")
