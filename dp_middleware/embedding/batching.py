"""One worker that answers the requests of many threads and event loops in common batches."""

from __future__ import annotations

import atexit
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, field
from itertools import chain
from threading import Condition, Lock, Thread, current_thread
from weakref import WeakSet

from dp_middleware import _forks
from dp_middleware._quiet import call_unrecorded
from dp_middleware.embedding.backends import (
    Backend,
    Encode,
    Rows,
    check_rows,
    open_backend,
    wordless,
)
from dp_middleware.errors import EmbeddingError, ParameterError

_IDLE = 10.0  # seconds after which a thread without work ends
_LINGER = 0.002  # seconds: at most so long a batch waits for callers that were just answered
_EXIT = 3.0  # seconds that the interpreter's exit waits for a batch that is with the model


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts, of the type ``str`` itself.

    Raises:
        ParameterError: Not a list of texts.
    """
    if isinstance(texts, str):
        raise ParameterError("expected a list of texts, got one str")
    listed = list(texts)
    for text in listed:
        if not issubclass(type(text), str):
            raise ParameterError(f"expected texts of type str, got {type(text).__name__}")
    # A subclass may compare and hash as it likes, on the thread that all callers share.
    return [text if type(text) is str else str.__str__(text) for text in listed]


@dataclass(frozen=True, eq=False)
class Request:
    """Texts that somebody waits for.

    Attributes:
        texts: What is to be embedded.
        apart: Whether no other request may be with the model at that time.
        answer: Their unit rows, or an error without text.
    """

    texts: list[str]
    apart: bool = False
    answer: Future[Rows] = field(default_factory=Future)


class Batcher:
    """A queue in front of one backend and the thread that empties it.

    Requests that come while a batch is with the model make up the next batch. After a batch the
    worker waits, 2 ms at most, until as many requests are there as it has just answered: a single
    caller never waits. Equal texts of a batch are computed once; nothing is kept of them. Requests
    of a batch that the model fails on are tried once more, each alone, so that only those fail that
    it cannot answer; if it is out of reach (an ``OSError``), all of the batch fail at once.

    A request that is to be apart is a batch of its own: its rows would move with its neighbours by
    rounding.

    A cancelled request is not computed. The thread starts with the first request, ends when there
    has been none for 10 s, and starts again. A forked child has a queue and a thread of its own.

    Attributes:
        backend: Turns texts into vectors.
        width: Dimensions of the vectors, once there were some.
    """

    _thread: Thread | None

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._encode: Encode | None = None
        self._computing = False
        self._start_anew()
        _all.add(self)
        _forks.renewed[id(self)] = self

    def submit(self, texts: list[str], *, apart: bool = False) -> Future[Rows]:
        """Queue 1 to ``backend.batch`` texts; the future will hold their unit rows.

        Rows of a request ``apart`` depend on no other request.

        The future fails with an :class:`EmbeddingError` only, which holds no text.

        Raises:
            EmbeddingError: The interpreter exits, or no thread can be started.
        """
        request = Request(texts, apart)
        with self._more:
            if self._closed:
                raise EmbeddingError("the interpreter exits; nothing is embedded any more")
            if self._thread is None:
                self._thread = self._start_thread()
            self._queue.append(request)
            if len(self._queue) == 1 or self._is_full():
                self._more.notify()
        return request.answer

    def close(self) -> Thread | None:
        """Fail all waiting requests, refuse new ones and let the thread, if there is one, end."""
        with self._more:
            self._closed = True
            waiting, thread = self._take_all(), self._thread
            self._more.notify()
        _fail(waiting, "the interpreter exits")
        return thread

    def after_fork(self) -> None:
        """Begin anew in the child, without the parent's requests.

        A model that the parent was using at that moment may be in any state: open it again.
        """
        if self._computing:
            self._encode, self._computing = None, False
        self._start_anew()

    def _start_anew(self) -> None:
        self._more = Condition(Lock())
        self._queue: deque[Request] = deque()
        self._expected = 1
        self._thread = None
        self._closed = False
        self.width: int | None = None

    def _start_thread(self) -> Thread:
        thread = Thread(target=self._work, name="dp-middleware-embed", daemon=True)
        try:
            thread.start()
        except Exception as error:
            failed = f"no thread can be started to embed texts: {type(error).__name__}"
        else:
            return thread
        raise EmbeddingError(failed)

    def _is_full(self) -> bool:
        return len(self._queue) >= self._expected

    def _take_all(self) -> list[Request]:
        """Everything that waits; call it under the lock."""
        waiting = list(self._queue)
        self._queue.clear()
        return waiting

    def _work(self) -> None:
        batch: list[Request] = []
        try:
            while self._fill(batch):
                self._answer(batch)
                batch.clear()  # an idle thread keeps no text
        except BaseException as error:  # the next request starts another thread
            with self._more:
                self._thread = None
                batch += self._take_all()
            _fail(batch, wordless(error))

    def _fill(self, batch: list[Request]) -> bool:
        """Take the next requests; ``False`` if this thread is to end."""
        with self._more:
            if self._thread is not current_thread():  # its start was interrupted: nobody knows it
                return False
            self._more.wait_for(lambda: self._queue or self._closed, _IDLE)
            if not self._queue:
                self._thread = None
                return False
            self._more.wait_for(lambda: self._is_full() or self._closed, _LINGER)
            room = self.backend.batch
            while self._queue and self._fits(batch, self._queue[0], room):
                request = self._queue.popleft()
                if request.answer.set_running_or_notify_cancel():
                    room -= len(request.texts)
                    batch.append(request)
            self._expected = max(1, len(batch))
            return True

    @staticmethod
    def _fits(batch: list[Request], request: Request, room: int) -> bool:
        if batch and (request.apart or batch[0].apart):
            return False
        return len(request.texts) <= room

    def _answer(self, batch: list[Request]) -> None:
        """Answer requests together; if the model fails on them, try each one alone."""
        parts = deque([list(batch)] if batch else [])
        while parts:
            part = parts.popleft()
            try:
                rows = self._rows_of(part)
            except BaseException as error:  # whatever it is, nobody may wait for ever
                message = wordless(error)
                is_dead = not isinstance(error, Exception) or self._encode is None
                is_away = isinstance(error, OSError)
            else:
                for request, mine in zip(part, rows, strict=True):
                    request.answer.set_result(mine)
                continue
            if is_dead:
                with self._more:
                    parts.append(self._take_all())
            if is_dead or is_away:
                part += chain.from_iterable(parts)
                parts.clear()
            elif len(part) > 1:
                parts.extend([request] for request in part)
                continue
            _fail(part, message)

    def _rows_of(self, requests: list[Request]) -> list[Rows]:
        """The rows of each request; equal texts are computed once."""
        numbers: dict[str, int] = {}
        places = [[numbers.setdefault(t, len(numbers)) for t in r.texts] for r in requests]
        rows = self._rows(list(numbers))
        return [rows[own] for own in places]

    def _rows(self, texts: list[str]) -> Rows:
        self._computing = True
        try:
            if self._encode is None:
                self._encode = open_backend(self.backend)
            vectors = call_unrecorded(Context(), self._encode, texts)
            rows = check_rows(vectors, len(texts), self.width)
        finally:
            self._computing = False
        self.width = rows.shape[1]
        return rows


def _fail(requests: list[Request], message: str) -> None:
    """Fail those that are not answered, each with an error of its own."""
    for answer in [request.answer for request in requests]:
        if answer.done() and not answer.cancelled():
            continue
        if answer.running() or answer.set_running_or_notify_cancel():
            answer.set_exception(EmbeddingError(message))


_all: WeakSet[Batcher] = WeakSet()


def _at_exit() -> None:
    """A thread inside native code must not outlive the interpreter; a hung one is left behind."""
    until = time.monotonic() + _EXIT
    for thread in [batcher.close() for batcher in list(_all)]:
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))


atexit.register(_at_exit)
