"""The walk over all that an object holds: everything once, cycles end, data is left out."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from functools import partial

import pytest

import dp_middleware as dp
from dp_middleware.frameworks import _object_graph
from dp_middleware.frameworks._object_graph import is_foreign, is_own, objects_in


class Part:
    """Something to be found."""


class Slotted:
    __slots__ = ("part",)


def nothing_whole(each):
    return False


def found_in(root):
    return [each for each in objects_in(root, whole=nothing_whole) if type(each) is Part]


def test_every_part_is_given_once():
    part, slotted, ring = Part(), Slotted(), []
    slotted.part = part
    ring += [ring, part]
    for root in (slotted, ring, deque([part]), OrderedDict(a=part), partial(print, part)):
        assert found_in([root, root]) == [part]
    assert found_in(lambda: part) == [part]
    assert not found_in([logging.getLogger(), pytest, "text", 1.0])


def test_what_is_whole_is_not_looked_into():
    root = {"a": [Part()]}
    assert list(objects_in(root, whole=lambda each: isinstance(each, list))) == [root, root["a"]]


def test_an_object_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(_object_graph, "_MOST", 10)
    with pytest.raises(dp.ParameterError, match="at most 10 others"):
        list(objects_in([[k] for k in range(10)], whole=nothing_whole))
    assert list(objects_in([1.5] * 1000, whole=nothing_whole)) == [[1.5] * 1000]


def test_whose_code_an_object_is():
    import socket

    import numpy as np
    import sqlalchemy

    for foreign in (sqlalchemy, sqlalchemy.create_engine, sqlalchemy.MetaData(), socket.SocketType):
        assert is_foreign(foreign) == (not isinstance(foreign, type))
    assert not any(is_foreign(each) for each in (Part(), np.ones(1), {}, nothing_whole, dp))
    assert (is_own(Part()), is_own(np.ones(1)), is_own({})) == (True, False, False)
