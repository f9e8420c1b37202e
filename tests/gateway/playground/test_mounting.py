"""The page of a gateway: off unless asked for, with its ledger, and its upstream only if asked."""

import httpx
import pytest
from support import playground as small
from support.gateway import MODEL, AllLogs, running

import dp_middleware as dp
from dp_middleware.errors import CannotCalibrate
from dp_middleware.gateway.playground import Choice, Playground, pages
from dp_middleware.gateway.playground.choices import policy_choices

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


def test_the_policies_come_first_and_say_whose_they_are(gateway):
    choices = httpx.get(f"{gateway.root}/playground/form").json()["choices"]
    titles = [choice["title"] for choice in choices]
    assert titles[:4] == ["Policy default", "Policy all of it", "Policy names", "Pseudonyms"]
    assert "/v1/chat/completions" in choices[0]["about"]
    assert choices[1]["about"].endswith("used by /v1/responses.")
    assert choices[2]["about"].endswith("used by no whole route.")
    assert [choice["epsilon"] for choice in choices[:3]] == [None] * 3


@pytest.mark.parametrize(("number", "name"), [*enumerate(POLICIES)])
def test_a_policy_releases_with_what_its_routes_release_with(gateway, number, name):
    sessions = gateway.app._app.state.gateway.sessions
    route = sessions.sessions[name, gateway.app._app.state.gateway.settings.clients[0].id].sanitizer
    (own,) = [c for c in policy_choices(gateway.app._app.state.gateway) if c.title.endswith(name)]
    made = own.make(0.0)
    assert made.certificate == route.certificate
    for part in ("_detector", "_laws", "mechanism", "space", "on_empty"):
        assert getattr(made, part, None) is getattr(route, part, None)
    before = [gateway.ledger.spent(subject) for subject in ("playground", "ann", "gateway")]
    answer = release(gateway, choice=f"policy-{number}", epsilon=None).json()
    after = [gateway.ledger.spent(subject) for subject in ("playground", "ann", "gateway")]
    price = route.certificate.epsilon if name != "names" else 0.0
    assert after == pytest.approx([before[0] + price, *before[1:]])
    assert "".join(text for text, _, _ in answer["original"]) == small.TEXT
    sent = "".join(text for text, _, _ in answer["released"])
    assert ("Tamburi" in sent, CANARY in sent) == (False, name == "names")
    assert bool(answer["words"]) == (name != "names")


def test_an_epsilon_that_cannot_be_had_is_the_persons_error(monkeypatch):
    def make(_):
        raise CannotCalibrate("expected another epsilon")

    choice = Choice(name="words", title="", about="", epsilon=1.0, unit="token", make=make)
    body = {"text": "x", "choice": "words", "epsilon": 3.0, "ask": False}
    answer = small.client(Playground([choice])).post("/playground/release", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cannot_calibrate")


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
