"""Where models run: what may see raw text, and what is refused."""

from typing import Any

import openai
import pytest
from langchain_core.language_models import BaseLanguageModel, FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from llama_index.core.llms import MockLLM
from llama_index.llms.openai import OpenAI
from support.cases import over
from support.chat_models import langchain_model, llama_index_llm

import dp_middleware as dp
from dp_middleware.frameworks import chat_model
from dp_middleware.models.trust import Location, is_loopback, locate, require_trusted


def trust(model, trusted_hosts=()):
    require_trusted(chat_model(model), trusted_hosts)


def test_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.7.6", "::1")))
    strange = ("localhost.evil.com", "127.0.0.1.evil.com", "0.0.0.0", "10.0.0.1", "local", "::2")
    assert not any(map(is_loopback, (*strange, "")))


@over(
    "url, host",
    [
        ("http://localhost:8000/v1", "localhost"),
        ("http://LOCALHOST./v1", "localhost"),
        ("http://[::1]:8000/v1", "::1"),
        ("https://localhost.evil.com/v1", "localhost.evil.com"),
        ("http://localhost:80@evil.com/v1", "evil.com"),
        ("https://api.example.com", "api.example.com"),
    ],
)
def test_hosts_of_openai_langchain_and_llama_index(url, host):
    clients = [kind(base_url=url, api_key="none") for kind in (openai.OpenAI, openai.AsyncOpenAI)]
    chained = langchain_model(url)
    others = [chat_model(m) for m in (chained, chained.bind(temperature=0), llama_index_llm(url))]
    for model in (*(chat_model(client, "m") for client in clients), *others):
        assert model.location.hosts == {host}
        assert str(model.private().location) == host
        if is_loopback(host):
            require_trusted(model)
        else:
            with pytest.raises(dp.UntrustedHost, match=rf"raw text would go to {host}; .*trusted_"):
                require_trusted(model)
            require_trusted(model, [host.upper() + "."])


