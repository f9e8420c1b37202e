"""The shared worker: same rows, fewer calls, and nobody waits for ever."""

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import Future, wait
from threading import Event, Thread

import numpy as np
import pytest
from support.cases import over
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.embedding.batching import Batcher


def row(text):
    """A unit vector that only this text has."""
    number = sum(ord(letter) * 31**k for k, letter in enumerate(text)) % 9973
    return np.array([np.cos(number / 3000), np.sin(number / 3000)])


class Model:
    """Deterministic; can be held in a call, and fails when told so, quoting its texts."""

    def __init__(self, batch=64, seconds=0.0):
        self.batch, self.seconds = batch, seconds
        self.seen, self.opened = [], 0
        self.fails, self.cannot_open, self.wrong = None, None, None
        self.entered, self.go = Event(), Event()
        self.go.set()

    def open(self):
        self.opened += 1
        if self.cannot_open:
            raise self.cannot_open
        return self.encode

    def encode(self, texts):
        self.seen.append(list(texts))
        self.entered.set()
        assert self.go.wait(20)
        time.sleep(self.seconds)
        if self.fails:
            raise self.fails(f"cannot embed {texts}")
        return [row(text) for text in texts] if self.wrong is None else self.wrong

    def hold(self):
        """Stop in the next call until ``go`` is set."""
        self.entered.clear()
        self.go.clear()


def held(batcher, model):
    """A request that is with the model, which waits for ``model.go``."""
    model.hold()
    first = batcher.submit(["first"])
    assert model.entered.wait(20)
    return first


def busy_worker(requests, model=None):
    """A worker whose model is held with a first request; it and those that wait, as answers."""
    model = model if model is not None else Model()
    batcher = Batcher(model)
    return model, batcher, [held(batcher, model), *map(batcher.submit, requests)]


def in_threads(functions):
    threads = [Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_32_threads_get_the_rows_of_direct_calls_in_far_fewer_calls():
    model = Model(seconds=0.005)
    service = dp.EmbeddingService.of(model)
    found = {}

    def caller(k):
        for i in range(10):
            texts = [f"{k} {i}", f"{i}"]
            found[k, i] = (texts, service.encode(texts))

    in_threads([lambda k=k: caller(k) for k in range(32)])
    assert len(found) == 320
    for texts, rows in found.values():
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, [row(text) for text in texts], atol=1e-7)
    assert len(model.seen) < 80  # and not 320


def test_equal_texts_of_a_batch_are_computed_once_and_not_kept():
    model, batcher, (first, *answers) = busy_worker(["same", f"other {k % 2}"] for k in range(10))
    model.go.set()
    wait([first, *answers], 20)
    assert model.seen[1:] == [["same", "other 0", "other 1"]]
    assert all(np.allclose(each.result()[0], row("same")) for each in answers)
    answers[0].result()[:] = 0  # rows are each caller's own
    assert np.allclose(answers[1].result()[0], row("same"))
    batcher.submit(["same"]).result(20)
    assert model.seen[2] == ["same"]


def test_a_request_apart_is_with_the_model_alone():
    model = Model()
    batcher = Batcher(model)
    first = held(batcher, model)
    kinds = [False, False, True, False, True, True, False, False]
    answers = [batcher.submit([str(k)], apart=apart) for k, apart in enumerate(kinds)]
    model.go.set()
    wait([first, *answers], 20)
    assert model.seen[1:] == [["0", "1"], ["2"], ["3"], ["4"], ["5"], ["6", "7"]]
    for k, answer in enumerate(answers):
        np.testing.assert_allclose(answer.result(), [row(str(k))], atol=1e-7)


def test_a_long_list_is_cut_and_lets_others_in():
    model = Model(batch=4)
    service = dp.EmbeddingService.of(model)
    texts = ["x" * (k % 7) + str(k) for k in range(200)]
    done = []
    model.hold()
    long = Thread(target=lambda: done.append(service.encode(texts)))
    long.start()
    assert model.entered.wait(20)
    short = service._batcher.submit(["short"])
    model.go.set()
    np.testing.assert_allclose(short.result(20), [row("short")], atol=1e-7)
    long.join(20)
    np.testing.assert_allclose(done[0], [row(text) for text in texts], atol=1e-7)
    assert max(map(len, model.seen)) <= 4
    (place,) = (k for k, batch in enumerate(model.seen) if "short" in batch)
    assert place < len(model.seen) / 2


def test_an_error_of_all_texts_reaches_every_waiter_of_its_batch_without_text():
    model, batcher, (first, *answers) = busy_worker([f"{CANARY} {k}"] for k in range(8))
    model.fails = ValueError
    model.go.set()
    errors = [each.exception(20) for each in answers]
    assert first.exception(20) is not None  # it was with the model too
    assert all(type(error) is dp.EmbeddingError for error in errors)
    assert len({id(error) for error in errors}) == 8
    for error in errors:
        assert str(error) == "the embedding model failed with ValueError"
        assert error.__cause__ is None
        assert error.__context__ is None
    assert len(model.seen) == 1 + 1 + 8  # together, then each once alone
    model.fails = None
    assert np.allclose(batcher.submit(["later"]).result(20), row("later"))
    assert CANARY not in repr([batcher, *answers])


