"""Settings: what a file may say, secrets that it may not, and errors that quote no value."""

import re
from functools import partial

import pytest
from support.cases import over
from support.gateway import MODEL, SECRET, settings
from support.texts import CANARY

from dp_middleware.errors import ParameterError
from dp_middleware.gateway import Settings
from dp_middleware.gateway.releasing import releases_of
from dp_middleware.gateway.service import client_of, hash_of, new_key
from dp_middleware.gateway.settings import Client, Policy

FILE = f"""
memo = "memo.db"

[upstream]
url = "https://api.example.com/v1"
models = ["{MODEL}"]

[policies.default]
epsilon = 5
tools = "public"

[policies.names]
mode = "pseudonyms"

[[rules]]
path = "/v1/responses"
policy = "names"

[[clients]]
id = "ann"
subject = "ann"
key_hash = "{"0" * 64}"
"""


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("DP_GATEWAY_SECRET", SECRET)
    monkeypatch.setenv("DP_GATEWAY_UPSTREAM_KEY", "sk-secret")


def read(tmp_path, text):
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    return Settings.read(path)


def test_a_file_and_the_environment(tmp_path, environment):
    settings = read(tmp_path, FILE)
    assert settings.policies["default"].epsilon == 5.0
    assert settings.policy_of("/v1/responses") == "names"
    assert settings.policy_of("/v1/chat/completions") == "default"
    assert settings.upstream_key.get_secret_value() == "sk-secret"
    assert not [secret for secret in (SECRET, "sk-secret") if secret in repr(settings)]


@over("name", ["secret", "upstream_key"])
def test_a_secret_in_the_file_is_refused(tmp_path, environment, name):
    with pytest.raises(ParameterError, match=f"DP_GATEWAY_{name.upper()}") as caught:
        read(tmp_path, f'{name} = "{CANARY}"\n{FILE}')
    assert CANARY not in str(caught.value)


@over(
    "old, new, where",
    [
        ("epsilon = 5", "epsilon = -1", "policies.default.epsilon"),
        ('tools = "public"', f'tools = "{CANARY}"', "policies.default.tools"),
        ('tools = "public"', 'colour = "red"', "policies.default.colour"),
        ('policy = "names"', f'policy = "{CANARY}"', "each policy"),
        ("/v1/responses", f"/v1/{CANARY}", "each path"),
        ('policy = "names"', f'policy = "names"\nmodel = "{CANARY}"', "each model"),
        ('policy = "names"', f'policy = "names"\nclient = "{CANARY}"', "each client"),
        ('url = "https', f'url = "{CANARY}', "upstream.url"),
        ("[upstream]", f"{CANARY} = 3\n[upstream]", "forbidden|not permitted"),
        ("[upstream]", f"[{CANARY}", "TOML"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(tmp_path, environment, old, new, where):
    with pytest.raises(ParameterError, match=where) as caught:
        read(tmp_path, FILE.replace(old, new))
    assert CANARY not in str(caught.value) or new.startswith(CANARY)  # a key is a name
    assert caught.value.__cause__ is None


def test_no_file_and_no_secret(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="TOML"):
        Settings.read(tmp_path / "none.toml")
    monkeypatch.delenv("DP_GATEWAY_SECRET", raising=False)
    with pytest.raises(ParameterError, match="secret"):
        read(tmp_path, FILE)


def test_two_clients_of_one_id_are_refused():
    client = {"id": "a", "subject": "a", "key_hash": "0" * 64}
    upstream = {"url": "http://x/v1", "models": ["m"]}
    with pytest.raises(ParameterError, match="distinct"):
        Settings.of(secret=SECRET, upstream=upstream, clients=[client] * 2)


def test_keys_are_known_by_their_hashes_alone():
    key, other = new_key(), new_key()
    client = Client(id="a", subject="s", key_hash=hash_of(SECRET, key))
    asking = partial(client_of, secret=SECRET, clients=[client])
    for header, given in (
        ("authorization", f"Bearer {key}"),
        ("authorization", f"bearer {key}"),
        ("x-api-key", key),
    ):
        assert asking({header: given}) == client
        assert asking({header: given}, secret="x" * 32) is None
    assert asking({}) is None
    for wrong in ("", key, "Bearer ", f"Basic {key}", f"Bearer {other}", f"Bearer {key}x"):
        assert asking({"authorization": wrong}) is None
    assert key not in repr(client)
    assert key not in repr(settings("http://x/v1"))
    assert len({new_key() for _ in range(100)}) == 100


def test_a_policy_may_let_only_public_words_out():
    policy = Policy(mode="pseudonyms", kinds=("email",), rest="common")
    release = releases_of(policy, None, "ann").session().release("1", "user", "Is Xaver in?")
    assert re.fullmatch(r"Is WORD_\d+ in\?", release.text)
    with pytest.raises(ValueError, match="rest"):
        Policy(mode="both", rest="common")


def test_a_policy_for_sentences_says_so_and_pays_for_one():
    policy = Policy(mechanism="weighted-response", epsilon=50.0, unit="sentence")
    release = releases_of(policy, None, "ann").release("The liver is inflamed. It hurts.")
    assert (release.certificate.unit, release.charged, release.spent) == ("sentence", 50.0, 100.0)
    with pytest.raises(ParameterError, match="whole texts"):
        releases_of(Policy(unit="sentence"), None, "ann")


def test_two_gateways_with_one_key_of_the_environment_agree(monkeypatch):
    policy = Policy(mode="pseudonyms", law="keyed", kinds=("id",), on_empty="pass")
    monkeypatch.delenv("DP_GATEWAY_PSEUDONYM_KEY", raising=False)
    with pytest.raises(ParameterError, match="16 secret bytes"):
        releases_of(policy, None, "ann")
    monkeypatch.setenv("DP_GATEWAY_PSEUDONYM_KEY", SECRET)
    one, two = (releases_of(policy, None, name) for name in ("ann", "bob"))
    released = one.session().release("1", "user", "Order number: ORD-20240099").text.split()[-1]
    assert released != "ORD-20240099" == two.original("id", released)