def test_the_default_host_of_a_vendor_is_found(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    for model in (ChatOpenAI(model="gpt-4o-mini"), OpenAI(model="gpt-4o-mini")):
        with pytest.raises(dp.UntrustedHost, match=r"api\.openai\.com"):
            trust(model)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://evil.com/v1")
    assert locate(ChatOpenAI(model="gpt-4o-mini")).hosts == {"evil.com"}


def test_a_url_that_parsers_read_differently_is_unknown():
    for url in (r"http://evil.com\@localhost/", "http://[bad", "http://a b/", "http://"):
        assert locate(Plain(base_url=url)).unknown, url


def test_in_process_models():
    for model in (FakeListChatModel(responses=["x"]), MockLLM()):
        assert chat_model(model).location == Location()
        trust(model)
    mine = type("Mine", (FakeListChatModel,), {})(responses=["x"])  # its code may call anything
    with pytest.raises(dp.UntrustedHost, match=r"cannot tell where Mine runs; .*local=True"):
        trust(mine)
    require_trusted(chat_model(mine, local=True))


def vendors(name, module, *bases, **fields):
    """A model as a vendor's package that is not installed here would make it."""
    return type(name, bases, {"__module__": module})(**fields)


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_a_vendors_model_without_an_address_is_unknown():
    unknown = vendors("ChatVendor", "langchain_vendor.chat", Plain)
    hub = vendors("HuggingFaceEndpoint", "langchain_huggingface.llms", Plain, repo_id="a/b")
    llm = vendors("Vendor", "llama_index.llms.vendor.base", MockLLM)
    claimed = vendors("Head", "dp_middleware.conversation.session", Plain)
    for model in (unknown, hub, llm, claimed):
        assert locate(model).unknown == {type(model).__name__}
    with pytest.raises(dp.UntrustedHost, match=r"cannot tell where Vendor runs; .*local=True"):
        trust(llm, ["vendor.com"])

    class Mine(type(llm)):
        """Your own subclass of a vendor's class runs where the vendor's does."""

    assert locate(Mine()).unknown == {"Mine"}


def test_known_local_backends_and_nested_models():
    local = type("HuggingFacePipeline", (Plain,), {"__module__": "langchain_huggingface.llms"})
    assert locate(local()) == Location()
    assert locate(vendors("LlamaCPP", "llama_index.llms.llama_cpp.base", Plain)) == Location()
    # stands for a class of langchain_huggingface that derives from BaseLanguageModel
    base = type("BaseLanguageModel", (Plain,), {"__module__": BaseLanguageModel.__module__})
    pipeline = vendors("HuggingFacePipeline", "langchain_huggingface.llms", base)
    hub = vendors("HuggingFaceEndpoint", "langchain_huggingface.llms", base, repo_id="a/b")
    chat = ("ChatHuggingFace", "langchain_huggingface.chat_models", base)
    assert locate(vendors(*chat, llm=pipeline)) == Location()
    assert locate(vendors(*chat, llm=hub)).unknown == {"HuggingFaceEndpoint"}
    assert locate(Plain(inner=langchain_model("http://evil.com/v1"))).hosts == {"evil.com"}
    client = Plain(_client=Plain(_base_url="http://ollama.lan:11434"))
    ollama = vendors("ChatOllama", "langchain_ollama", Plain, _client=client)
    assert locate(ollama).hosts == {"ollama.lan"}
    loop = Plain(_client=None)
    loop._client = loop
    assert locate(loop, local=True) == Location()


def test_trusted_hosts_are_host_names():
    for hosts in ("evil.com", ["http://evil.com"], ["evil.com:80"], [3], [""]):
        with pytest.raises(dp.ParameterError, match="trusted_hosts"):
            trust(langchain_model("http://127.0.0.1:1/v1"), hosts)


def test_your_own_class_is_unknown_unless_it_is_declared():
    class Router(FakeListChatModel):
        pool: Any

    class Derived(ChatOpenAI):
        other: Any = None

    far, near = (langchain_model(f"http://{host}/v1") for host in ("evil.com", "localhost"))
    ask = RunnableLambda(lambda x: far.invoke(x))
    derived = Derived(model="m", api_key="k", base_url="http://localhost/v1")
    assert locate(Router(responses=["x"], pool=[far])).hosts == {"evil.com"}
    assert locate(Router(responses=["x"], pool=[far]), local=True).hosts == {"evil.com"}
    assert locate(near.with_fallbacks([far])).hosts == {"localhost", "evil.com"}
    assert locate(near.with_fallbacks([ask])).unknown
    assert locate(derived).unknown == {"Derived"}
    assert locate(derived, local=True) == Location(hosts=frozenset({"localhost"}))


def test_only_a_class_speaks_for_itself_and_not_for_what_it_wraps():
    class Local(FakeListChatModel):
        @property
        def location(self):
            return Location(hosts=frozenset({"localhost"}))

    local = Local(responses=["x"])
    wrapped = local.with_fallbacks([langchain_model("http://evil.com/v1")])
    assert wrapped.location == local.location
    assert locate(local) == local.location
    assert locate(wrapped).hosts == {"localhost", "evil.com"}
    assert locate(Plain(inner=wrapped)).hosts == {"localhost", "evil.com"}


def test_what_a_model_says_does_not_hide_its_fields():
    class Claims(Plain):
        location = Location(hosts=frozenset({"localhost"}))

    inner = langchain_model("http://evil.com/v1")
    assert locate(Claims(base_url="http://other.com")).hosts == {"localhost", "other.com"}
    assert locate(Claims(inner=inner)).hosts == {"localhost", "evil.com"}
    assert locate(Claims(inner={"a": inner})).hosts == {"localhost", "evil.com"}
    assert locate(Claims()) == Claims.location
    said = vendors("Named", "langchain_vendor", Plain, location=Claims.location)
    assert locate(said) == Claims.location  # a field of its own
