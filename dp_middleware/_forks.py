"""Locks that begin anew in a forked child, where the threads that held them are gone."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakValueDictionary


class Renewed(Protocol):
    """What has locks."""

    def after_fork(self) -> None:
        """Called in the child, which has one thread: make new locks, and what they protected."""


_all: WeakValueDictionary[int, Renewed] = WeakValueDictionary()


def renew(each: Renewed) -> None:
    """Have an object renewed in every child that is forked while it lives."""
    _all[id(each)] = each


def _after_fork() -> None:
    for each in list(_all.values()):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
