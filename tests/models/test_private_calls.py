"""Raw text reaches no tracer, callback, cache, console, span or event on its way to an extractor.

Every test first shows, or shows afterwards, that its recorder does see an ordinary call.
"""

import asyncio
import logging
from contextlib import suppress
from threading import Event, Thread

import langsmith
import openai
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.runnables import RunnableLambda
from llama_index.core.instrumentation import root_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import CustomLLM, LLMMetadata, MockLLM
from opentelemetry import context as telemetry
from support.chat_models import langchain_model, llama_index_llm
from support.contract import Probe
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import chat_model

PRIVATE = [{"role": "user", "content": CANARY}]


def ways(model):
    yield model
    yield lambda messages: list(model.stream(messages))
    yield lambda messages: asyncio.run(model.acall(messages))


def use(model, messages=PRIVATE):
    """All ways of calling, which may fail."""
    for call in ways(model):
        with suppress(dp.ChatError):
            call(messages)


@pytest.fixture
def probe(tmp_path, capsys):
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        yield probe


class Completing(CustomLLM):
    """A completion model: the core's ``chat`` goes through its decorated ``complete``."""

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, **kwargs):
        return MockLLM().complete(prompt, **kwargs)

    def stream_complete(self, prompt, **kwargs):
        return MockLLM().stream_complete(prompt, **kwargs)


def wrapped(probe):
    from langsmith.wrappers import wrap_openai

    client = openai.OpenAI(base_url=probe.local.url, api_key="none", max_retries=0)
    return chat_model(wrap_openai(client), "gpt-4o-mini")


def calling(probe):
    """A function, of which but LangSmith and what is inherited is told nothing."""
    inner = langchain_model(probe.local.url, max_retries=0)
    return chat_model(lambda messages: inner.invoke(messages).text)


INHERITED = {"LangChain callbacks", "LangSmith"}
LANGCHAIN = {*INHERITED, "LangChain global handler", "LLM cache", "console", "logs"}
LLAMA_INDEX = {"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"}


def chained(probe, **options):
    return chat_model(langchain_model(probe.local.url, max_retries=0, **options))


def indexed(probe):
    return chat_model(llama_index_llm(probe.local.url, max_retries=0))


MODELS = {
    "langchain": (lambda p: chained(p, **p.config), LANGCHAIN),
    "in a chain": (chained, LANGCHAIN),
    "function in a chain": (calling, INHERITED),
    "wrapped client": (wrapped, {"LangSmith", "logs"}),
    "llama_index": (indexed, {*LLAMA_INDEX, "logs"}),
    "completing": (lambda p: chat_model(Completing(), local=True), LLAMA_INDEX),
}


@pytest.mark.filterwarnings(  # raised when the vendor's package imports its own module
    "ignore:langsmith.wrappers._openai_agents is deprecated:DeprecationWarning"
)
@pytest.mark.parametrize("mode", ["echo", "error"])  # the latter quotes the request
@pytest.mark.parametrize("kind", MODELS)
def test_who_is_told_of_ordinary_calls_is_told_of_no_private_one(kind, mode, probe):
    make, told = MODELS[kind]
    probe.local.mode = mode
    model, asked = make(probe), [{"role": "user", "content": probe.private_text}]

    def seen(model):
        if kind.endswith("chain"):
            step = RunnableLambda(lambda _: use(model, asked))
            step.invoke("public", config=probe.config)
        else:
            use(model, asked)
        return {leak.partition(":")[0] for leak in probe.leaks()} & told

    assert seen(model.private()) == set()
    assert len(probe.local.requests) == (0 if kind == "completing" else 3)
    assert seen(model) == told


def test_a_cache_of_ones_own_keeps_nothing(local):
    own = InMemoryCache()
    model = chat_model(langchain_model(local.url, cache=own))
    use(model.private())
    assert not own._cache
    use(model)
    assert CANARY in str(own._cache)


def test_tracing_is_as_it_was_after_a_private_call():
    model = chat_model(lambda messages: str(langsmith.utils.tracing_is_enabled())).private()
    with langsmith.tracing_context(enabled=True):
        assert model(PRIVATE) == "False"
        stream = model.stream(PRIVATE)
        next(stream)
        assert langsmith.utils.tracing_is_enabled() is True  # also half way through a stream
        stream.close()
        assert langsmith.utils.tracing_is_enabled() is True


def test_a_recorder_that_was_added_since_is_refused(monkeypatch, local):
    class Late(BaseEventHandler):
        def handle(self, event, **kwargs):
            raise AssertionError("told")

    private = chat_model(llama_index_llm(local.url)).private()
    monkeypatch.setattr(root_dispatcher, "event_handlers", [Late()])
    for call in ways(private):
        with pytest.raises(dp.ChatError, match=r"got Late; call .*quiet_recorders"):
            call(PRIVATE)
    assert not local.requests


def log(text):
    logging.getLogger("openai.private_calls").warning("Request options: %s", text)


def test_vendors_logs_are_dropped_and_others_kept(caplog):
    log("released")  # the logger is there

    def extractor(messages):
        log(messages[0]["content"])
        made = f"openai.made_{len(logging.root.manager.loggerDict)}"
        assert made not in logging.root.manager.loggerDict
        logging.getLogger(made).warning("made in the call: %s", messages[0]["content"])
        logging.getLogger("mine").warning("my own record")
        return "answer"

    use(chat_model(extractor).private())
    assert CANARY not in caplog.text
    assert "my own record" in caplog.text
    chat_model(extractor)(PRIVATE)
    assert f"made in the call: {CANARY}" in caplog.text
    assert f"Request options: {CANARY}" in caplog.text


def test_other_threads_are_recorded_during_a_private_call(caplog):
    inside, go = Event(), Event()

    def extractor(messages):
        inside.set()
        assert go.wait(10)
        return "answer"

    thread = Thread(target=lambda: chat_model(extractor).private()(PRIVATE))
    thread.start()
    assert inside.wait(10)
    log("released")
    go.set()
    thread.join()
    assert "released" in caplog.text


def is_suppressed():
    return bool(telemetry.get_value(telemetry._SUPPRESS_INSTRUMENTATION_KEY))


def test_opentelemetry_is_told_and_inherits_nothing():
    seen = []

    def extractor(messages):
        seen.append((is_suppressed(), telemetry.get_value("span")))
        return "answer"

    token = telemetry.attach(telemetry.set_value("span", "outer"))
    try:
        use(chat_model(extractor).private())
    finally:
        telemetry.detach(token)
    assert seen == [(True, None)] * 3
    assert not is_suppressed()
