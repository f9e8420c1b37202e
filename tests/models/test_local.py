"""Models that are given raw text: which are let in, and that their calls go nowhere else."""

import asyncio
import traceback
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
import requests
import urllib3
from support.cases import over
from support.chat_models import KINDS, langchain_model, llama_index_llm
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import ExtractorError
from dp_middleware.frameworks import chat_model, embedding_service
from dp_middleware.models.chat import local_model
from dp_middleware.models.trust import Location, locate

RAW = [{"role": "user", "content": CANARY}]
LOOPBACK = "http://127.0.0.1:1/v1"
PROXY = "http://proxy.example:3128"


@pytest.fixture
def redirecting(local, remote):
    """On loopback; sends its callers on to ``remote``, which records."""
    local.mode, local.redirect_to = "redirect", remote.url
    return local


def assert_stays(call, error, told):
    with pytest.raises(error, match=told) as caught:
        call()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@over("kind", KINDS)
@over("status", [302, 307])
def test_a_redirect_is_not_followed(kind, status, make, redirecting, remote):
    redirecting.redirect_status = status
    redirecting.raw.clear()
    model = local_model(make(kind, redirecting.url))
    told = rf"HTTP {status}, a redirect that is not followed"
    for call in (
        lambda: model(RAW),
        lambda: asyncio.run(model.acall(RAW)),
        lambda: list(model.stream(RAW)),
    ):
        assert_stays(call, ExtractorError, told)
    assert redirecting.saw(CANARY)
    assert not remote.raw


def test_a_client_that_others_use_at_the_same_time_follows_for_them(redirecting, remote):
    with httpx.Client(follow_redirects=True) as shared:
        options = {"api_key": "none", "http_client": shared, "max_retries": 0}
        client = openai.OpenAI(base_url=redirecting.url, **options)
        model = local_model(chat_model(client, "m"))
        url = f"{redirecting.url}/chat/completions"

        def other(k):
            return shared.post(url, json={"messages": [{"content": f"{k}"}]}).status_code

        def private(k):
            assert_stays(lambda: model(RAW), ExtractorError, "HTTP 307")

        with ThreadPoolExecutor(4) as pool:
            refused = [pool.submit(private, k) for k in range(8)]
            assert {each.result() for each in [pool.submit(other, k) for k in range(8)]} == {200}
            assert [each.result() for each in refused] == [None] * 8
        assert shared.follow_redirects
    assert len(remote.requests) == 8
    assert not remote.saw(CANARY)


def test_a_redirected_embedding_model_fails(redirecting, remote):
    from langchain_openai import OpenAIEmbeddings

    settings = {"api_key": "none", "max_retries": 0}
    model = OpenAIEmbeddings(base_url=redirecting.url, check_embedding_ctx_length=False, **settings)
    service = embedding_service(model)
    assert_stays(lambda: service.encode([CANARY]), dp.EmbeddingError, "Status|HTTP 307")
    assert redirecting.saw(CANARY)
    assert not remote.raw


class Field:
    """A model of the user's own: an address, and what is given in fields of any name."""

    def __init__(self, **fields):
        self.__dict__.update({"base_url": LOOPBACK, **fields})


class Slots:
    __slots__ = ("base_url", "wire")

    def __init__(self, wire):
        self.base_url, self.wire = LOOPBACK, wire


class Around(httpx.BaseTransport):
    """Retries, measures or caches, as many packages do."""

    def __init__(self, inner):
        self._wrapped = inner


class Anywhere(httpx.BaseTransport):
    """Sends by other means."""


def proxied():
    return httpx.HTTPTransport(proxy=PROXY)


def openai_client(**more):
    return openai.OpenAI(base_url=LOOPBACK, api_key="x", **more)


def behind():
    """Models of vendors, each with a proxy in one place."""
    client, tasks = httpx.Client(proxy=PROXY), httpx.AsyncClient(proxy=PROXY)
    yield chat_model(openai_client(http_client=client), "m")
    yield llama_index_llm(LOOPBACK, openai_client=openai_client(http_client=client))
    yield llama_index_llm(LOOPBACK, async_http_client=tasks)
    yield langchain_model(LOOPBACK, http_client=client)
    yield langchain_model(LOOPBACK, http_async_client=tasks)
    yield langchain_model(LOOPBACK, openai_proxy=PROXY)
    for options in (
        {"proxy": PROXY},
        {"mounts": {"http://127.0.0.1": proxied()}},
        {"transport": proxied()},
    ):
        yield llama_index_llm(LOOPBACK, http_client=httpx.Client(**options))


def own():
    client, session = httpx.Client(proxy=PROXY), requests.Session()
    session.proxies = {"http": PROXY}
    for field in (client, [httpx.Client(), client], {"a": client}, session):
        yield Field(any_name=field)
    yield Field(_client=Field(any_name=client))
    yield Slots(client)
    yield Field(wire=urllib3.ProxyManager(PROXY))
    yield Field(proxies={"http": PROXY})


