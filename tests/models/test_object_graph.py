"""The walk over all that an object holds: everything once, cycles end, data is left out."""

from __future__ import annotations

import logging
import types
import weakref
from collections import OrderedDict, deque
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest
from pydantic import BaseModel, field_validator

import dp_middleware as dp
from dp_middleware.models import object_graph
from dp_middleware.models.object_graph import (
    is_data,
    is_foreign,
    is_own,
    objects_in,
    reachable,
)


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


def generating(part):
    yield 0
    yield part


def suspended(part):
    generator = generating(part)
    next(generator)
    return generator


def in_context(part):
    variable = ContextVar("variable")
    variable.set(part)
    return variable


def of_metaclass(part):
    meta = type("Meta", (type,), {"part": part})
    return meta("Made", (), {})()


def of_base(part):
    base = type("Base", (), {"part": part, "__module__": __name__})
    return type("Derived", (base,), {"__module__": __name__, "__slots__": ()})()


def of_call(part):
    class Called:
        def __call__(self):
            return part

    return Called()


HOLDERS = {
    "mapping proxy": lambda part: types.MappingProxyType({"a": part}),
    "iterator": lambda part: iter([part]),
    "map": lambda part: map(str, [part]),
    "generator": generating,
    "suspended generator": suspended,
    "weak reference": weakref.ref,
    "context variable": in_context,
    "metaclass": of_metaclass,
    "base class": of_base,
    "closure of a method": of_call,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_wherever_a_part_is_held(holder):
    part = Part()
    assert found_in(HOLDERS[holder](part)) == [part]


def test_what_is_nearest_comes_first_and_what_is_found_hides_what_is_inside():
    far, near = Part(), Part()
    near.part = Part()
    assert reachable([[far], near], lambda each: type(each) is Part) == [near, far]


class Page(NamedTuple):
    url: str


@dataclass(frozen=True, order=True)
class Frozen:
    url: str


@dataclass(slots=True)
class Derived(Part):
    url: str = ""


class Model(BaseModel):
    url: str


class Deeper(Model):
    text: str = ""


class Judging(Model):
    @field_validator("url")
    @classmethod
    def check(cls, url):
        return url


class Calling(Page):
    def __call__(self):
        return self.url


class Deepest(Calling):
    text = ""


class Sending(Part):
    url = property(len)


class Borrowing(Part):
    send = partial(print)


def test_data_has_no_method_of_its_own():
    for kind in (Page, Frozen, Derived, Model, Part, Deeper):
        assert is_data(kind)
    for kind in (Judging, Calling, Sending, Borrowing, Deepest):
        assert not is_data(kind)


def test_what_is_whole_is_not_looked_into():
    root = {"a": [Part()]}
    assert list(objects_in(root, whole=lambda each: isinstance(each, list))) == [root, root["a"]]


def test_an_object_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(object_graph, "_MOST", 10)
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
