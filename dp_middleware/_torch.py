"""torch, loaded when something is first computed with it: a release whose law is short needs none.

Write ``from dp_middleware._torch import torch`` for ``import torch``.
"""

from __future__ import annotations

import logging  # noqa: F401 - see below
import os
import threading
from typing import TYPE_CHECKING, Any

from dp_middleware.errors import needs

WARMED = ("exp", "log")
"""Functions of float64 tensors that this library calls and MKL computes.

MKL chooses a kernel when such a function is called first. If threads do so at once, one of them may
get another kernel, for that call, of half the digits: rows then do not add up to one
(pytorch/pytorch#188792). So the first calls are made here, by one thread.
"""

_loading = threading.RLock()


class _Later:
    """Reads as the module torch does, whose names it shares once it is loaded."""

    def __getattr__(self, name: str) -> Any:
        """A name of torch that is not in its dictionary, or any name before it is loaded."""
        with _loading:
            with needs("models"):
                import torch as module

            if self.__dict__ is not module.__dict__:
                for warmed in WARMED:
                    getattr(module, warmed)(module.ones(1, dtype=module.float64))
                self.__dict__ = module.__dict__
        return getattr(module, name)


# A child could not go on with what a thread has begun to load. A fork waits for it before it takes
# the lock of logging, which the thread needs: what was registered first waits last.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )

if TYPE_CHECKING:
    import torch as torch
else:
    torch = _Later()