def test_a_model_behind_a_proxy_is_refused():
    for model in behind():
        with pytest.raises(dp.UntrustedHost, match=r"the proxy proxy\.example"):
            local_model(model)
        local_model(model, ["proxy.example"])
    for model in (*behind(), *own()):
        location = locate(model)
        assert (location.proxies, location.hosts) == ({"proxy.example"}, {"127.0.0.1"})


@over("proxy", ["http://127.0.0.1:3128", "http://localhost:1", "http://[::1]:1"])
def test_a_proxy_on_loopback_forwards_anywhere(proxy, monkeypatch):
    with pytest.raises(dp.UntrustedHost, match="the proxy"):
        local_model(chat_model(openai_client(http_client=httpx.Client(proxy=proxy)), "m"))
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(dp.UntrustedHost, match="the proxy"):
        local_model(chat_model(openai_client(), "m"))


def test_clients_without_a_proxy_are_let_in():
    plain = {"http_client": httpx.Client(), "async_http_client": httpx.AsyncClient()}
    local_model(llama_index_llm(LOOPBACK, **plain))
    local_model(langchain_model(LOOPBACK, http_client=openai.DefaultHttpxClient()))
    for options in (
        {"mounts": {"all://x.y": None}},
        {"mounts": {"http://other.example": proxied()}},
    ):
        local_model(llama_index_llm(LOOPBACK, http_client=httpx.Client(**options)))
    tunnel = httpx.Client(proxy=PROXY)
    local_model(llama_index_llm("https://127.0.0.1:1/v1", http_client=tunnel))


class Relay(httpx.HTTPTransport):
    """httpx's own, but for where it sends what it is given."""


@over("transport", [Anywhere(), Around(httpx.HTTPTransport()), Relay()])
def test_a_transport_that_is_not_known_is_refused(transport):
    model = llama_index_llm(LOOPBACK, http_client=httpx.Client(transport=transport))
    with pytest.raises(dp.UntrustedHost, match=f"cannot tell where {type(transport).__name__}"):
        local_model(model)


@over("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_proxies_of_the_environment(name, monkeypatch):
    with monkeypatch.context() as patch:
        sync, tasks = httpx.Client(trust_env=False), httpx.AsyncClient(trust_env=False)
        patch.setenv(name, PROXY)

        def models():
            yield llama_index_llm(LOOPBACK)
            yield llama_index_llm(LOOPBACK, http_client=sync)  # not the other
            yield llama_index_llm(LOOPBACK, async_http_client=tasks)
            yield chat_model(openai_client(), "m")
            yield chat_model(openai.AsyncOpenAI(base_url=LOOPBACK, api_key="x"), "m")

        chained = ({}, {"http_client": sync}, {"http_async_client": tasks})
        for model in (*models(), *(langchain_model(LOOPBACK, **clients) for clients in chained)):
            with pytest.raises(dp.UntrustedHost, match=r"the proxy proxy\.example; .* NO_PROXY"):
                local_model(model)
        local_model(llama_index_llm(LOOPBACK, http_client=sync, async_http_client=tasks))
        local_model(langchain_model(LOOPBACK, http_client=sync, http_async_client=tasks))
        local_model(chat_model(openai_client(http_client=sync), "m"))
        patch.setenv("NO_PROXY", "127.0.0.1")
        for model in models():
            local_model(model)


def answer(messages):
    return "answer"


async def slow_answer(messages):
    return "answer"


class Own:
    def __call__(self, messages):
        return "answer"


class Declared(Own):
    location = Location()


class Elsewhere(Own):
    location = Location(hosts=frozenset({"models.example"}))


@over("function", [answer, slow_answer, Own(), Own().__call__])
def test_a_function_sees_raw_text_only_if_it_is_declared_local(function):
    for bare in (function, chat_model(function)):
        with pytest.raises(dp.UntrustedHost, match=r"dp\.chat_model\(model, local=True\)"):
            local_model(bare)
    assert local_model(chat_model(function, local=True))(RAW) == "answer"
    assert chat_model(function)(RAW) == "answer"  # a remote model


def test_an_object_says_itself_where_it_runs():
    assert local_model(Declared())(RAW) == "answer"
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        local_model(Elsewhere())
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        local_model(chat_model(Elsewhere(), local=True))
    local_model(Elsewhere(), ["models.example"])


def test_an_address_counts_whatever_is_declared():
    far = "http://models.example/v1"
    client = openai.OpenAI(base_url=far, api_key="x")
    declared = [chat_model(make(far), local=True) for make in (langchain_model, llama_index_llm)]
    for model in (*declared, chat_model(client, "m", local=True)):
        with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
            local_model(model)
    with pytest.raises(dp.ParameterError, match="a ChatModel alone"):
        chat_model(chat_model(answer), local=True)
