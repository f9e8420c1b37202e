"""Raw text reaches no tracer, callback, cache, console, span or event on its way to an extractor.

Every test first shows, or shows afterwards, that its recorder does see an ordinary call.
"""

import asyncio
import logging
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import langsmith
import openai
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.runnables import RunnableLambda
from llama_index.core.instrumentation import root_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import CustomLLM, LLMMetadata, MockLLM
from llama_index.llms.openai import OpenAI
from opentelemetry import context as telemetry
from support.chat_models import langchain_model, llama_index_llm
from support.contract import Probe
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware._quiet import is_unrecorded
from dp_middleware.frameworks import ChatModel, chat_model

PRIVATE = [{"role": "user", "content": CANARY}]


def use(model: ChatModel, messages: list[dict[str, str]] = PRIVATE) -> None:
    """All three ways of calling, which may fail."""
    for call in (
        model,
        lambda given: list(model.stream(given)),
        lambda given: asyncio.run(model.acall(given)),
    ):
        with suppress(dp.ChatError):
            call(messages)


@pytest.fixture
def probe(tmp_path, capsys):
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        yield probe


class ThroughSuper(OpenAI):
    """Overrides and calls ``super()``, as OpenAILike does: two layers of decorated methods."""

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        return super().chat(messages, **kwargs)


class Completing(CustomLLM):
    """A completion model: the core's ``chat`` goes through its decorated ``complete``."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, **kwargs: Any) -> Any:
        return MockLLM().complete(prompt, **kwargs)

    def stream_complete(self, prompt: str, **kwargs: Any) -> Any:
        return MockLLM().stream_complete(prompt, **kwargs)


def wrapped(probe: Probe) -> ChatModel:
    """A client that LangSmith has wrapped."""
    from langsmith.wrappers import wrap_openai

    client = openai.OpenAI(base_url=probe.local.url, api_key="none", max_retries=0)
    return chat_model(wrap_openai(client), "gpt-4o-mini")


def calling(probe: Probe) -> ChatModel:
    """A function, of which but LangSmith and what is inherited is told nothing."""
    inner = langchain_model(probe.local.url, max_retries=0)
    return chat_model(lambda messages: inner.invoke(messages).text)


def through_super(probe: Probe) -> ChatModel:
    settings = {"model": "gpt-4o-mini", "api_key": "none", "max_retries": 0}
    return chat_model(ThroughSuper(api_base=probe.local.url, **settings))


INHERITED = {"LangChain callbacks", "LangSmith"}
LANGCHAIN = {*INHERITED, "LangChain global handler", "LLM cache", "console", "logs"}
LLAMA_INDEX = {"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"}
MODELS = {
    "langchain": (
        lambda p: chat_model(langchain_model(p.local.url, max_retries=0, **p.config)),
        LANGCHAIN,
    ),
    "in a chain": (
        lambda p: chat_model(langchain_model(p.local.url, max_retries=0)),
        LANGCHAIN,
    ),
    "function in a chain": (calling, INHERITED),
    "wrapped client": (wrapped, {"LangSmith", "logs"}),
    "llama_index": (
        lambda p: chat_model(llama_index_llm(p.local.url, max_retries=0)),
        {*LLAMA_INDEX, "logs"},
    ),
    "super": (through_super, LLAMA_INDEX),
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

    def seen(model: ChatModel) -> set[str]:
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
        def handle(self, event: Any, **kwargs: Any) -> None:
            raise AssertionError("told")

    private = chat_model(llama_index_llm(local.url)).private()
    monkeypatch.setattr(root_dispatcher, "event_handlers", [Late()])
    for call in (
        private,
        lambda m: list(private.stream(m)),
        lambda m: asyncio.run(private.acall(m)),
    ):
        with pytest.raises(dp.ChatError, match=r"got Late; call .*quiet_recorders"):
            call(PRIVATE)
    assert not local.requests


def log(text: str) -> None:
    logging.getLogger("openai.private_calls").warning("Request options: %s", text)


def test_vendors_logs_are_dropped_and_others_kept(caplog):
    log("released")  # the logger is there

    def extractor(messages: list[dict[str, str]]) -> str:
        log(messages[0]["content"])
        logging.getLogger("mine").warning("my own record")
        return "answer"

    use(chat_model(extractor).private())
    assert CANARY not in caplog.text
    assert "my own record" in caplog.text
    chat_model(extractor)(PRIVATE)
    assert CANARY in caplog.text


def test_a_logger_that_is_made_in_the_call_has_its_records_dropped(caplog):
    def extractor(messages: list[dict[str, str]]) -> str:
        name = f"openai.made_{len(logging.root.manager.loggerDict)}"
        assert name not in logging.root.manager.loggerDict
        logging.getLogger(name).warning("Request options: %s", messages[0]["content"])
        return "answer"

    use(chat_model(extractor).private())
    assert CANARY not in caplog.text
    chat_model(extractor)(PRIVATE)
    assert CANARY in caplog.text


def test_other_threads_are_recorded_during_a_private_call(caplog):
    inside, go = Event(), Event()

    def extractor(messages: list[dict[str, str]]) -> str:
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


def is_suppressed() -> bool:
    return bool(telemetry.get_value(telemetry._SUPPRESS_INSTRUMENTATION_KEY))


def test_opentelemetry_is_told_and_inherits_nothing():
    seen: list[Any] = []

    def extractor(messages: list[dict[str, str]]) -> str:
        seen.append((is_suppressed(), telemetry.get_value("span")))
        return "answer"

    token = telemetry.attach(telemetry.set_value("span", "outer"))
    try:
        use(chat_model(extractor).private())
    finally:
        telemetry.detach(token)
    assert seen == [(True, None)] * 3
    assert not is_suppressed()


def test_a_private_call_stays_in_the_callers_task():
    found: list[Any] = []

    async def extractor(messages: list[dict[str, str]]) -> str:
        found.append(asyncio.current_task())
        async with asyncio.timeout(0.05):
            await asyncio.sleep(10)
        return "answer"

    async def main() -> None:
        with pytest.raises(dp.ChatError, match="TimeoutError"):
            await chat_model(extractor).private().acall(PRIVATE)
        assert found == [asyncio.current_task()]
        assert not is_unrecorded()

    asyncio.run(main())
