"""What becomes of objects in a forked child, and in pickles.

Only one thread goes on in a child. The threads that held a lock are gone, so locks are made anew;
torch's own threads are gone, so torch computes with one: it would wait for the others at its first
parallel loop. An object that holds private text does not leave its process in a pickle.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self
from weakref import WeakValueDictionary

renewed: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""By their ids, objects whose ``after_fork()`` makes locks anew in children forked meanwhile."""


def _after_fork() -> None:
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    for instance in list(renewed.values()):
        instance.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class StaysHere:
    """Objects of this class do not leave their process: they cannot be pickled or copied."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"expected {type(self).__name__} to stay in its process: it holds private text"
        )


class LeavesWithout:
    """Objects of this class, which do not change, leave what is private behind when pickled.

    A copy is the object itself.
    """

    _instead: ClassVar[Mapping[str, Any]]
    """Private fields, and what a pickle has in their place."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **self._instead}

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