def test_a_text_that_the_model_refuses_fails_its_own_caller_only():
    class Strict(Model):
        def encode(self, texts):
            found = super().encode(texts)
            "".join(texts).encode()  # no surrogates
            return found

    model = Strict()
    batcher = Batcher(model)
    first = held(batcher, model)
    good = [batcher.submit([f"good {k}", "same"]) for k in range(3)]
    bad = batcher.submit([f"{CANARY} \ud800"])
    good.append(batcher.submit(["good 3", "same"]))
    model.go.set()
    assert str(bad.exception(20)) == "the embedding model failed with UnicodeEncodeError"
    for k, answer in enumerate(good):
        np.testing.assert_allclose(answer.result(20), [row(f"good {k}"), row("same")], atol=1e-7)
    assert first.exception(20) is None
    assert len(model.seen) == 1 + 1 + 5


@pytest.mark.parametrize(
    ("dead", "batch", "calls"),
    [(SystemExit, 1, 1), (KeyboardInterrupt, 1, 1), (TimeoutError, 64, 2)],  # not one by one
)
def test_a_dead_backend_fails_all_waiters_once(dead, batch, calls):
    requests = ([f"{CANARY} {k}"] for k in range(6))
    model, batcher, answers = busy_worker(requests, Model(batch=batch))
    model.fails = dead
    model.go.set()
    for answer in answers:
        assert str(answer.exception(20)) == f"the embedding model failed with {dead.__name__}"
    assert len(model.seen) == calls
    model.fails = None
    assert np.allclose(batcher.submit(["later"]).result(20), row("later"))


def test_a_model_that_cannot_be_loaded_fails_all_and_is_tried_again():
    model = Model(batch=1)
    model.cannot_open = OSError("no such model on the hub")
    service = dp.EmbeddingService.of(model)
    for _ in range(2):
        with pytest.raises(dp.EmbeddingError, match="cannot be loaded: OSError: no such model"):
            service.encode([CANARY, "b"])
    model.cannot_open = None
    assert service.encode(["a"]).shape == (1, 2)
    assert model.opened == 3


@over("wrong", [[[1.0, 2.0]], [1.0, 2.0], [[1.0, np.nan]] * 2, [[1.0], [1.0, 2.0]], None, "x"])
def test_wrong_answers_are_refused(wrong):
    model = Model()
    service = dp.EmbeddingService.of(model)
    model.wrong = wrong if wrong is not None else [[1.0, 2.0, 3.0]] * 2
    if wrong is None:  # of another length than before
        model.wrong = None
        service.warm_up()
        model.wrong = [[1.0, 2.0, 3.0]] * 2
    with pytest.raises(dp.EmbeddingError):
        service.encode([CANARY, "b"])


@pytest.mark.asyncio
async def test_the_event_loop_is_never_blocked():
    model = Model(batch=2)
    service = dp.EmbeddingService.of(model)
    model.hold()
    task = asyncio.create_task(service.aencode([str(k) for k in range(9)]))
    await asyncio.sleep(0.05)  # would not come back
    model.go.set()
    np.testing.assert_allclose(await task, [row(str(k)) for k in range(9)], atol=1e-7)
    assert (await service.aencode([])).shape == (0, 2)


@pytest.mark.asyncio
async def test_a_cancelled_aencode_takes_its_pieces_back():
    model = Model(batch=2)
    service = dp.EmbeddingService.of(model)
    model.hold()
    task = asyncio.create_task(service.aencode([f"{CANARY} {k}" for k in range(20)]))
    assert await asyncio.to_thread(model.entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    model.go.set()
    assert (await service.aencode(["next"])).shape == (1, 2)
    assert sum(CANARY in text for texts in model.seen for text in texts) == 2


@pytest.mark.parametrize("bad", ["a text", [b"bytes"], ["a", None], [["nested"]]])
def test_only_lists_of_texts(bad):
    service = dp.EmbeddingService.of(Model())
    with pytest.raises(dp.ParameterError, match=r"expected (a list of texts|texts of type str)"):
        service.encode(bad)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_has_a_worker_of_its_own(busy):
    model = Model()
    service = dp.EmbeddingService.of(model)
    service.encode(["before"])
    first = held(service._batcher, model) if busy else Future()
    child = os.fork()
    if child == 0:
        model.go.set()
        is_right = np.allclose(service.encode(["in the child"]), row("in the child"))
        is_new = model.opened == (2 if busy else 1)
        os._exit(0 if is_right and is_new else 1)
    _, status = os.waitpid(child, 0)
    model.go.set()
    assert os.waitstatus_to_exitcode(status) == 0
    assert not busy or np.allclose(first.result(20), row("first"))
    assert np.allclose(service.encode(["after"]), row("after"))


EXIT = """
import threading, time
import dp_middleware as dp
class Hangs:
    def encode(self, texts):
        time.sleep({seconds})
        return [[1.0] for _ in texts]
service = dp.EmbeddingService.of(Hangs())
threading.Thread(target=lambda: service.encode(["x"]), daemon=True).start()
time.sleep(0.1)
print("end")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 1000])
def test_the_interpreter_exits_while_the_model_computes(seconds):
    code = EXIT.format(seconds=seconds)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.perf_counter() - started < 80
