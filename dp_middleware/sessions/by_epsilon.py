"""What is slow to make for an epsilon, made once by one thread at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from dp_middleware import _forks

T = TypeVar("T")

_KEPT = 32


class ByEpsilon(Generic[T]):
    """The latest results of a function of an epsilon.

    Args:
        make: The function. What it raises is raised every time.
    """

    def __init__(self, make: Callable[[float], T]) -> None:
        self._make = make
        self._found: OrderedDict[float, T] = OrderedDict()
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """With a lock that nobody holds."""
        self._lock = Lock()

    def at(self, epsilon: float) -> T:
        """What was made for this epsilon, or is made now."""
        with self._lock:
            if epsilon not in self._found:
                self._found[epsilon] = self._make(epsilon)
            self._found.move_to_end(epsilon)
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)
            return self._found[epsilon]
