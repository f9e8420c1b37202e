"""Threads, processes and event loops that an unrecorded call starts, or hands its work to."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import logging
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextvars import ContextVar
from threading import Event
from typing import Any

import pytest

from dp_middleware.unrecorded import recording

# Frameworks are imported where they are used: every spawned process imports this module.
CANARY = "zxqcanary"
SPAWNING = multiprocessing.get_context("spawn")
FORKING = multiprocessing.get_context("fork")


def test_a_thread_of_the_lowest_kind() -> None:
    found, done = list[Any](), Event()

    def work(*args: Any, **kwargs: Any) -> None:
        found.append((recording.is_unrecorded(), args, kwargs))
        done.set()

    for inside in (False, True):
        done.clear()
        with recording.unrecorded() if inside else contextlib.nullcontext():
            _thread.start_new_thread(work, (1,), {"two": 2})
        assert done.wait(10)
    assert found == [(False, (1,), {"two": 2}), (True, (1,), {"two": 2})]


def starts_of_langchain() -> int:
    """In every call, as an instrumentor puts it there."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tracers import context as hooks

    seen = list[Any]()

    class Seen(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append(args)

    handler: Any = Seen()
    every: Any = (ContextVar("every", default=handler), True, None, None)
    hooks._configure_hooks.append(every)
    try:
        RunnableLambda(str).invoke(CANARY)
    finally:
        hooks._configure_hooks.remove(every)
    return len(seen)


def events_of_llama_index() -> int:
    from llama_index.core.instrumentation import root_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.llms import MockLLM

    seen = list[Any]()

    class Events(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            seen.append(event)

    handlers, root_dispatcher.event_handlers = root_dispatcher.event_handlers, [Events()]
    try:
        MockLLM().complete(CANARY)
    finally:
        root_dispatcher.event_handlers = handlers
    return len(seen)


def quiet_of_llama_index() -> Any:
    from llama_index_dp_middleware import unrecorded

    return unrecorded()


def quiet_of_langchain() -> Any:
    from langchain_dp_middleware.tracing import untraced

    return untraced()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "quiet"),
    [
        (starts_of_langchain, quiet_of_langchain),
        (events_of_llama_index, quiet_of_llama_index),
    ],
)
def test_work_for_spawned_processes(
    count: Callable[[], int], quiet: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """Where nothing has entered such a block before, so nothing is wrapped."""
    with ProcessPoolExecutor(1, SPAWNING) as executor:
        with quiet():
            assert executor.submit(count).result() == 0
        assert executor.submit(count).result() > 0


INHERITED: ContextVar[str] = ContextVar("callbacks", default="none")


def inherited() -> Any:
    return INHERITED.get(), recording.is_unrecorded()


def test_a_process_that_was_forked_in_a_run_hands_its_callbacks_to_no_work() -> None:
    token = INHERITED.set("callbacks of a run")
    try:
        pool = FORKING.Pool(1)
    finally:
        INHERITED.reset(token)
    with pool:
        assert pool.apply(inherited) == ("callbacks of a run", False)
        with recording.unrecorded():
            assert pool.apply(inherited) == ("none", True)


def tell(queue: Any, *given: Any) -> None:
    queue.put((recording.is_unrecorded(), given))


class Telling(SPAWNING.Process):  # type: ignore[name-defined,misc]
    """With a ``run`` of its own."""

    def __init__(self, *, target: Any, args: Any) -> None:
        super().__init__()
        self.queue, *self.given = args

    def run(self) -> None:
        tell(self.queue, *self.given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FORKING.Process, Telling])
def test_processes_that_start_in_an_unrecorded_call(kind: Any) -> None:
    queue = SPAWNING.SimpleQueue()
    for inside in (False, True):
        process = kind(target=tell, args=(queue, 1))
        with recording.unrecorded() if inside else contextlib.nullcontext():
            process.start()
        assert queue.get() == (inside, (1,))
        process.join()
        assert process.exitcode == 0
        assert "run" not in vars(process)


def test_uvloop_quotes_no_unrecorded_answer(caplog: pytest.LogCaptureFixture) -> None:
    """In debug mode and where a task is lost; what other tasks lose is logged."""
    uvloop = pytest.importorskip("uvloop")

    async def slow(text: str) -> str:
        time.sleep(0.15)  # noqa: ASYNC251 - it is to block the loop
        return text

    async def fail(text: str) -> str:
        raise ValueError(text)

    async def main() -> None:
        tasks = [asyncio.create_task(fail("public"))]
        with recording.unrecorded():
            tasks += [asyncio.create_task(each(CANARY)) for each in (fail, slow)]
        await asyncio.sleep(0.3)
        tasks.clear()
        gc.collect()

    caplog.set_level(logging.DEBUG)
    uvloop.run(main(), debug=True)
    assert "public" in caplog.text
    assert CANARY not in caplog.text
