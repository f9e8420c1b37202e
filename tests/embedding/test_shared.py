"""The shared model: same rows, one call at a time, errors without text."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread

import numpy as np
import pytest
from support.cases import over, refuses
from support.texts import CANARY

import dp_middleware as dp


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
        self.entered.clear()
        self.go.clear()


def test_threads_call_the_model_one_at_a_time_and_get_the_rows_of_their_texts():
    model, busy = Model(seconds=0.001), Lock()
    service, encode = dp.EmbeddingService.of(model), model.encode

    def alone(texts):
        assert busy.acquire(blocking=False)
        try:
            return encode(texts)
        finally:
            busy.release()

    def call(k):
        rows = service.encode([f"{k} of 40", f"{k % 5}"])
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, [row(f"{k} of 40"), row(f"{k % 5}")], atol=1e-7)

    model.encode = alone
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(40)))
    assert [len(texts) for texts in model.seen] == [2] * 40  # nobody's texts beside another's


def test_equal_texts_of_a_batch_are_computed_once_and_not_kept():
    model = Model()
    service = dp.EmbeddingService.of(model)
    rows = service.encode(["same", "other", "same"])
    np.testing.assert_allclose(rows, [row("same"), row("other"), row("same")], atol=1e-7)
    service.encode(["same"])
    assert model.seen == [["other", "same"], ["same"]]


def test_a_long_list_is_cut_and_lets_others_in():
    model = Model(batch=4)
    service = dp.EmbeddingService.of(model)
    texts = ["x" * (k % 7) + str(k) for k in range(200)]
    done = []
    model.hold()
    long = Thread(target=lambda: done.append(service.encode(texts)))
    long.start()
    assert model.entered.wait(20)
    model.seconds = 0.001
    short = Thread(target=lambda: service.encode(["short"]))
    short.start()
    model.go.set()
    for thread in (short, long):
        thread.join(30)
    np.testing.assert_allclose(done[0], [row(text) for text in texts], atol=1e-7)
    assert max(map(len, model.seen)) <= 4
    assert len(model.seen) == 51


@over("error", [ValueError, OSError, TimeoutError, SystemExit])
def test_an_error_holds_no_text_and_the_next_call_is_answered(error):
    model = Model()
    service, model.fails = dp.EmbeddingService.of(model), error
    with pytest.raises(dp.EmbeddingError) as caught:
        service.encode([CANARY])
    assert str(caught.value) == f"the embedding model failed with {error.__name__}"
    assert caught.value.__cause__ is caught.value.__context__ is None
    model.fails = None
    np.testing.assert_allclose(service.encode(["later"]), [row("later")], atol=1e-7)


class Odd(str):
    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        return True

    def __len__(self):
        raise ValueError(CANARY)

    def __str__(self):
        return "another text"


def test_a_subclass_of_str_is_the_text_that_it_holds():
    model = Model()
    service = dp.EmbeddingService.of(model)
    np.testing.assert_allclose(
        service.encode([Odd("odd"), "plain"]), [row("odd"), row("plain")], atol=1e-7
    )
    assert {type(text) for texts in model.seen for text in texts} == {str}


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


@over("wrong", [[[1.0, 2.0]], [1.0, 2.0], [[1.0, np.nan]] * 2, [[1.0], [1.0, 2.0]], "x", "longer"])
def test_wrong_answers_are_refused(wrong):
    model = Model()
    service = dp.EmbeddingService.of(model)
    if wrong == "longer":
        service.encode(["before"])
        wrong = [[1.0, 2.0, 3.0]] * 2
    model.wrong = wrong
    with pytest.raises(dp.EmbeddingError):
        service.encode([CANARY, "b"])
    bad = ("a text", [b"bytes"], ["a", None], [["nested"]])
    refuses(r"expected (a list of )?texts", service.encode, *bad)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_waits_for_no_thread_of_its_parent(busy):
    model = Model()
    service = dp.EmbeddingService.of(model)
    service.encode(["before"])
    first = Thread(target=lambda: service.encode(["first"]))
    if busy:
        model.hold()
        first.start()
        assert model.entered.wait(20)
    child = os.fork()
    if child == 0:
        model.go.set()
        is_right = np.allclose(service.encode(["in the child"]), row("in the child"))
        is_new = model.opened == (2 if busy else 1)
        os._exit(0 if is_right and is_new else 1)
    _, status = os.waitpid(child, 0)
    model.go.set()
    assert os.waitstatus_to_exitcode(status) == 0
    if busy:
        first.join(20)
    assert np.allclose(service.encode(["after"]), row("after"))
