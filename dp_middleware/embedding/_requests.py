"""Requests that wait for the model: a bounded queue, and those outside of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from dp_middleware.embedding.backends import Rows
from dp_middleware.errors import ParameterError


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


@dataclass(eq=False)
class Request:
    """Texts that somebody waits for.

    Attributes:
        texts: What is to be embedded.
        answer: Their unit rows, or an error without text.
        entered: When it came, seconds of ``time.perf_counter``.
    """

    texts: list[str]
    answer: Future[Rows] = field(default_factory=Future)
    entered: float = field(default_factory=time.perf_counter)


class Queue:
    """Requests in order of arrival; hold a lock around all calls but those of :meth:`leave`.

    Args:
        capacity: Most texts in the queue; requests beyond that are outside.

    Attributes:
        depth: Texts in the queue.
        outside: Requests that wait for a place in the queue.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._inside: deque[Request] = deque()
        self._left: deque[Request] = deque()
        self.outside: deque[Request] = deque()
        self.depth = 0

    def __len__(self) -> int:
        """Requests in the queue."""
        return len(self._inside)

    def put(self, request: Request) -> None:
        """Add a request at the end."""
        self.clear_places()
        self.outside.append(request)
        self._admit()

    def take(self, room: int, taken: list[Request]) -> None:
        """Move the first requests, of at most ``room`` texts, to ``taken``; these cannot leave."""
        self.clear_places()
        while self._inside and len(self._inside[0].texts) <= room:
            request = self._inside.popleft()
            self.depth -= len(request.texts)
            if request.answer.set_running_or_notify_cancel():
                room -= len(request.texts)
                taken.append(request)
        self._admit()

    def take_all(self) -> list[Request]:
        """Everything that waits, in the queue and outside."""
        waiting = [*self._inside, *self.outside]
        self._inside.clear()
        self.outside.clear()
        self._left.clear()
        self.depth = 0
        return waiting

    def leave(self, request: Request) -> None:
        """Note a cancelled request; the next call of another method frees its place.

        Needs no lock: garbage collection may call it anywhere, also where the lock is held.
        """
        self._left.append(request)

    def clear_places(self) -> None:
        """Free the places of cancelled requests."""
        while self._left:
            request = self._left.popleft()
            if request in self.outside:
                self.outside.remove(request)
            elif request in self._inside:
                self._inside.remove(request)
                self.depth -= len(request.texts)
        self._admit()

    def _admit(self) -> None:
        while self.outside and self.depth + len(self.outside[0].texts) <= self._capacity:
            request = self.outside.popleft()
            self._inside.append(request)
            self.depth += len(request.texts)
