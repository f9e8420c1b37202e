"""Raw text reaches no tracer, callback, cache, console, span or event on its way to an extractor.

Every test first shows, or shows afterwards, that its recorder does see an ordinary call.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import multiprocessing
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
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
from support.chat_models import langchain_model, llama_index_llm
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import ChatModel, chat_model
from dp_middleware.testing import OpenAIServer
from dp_middleware.unrecorded import recording

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


def test_handlers_of_a_langchain_model(local: OpenAIServer) -> None:
    recorder = Recorder()
    model = chat_model(langchain_model(local.url, callbacks=[recorder]))
    use(model.private())
    assert len(local.requests) == 3
    assert not recorder.seen
    use(model)
    assert recorder.saw_canary()


@pytest.mark.parametrize("wrapped", ["model", "function"])
def test_handlers_inherited_from_a_running_chain(wrapped: str, local: OpenAIServer) -> None:
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


def test_langchain_caches_and_debug_output(local: OpenAIServer, capsys: Any) -> None:
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
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
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
def test_langsmith_switched_on_by_the_environment(
    kind: str, tracing: OpenAIServer, local: OpenAIServer
) -> None:
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


def test_tracing_is_as_it_was_after_a_private_call() -> None:
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
def instrumentation(monkeypatch: pytest.MonkeyPatch) -> LlamaRecorder:
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
def test_llama_index_instrumentation_and_handlers(
    kind: str, instrumentation: LlamaRecorder, local: OpenAIServer
) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    llm = {
        "openai": lambda: llama_index_llm(local.url),
        "super": lambda: ThroughSuper(model="gpt-4o-mini", api_base=local.url, api_key="none"),
        "completing": Completing,
    }[kind]()
    llm.callback_manager = CallbackManager([debug])
    model = chat_model(llm)
    use(model.private())
    assert not instrumentation.seen
    assert not debug.get_llm_inputs_outputs()
    use(model)
    assert instrumentation.saw_canary()
    assert CANARY in str(debug.get_llm_inputs_outputs())


def test_llama_index_failures_leave_no_span(
    instrumentation: LlamaRecorder, local: OpenAIServer
) -> None:
    local.mode = "error"  # an error that quotes the request
    model = chat_model(llama_index_llm(local.url, max_retries=0))
    with pytest.raises(dp.ChatError):
        model.private()(PRIVATE)
    assert not instrumentation.seen
    with pytest.raises(dp.ChatError):
        model(PRIVATE)
    assert instrumentation.saw_canary()


def test_inferdpt_records_the_remote_call_only(
    instrumentation: LlamaRecorder,
    sanitizer: dp.Sanitizer,
    remote: OpenAIServer,
    local: OpenAIServer,
) -> None:
    inferdpt = dp.InferDPT(
        sanitizer, remote=llama_index_llm(remote.url), extractor=llama_index_llm(local.url)
    )
    document = f"word1 {CANARY}"
    inferdpt.run(document)
    list(inferdpt.stream(document))
    asyncio.run(inferdpt.arun(document))
    assert local.saw(CANARY)
    assert instrumentation.seen
    assert not instrumentation.saw_canary()


def test_any_installed_package_is_silent_in_an_unrecorded_call(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that nobody listed, whose logger comes into being during the call."""
    caplog.set_level(0)
    installed = Path(sysconfig.get_paths()["purelib"]) / "some_vendor" / "client.py"
    code = compile(
        "import logging\nlogging.getLogger('some_vendor.new').warning(text)", installed, "exec"
    )

    def extractor(messages: list[dict[str, str]]) -> str:
        exec(code, {"text": messages[0]["content"]})
        warnings.warn(messages[0]["content"], stacklevel=1)
        logging.getLogger("mine").warning("my own record")
        return "answer"

    logging.captureWarnings(True)
    monkeypatch.setattr(warnings, "filters", [("always", None, UserWarning, None, 0)])
    try:
        chat_model(extractor).private()(PRIVATE)
    finally:
        logging.captureWarnings(False)
    assert CANARY not in caplog.text
    assert "my own record" in caplog.text
    with warnings.catch_warnings(record=True):
        chat_model(extractor)(PRIVATE)
    assert CANARY in caplog.text  # an ordinary call is recorded


def test_a_logger_and_a_handler_that_come_into_being_during_the_call() -> None:
    """As when a vendor's module is imported on first use, and its logger keeps to itself."""
    seen = Seen()
    name = "openai.made_by_a_test"

    def extractor(messages: list[dict[str, str]]) -> str:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.addHandler(seen)
        logger.warning("Request options: %s", messages[0]["content"])
        return "answer"

    try:
        chat_model(extractor).private()(PRIVATE)
        assert not seen.texts
        chat_model(extractor)(PRIVATE)
        assert seen.texts == [f"Request options: {CANARY}"]
    finally:
        logging.getLogger(name).removeHandler(seen)


