"""The walk over all that an object holds: everything once, cycles end, data is left out."""

from __future__ import annotations

import asyncio
import logging
import sys
import types
import weakref
from collections import OrderedDict, deque
from contextvars import ContextVar
from dataclasses import dataclass, make_dataclass
from enum import Enum
from functools import partial
from http import HTTPStatus
from http.cookies import SimpleCookie
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, RootModel, field_validator

import dp_middleware as dp
from dp_middleware.models import object_graph
from dp_middleware.models.object_graph import objects_in, reachable
from dp_middleware.models.origin import is_data, is_foreign, is_own


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


KEPT = {}


def kept(x):
    KEPT[id(x)] = x
    return x


def executed(part):
    names = {"part": part}
    exec("class Made: held = part", names)
    return names["Made"]()


def with_attribute(name, value):
    return type("Holding", (), {name: value, "__module__": __name__})()


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
    "default of a context variable": lambda part: ContextVar("variable", default=part),
    "weak proxy": lambda part: weakref.proxy(kept(part)),
    "finalizer": lambda part: weakref.finalize(kept(Derived()), print, part),
    "class of types": lambda part: types.new_class("Made", (), {}, lambda x: x.update(a=part))(),
    "class of dataclasses": lambda part: make_dataclass("Made", (), namespace={"a": part})(),
    "executed class": executed,
    "model of anything": lambda part: RootModel[Any](part),
    "dunder of a class": lambda part: with_attribute("__remote__", part),
    "call of a class": lambda part: with_attribute("__call__", partial(print, part)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_wherever_a_part_is_held(holder):
    part = Part()
    assert found_in(HOLDERS[holder](part)) == [part]


def test_surroundings_are_no_parts():
    async def contend():
        lock = asyncio.Lock()
        await lock.acquire()
        waiting = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        lock.release()
        await waiting
        return lock, asyncio.get_running_loop()

    lock, loop = asyncio.run(contend())
    loop.part = Part()
    assert loop in list(objects_in(lock, whole=nothing_whole))
    sys.modules[__name__].PART = Part()
    assert not found_in([lock, vars(sys.modules[__name__]), weakref.proxy(Derived())])


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


class AllEqual(type):
    """Of which no class has a hash."""

    def __eq__(cls, other):
        return True


class Changing(metaclass=AllEqual):
    url = ""


def test_a_class_is_judged_by_what_it_is_now():
    assert is_data(Changing)
    assert found_in([Changing(), part := Part()]) == [part]
    assert reachable(Changing(), lambda x: is_own(x) and is_data(type(x)))
    Changing.ask = nothing_whole
    assert not reachable(Changing(), lambda x: is_own(x) and is_data(type(x)))


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
    made = types.new_class("Made"), make_dataclass("Made", ()), type(executed(None))
    assert all(is_own(kind()) for kind in made)
    assert not any(is_own(each) for each in (nothing_whole, generating(0), lambda: 0, Enum))
    assert not any(is_foreign(each) for each in (HTTPStatus.OK, SimpleCookie()))
