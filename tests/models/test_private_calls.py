"""Raw text reaches no tracer, callback, cache, console, span or event on its way to an extractor.

Every test first shows, or shows afterwards, that its recorder does see an ordinary call.
"""

import asyncio
import logging
from threading import Event, Thread
from typing import Any

import langsmith
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import set_debug, set_llm_cache
from langchain_core.runnables import RunnableLambda
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.instrumentation import root_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import CustomLLM, LLMMetadata, MockLLM
from llama_index.llms.openai import OpenAI
from opentelemetry import context as telemetry
from support.chat_models import langchain_model, llama_index_llm
from support.contract import OpenAIServer
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware._quiet import is_unrecorded
from dp_middleware.frameworks import ChatModel, chat_model
from dp_middleware.models.recorders import quiet_recorders

PRIVATE = [{"role": "user", "content": CANARY}]


def use(model: ChatModel) -> None:
    """All three ways of calling."""
    model(PRIVATE)
    list(model.stream(PRIVATE))
    asyncio.run(model.acall(PRIVATE))


class Recorder(BaseCallbackHandler):
    """Remembers whatever LangChain tells its handlers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *args, **kwargs: self.seen.append(f"{name} {args} {kwargs}")
        return super().__getattribute__(name)

    def saw_canary(self) -> bool:
        return any(CANARY in each for each in self.seen)


def test_handlers_of_a_langchain_model(local):
    recorder = Recorder()
    model = chat_model(langchain_model(local.url, callbacks=[recorder]))
    use(model.private())
    assert len(local.requests) == 3
    assert not recorder.seen
    use(model)
    assert recorder.saw_canary()


@pytest.mark.parametrize("wrapped", ["model", "function"])
def test_handlers_inherited_from_a_running_chain(wrapped, local):
    recorder = Recorder()
    inner = langchain_model(local.url)
    model = chat_model(inner if wrapped == "model" else lambda messages: inner.invoke(CANARY).text)

    def run(chat: ChatModel) -> None:
        RunnableLambda(lambda _: use(chat)).invoke("public", config={"callbacks": [recorder]})

    run(model.private())
    assert recorder.seen
    assert not recorder.saw_canary()
    run(model)
    assert recorder.saw_canary()


def test_langchain_caches_and_debug_output(local, capsys):
    own, shared = InMemoryCache(), InMemoryCache()
    set_llm_cache(shared)
    set_debug(True)
    try:
        for cache in (None, True, own):
            use(chat_model(langchain_model(local.url, cache=cache)).private())
        assert len(local.requests) == 9
        assert not shared._cache
        assert not own._cache
        assert CANARY not in "".join(capsys.readouterr())
        for cache in (None, own):
            use(chat_model(langchain_model(local.url, cache=cache)))
        assert CANARY in str(shared._cache)
        assert CANARY in str(own._cache)
        assert CANARY in "".join(capsys.readouterr())
    finally:
        set_llm_cache(None)
        set_debug(False)


@pytest.fixture
def tracing(monkeypatch):
    """A stand-in for LangSmith on loopback, switched on by the environment."""
    with OpenAIServer() as collector:
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", collector.url.removesuffix("/v1"))
        monkeypatch.setenv("LANGSMITH_API_KEY", "none")
        client = langsmith.Client(auto_batch_tracing=False)
        monkeypatch.setattr(langsmith.run_trees, "_CLIENT", client)
        langsmith.utils.get_env_var.cache_clear()
        yield collector
    langsmith.utils.get_env_var.cache_clear()


@pytest.mark.filterwarnings(  # raised when the vendor's package imports its own module
    "ignore:langsmith.wrappers._openai_agents is deprecated:DeprecationWarning"
)
@pytest.mark.parametrize("kind", ["langchain", "openai", "function"])
def test_langsmith_switched_on_by_the_environment(kind, tracing, local):
    import openai
    from langsmith.wrappers import wrap_openai

    inner = langchain_model(local.url)
    with openai.OpenAI(base_url=local.url, api_key="none") as client:
        model = {
            "langchain": lambda: chat_model(inner),
            "openai": lambda: chat_model(wrap_openai(client), "gpt-4o-mini"),
            "function": lambda: chat_model(lambda messages: inner.invoke(CANARY).text),
        }[kind]()
        use(model.private())
        flush()
        assert len(local.requests) == 3
        assert not tracing.raw
        use(model)
        flush()
        assert tracing.saw(CANARY)


def flush() -> None:
    from langchain_core.tracers.langchain import wait_for_all_tracers

    wait_for_all_tracers()
    langsmith.run_trees.get_cached_client().flush()


def test_tracing_is_as_it_was_after_a_private_call():
    model = chat_model(lambda messages: str(langsmith.utils.tracing_is_enabled())).private()
    with langsmith.tracing_context(enabled=True):
        assert model(PRIVATE) == "False"
        stream = model.stream(PRIVATE)
        next(stream)
        assert langsmith.utils.tracing_is_enabled() is True  # also half way through a stream
        stream.close()
        assert langsmith.utils.tracing_is_enabled() is True


class LlamaRecorder:
    """Everything that LlamaIndex tells event handlers, span handlers and callback handlers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def saw_canary(self) -> bool:
        return any(CANARY in each for each in self.seen)


@pytest.fixture
def instrumentation(monkeypatch):
    recorder = LlamaRecorder()

    class Events(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            recorder.seen.append(f"event {event!r}")

    class Spans(BaseSpanHandler):  # type: ignore[type-arg]
        def new_span(self, id_: str, bound_args: Any, **kwargs: Any) -> None:
            recorder.seen.append(f"span {bound_args!r}")

        def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
            recorder.seen.append(f"exit {args} {kwargs}")

        def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
            recorder.seen.append(f"drop {args} {kwargs}")

    monkeypatch.setattr(root_dispatcher, "event_handlers", [Events()])
    monkeypatch.setattr(root_dispatcher, "span_handlers", [Spans()])
    quiet_recorders()
    return recorder


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


@pytest.mark.parametrize("kind", ["openai", "super", "completing"])
def test_llama_index_instrumentation_and_handlers(kind, instrumentation, local):
    debug = LlamaDebugHandler(print_trace_on_end=False)
    llm = {
        "openai": lambda: llama_index_llm(local.url),
        "super": lambda: ThroughSuper(model="gpt-4o-mini", api_base=local.url, api_key="none"),
        "completing": Completing,
    }[kind]()
    llm.callback_manager = CallbackManager([debug])
    model = chat_model(llm, local=True)
    use(model.private())
    assert not instrumentation.seen
    assert not debug.get_llm_inputs_outputs()
    use(model)
    assert instrumentation.saw_canary()
    assert CANARY in str(debug.get_llm_inputs_outputs())


def test_llama_index_failures_leave_no_span(instrumentation, local):
    local.mode = "error"  # an error that quotes the request
    model = chat_model(llama_index_llm(local.url, max_retries=0))
    with pytest.raises(dp.ChatError):
        model.private()(PRIVATE)
    assert not instrumentation.seen
    with pytest.raises(dp.ChatError):
        model(PRIVATE)
    assert instrumentation.saw_canary()


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