class Seen(logging.Handler):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class OwnHandle(logging.Logger):
    """As some packages have it: it asks no method of its base class but ``callHandlers``."""

    def handle(self, record: logging.LogRecord) -> None:
        self.callHandlers(record)


def test_a_logger_with_a_handle_of_its_own() -> None:
    logger, seen = OwnHandle("openai.own"), Seen()
    logger.addHandler(seen)
    with recording.unrecorded():
        logger.warning(CANARY)
    logger.warning("released")
    assert seen.texts == ["released"]


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whose undoing puts the methods back that the library replaces."""
    for owner, name in (
        (logging.Logger, "handle"),
        (logging.Logger, "callHandlers"),
        (Thread, "start"),
        (ThreadPoolExecutor, "submit"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return monkeypatch


def test_methods_that_others_patch_over_ours(unpatched: pytest.MonkeyPatch) -> None:
    """Without a word of it: what was wrapped before is wrapped again."""
    with recording.unrecorded():
        pass
    start, handle = Thread.start, logging.Logger.handle
    unpatched.setattr(Thread, "start", lambda thread: start(thread))
    unpatched.setattr(logging.Logger, "handle", lambda logger, record: handle(logger, record))
    failed: list[Any] = []
    unpatched.setattr(threading, "excepthook", failed.append)
    logger, seen, ran = logging.getLogger("openai.patched"), Seen(), list[bool]()
    logger.addHandler(seen)

    def run() -> None:
        logger.warning(CANARY)
        ran.append(recording.is_unrecorded())

    with recording.unrecorded():
        thread = Thread(target=run)
        thread.start()
        thread.join()
    run()
    logger.removeHandler(seen)
    assert not failed
    assert ran == [True, False]
    assert seen.texts == [CANARY]


def test_the_library_imported_anew_is_silent_too(unpatched: pytest.MonkeyPatch) -> None:
    """As by a server that reloads: the methods were wrapped for calls of the old one."""
    with recording.unrecorded():
        pass
    unpatched.setattr(sys.modules["dp_middleware.unrecorded"], "recording", recording)
    unpatched.delitem(sys.modules, "dp_middleware.unrecorded.recording")
    unpatched.setattr("dp_middleware.unrecorded.recording", recording)  # put back at the end
    anew = importlib.import_module("dp_middleware.unrecorded.recording")
    logger, seen = logging.getLogger("openai.anew"), Seen()
    logger.addHandler(seen)
    for each in (anew, recording):
        with each.unrecorded():
            logger.warning(CANARY)
    logger.removeHandler(seen)
    assert not seen.texts


def test_threads_of_an_unrecorded_call_are_unrecorded_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As vendors do that embed or retry in threads of their own, or in a pool that was there."""

    def log(text: str) -> None:
        logging.getLogger("openai.threads").warning("Request options: %s", text)

    def in_thread(text: str) -> None:
        thread = Thread(target=log, args=(text,))
        thread.start()
        thread.join()

    with ThreadPoolExecutor(2) as before:

        def extractor(messages: list[dict[str, str]]) -> str:
            text = messages[0]["content"]
            in_thread(text)
            before.submit(in_thread, text).result()  # starts its first thread
            with ThreadPoolExecutor(1) as during:
                list(during.map(log, [text]))
            return "answer"

        chat_model(extractor).private()(PRIVATE)
        assert not caplog.text
        before.submit(log, "released").result()  # on a thread that began in the call
        assert "released" in caplog.text
        chat_model(extractor)(PRIVATE)
        assert caplog.text.count(CANARY) == 3


def test_other_threads_are_recorded_during_an_unrecorded_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside, go = Event(), Event()

    def extractor(messages: list[dict[str, str]]) -> str:
        inside.set()
        assert go.wait(10)
        return "answer"

    thread = Thread(target=lambda: chat_model(extractor).private()(PRIVATE))
    thread.start()
    assert inside.wait(10)
    logging.getLogger("openai").warning("released")
    go.set()
    thread.join()
    assert "released" in caplog.text


@pytest.mark.slow
def test_work_handed_to_pools_of_every_kind_and_no_other_work() -> None:
    spawning = multiprocessing.get_context("spawn")
    unrecorded = recording.is_unrecorded
    with ProcessPoolExecutor(1, spawning) as executor, spawning.Pool(1) as pool:
        for inside in (False, True):
            with recording.unrecorded() if inside else nullcontext():
                found = [
                    executor.submit(unrecorded).result(),
                    pool.apply_async(func=unrecorded).get(),
                    *pool.starmap(unrecorded, [()]),
                ]
            assert found == [inside] * 3
