"""Chat models from one-line specifications."""

import sys

import openai
import pytest
from support.cases import over

import dp_middleware as dp
from dp_middleware.frameworks import open_model
from dp_middleware.models.trust import require_trusted

QUESTION = [{"role": "user", "content": "w1 w2 w3"}]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def close(monkeypatch):
    """Closes the clients that specifications open: a command ends, a test goes on."""
    opened, start = [], openai.OpenAI.__init__

    def remember(self, **settings):
        start(self, **settings)
        opened.append(self)

    monkeypatch.setattr(openai.OpenAI, "__init__", remember)
    yield
    for client in opened:
        client.close()


@over("private", [True, False])
def test_openai_with_a_url(private, remote):
    remote.requests.clear()
    remote.raw.clear()
    model = open_model(f"openai:my-model@{remote.url}", private=private)
    assert model(QUESTION) == "remote text"
    assert "".join(model.stream(QUESTION)) == "remote text"
    assert [each["model"] for each in remote.requests] == ["my-model"] * 2
    assert remote.saw("Authorization: Bearer none")
    require_trusted(model)


def test_openai_from_the_environment(remote, monkeypatch):
    with pytest.raises(dp.ParameterError, match="OPENAI_API_KEY"):
        open_model("openai:gpt", private=False)
    monkeypatch.setenv("OPENAI_API_KEY", "my-key")
    assert str(open_model("openai:gpt", private=False).location) == "api.openai.com"
    monkeypatch.setenv("OPENAI_BASE_URL", remote.url)
    assert open_model("openai:gpt", private=False)(QUESTION) == "remote text"
    assert remote.saw("Authorization: Bearer my-key")


def test_a_private_client_uses_no_environment_proxy(remote, local, monkeypatch):
    proxy = remote  # answers as the model would
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
    spec = f"openai:gpt@{local.url}"
    assert open_model(spec, private=False)(QUESTION) == "remote text"
    assert open_model(spec, private=True)(QUESTION) == "extracted answer"
    assert len(proxy.requests) == len(local.requests) == 1
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.corp:3128")
    require_trusted(open_model(spec, private=True))
    with pytest.raises(dp.UntrustedHost, match=r"proxy\.corp"):
        require_trusted(open_model(spec, private=False))


@over(
    "host, url",
    [
        (None, "http://localhost:11434/v1/"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/v1/"),
        ("0.0.0.0", "http://localhost:11434/v1/"),
        ("[::]:8080", "http://localhost:8080/v1/"),
        ("[::1]", "http://[::1]:11434/v1/"),
        ("models.example.com", "http://models.example.com:11434/v1/"),
        ("http://models.example.com", "http://models.example.com/v1/"),
        ("https://models.example.com/ollama/", "https://models.example.com/ollama/v1/"),
    ],
)
def test_where_ollama_is(host, url, monkeypatch):
    assert base_url(dp.ollama("llama3.2", host)) == url
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)
    opened = open_model("ollama:llama3.2:1b", private=False)
    assert base_url(opened) == url
    assert base_url(dp.ollama("llama3.2", "other:1")) == "http://other:1/v1/"
    if "models" in url:
        with pytest.raises(dp.UntrustedHost, match=r"models\.example\.com"):
            require_trusted(opened)
    else:
        require_trusted(opened)  # it may extract


def base_url(model):
    return str(model.adapter._client.base_url)


def test_ollama_is_called_directly(remote, local, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", remote.url.removesuffix("/v1"))
    model = dp.ollama("llama3.2:1b", f"127.0.0.1:{local.port}")
    assert model(QUESTION) == model.private()(QUESTION) == "extracted answer"
    assert "".join(model.stream(QUESTION)) == "extracted answer"
    assert [each["model"] for each in local.requests] == ["llama3.2:1b"] * 3
    assert not remote.requests
    local.mode, local.redirect_to = "redirect", remote.url
    with pytest.raises(dp.ChatError, match="HTTP 307"):
        model(QUESTION)
    assert not remote.requests


def test_no_host_of_ollama():
    for host in ("http://", "ftp://x", "host:port", "http://[::1"):
        with pytest.raises(dp.ParameterError, match="HOST, HOST:PORT or a URL"):
            dp.ollama("llama3.2", host)
    with pytest.raises(dp.ParameterError, match="name of a model"):
        dp.ollama("", "localhost")


def test_bad_specifications(monkeypatch):
    wrong = ("openai:@http://x", "openai:gpt@localhost:1", "hf:", "x:y")
    for spec in ("", "gpt-4o", "ollama:", "openai:", *wrong):
        with pytest.raises(dp.ParameterError, match=r"expected openai:MODEL"):
            open_model(spec, private=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(dp.MissingExtra, match=r"install '\.\[openai\]"):
        open_model("openai:gpt@http://localhost:1", private=False)
