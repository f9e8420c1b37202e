"""Rate, room and size."""

import json

import pytest
from starlette.requests import Request

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.fields import body_of
from dp_middleware.gateway.service import Gate
from dp_middleware.gateway.settings import Limits


def request(*pieces, **headers):
    given = {"content_type": "application/json", **headers}
    left = list(pieces)

    async def receive():
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    named = [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()]
    return Request({"type": "http", "headers": named, "method": "POST"}, receive)


def test_a_bucket_of_a_minute():
    now = [0.0]
    gate = Gate(Limits(requests_per_minute=3), clock=lambda: now[0])
    for _ in range(3):
        gate.count("a")
    with pytest.raises(Failure) as caught:
        gate.count("a")
    assert (caught.value.status, caught.value.headers["retry-after"]) == (429, "21")
    gate.count("b")
    now[0] = 20.1
    gate.count("a")
    with pytest.raises(Failure):
        gate.count("a")


def test_a_refused_request_takes_nothing_from_the_bucket():
    now = [0.0]
    gate = Gate(Limits(requests_per_minute=1), clock=lambda: now[0])
    gate.count("a")
    for now[0] in (20.0, 40.0, 59.0):
        with pytest.raises(Failure):
            gate.count("a")
    now[0] = 60.1
    gate.count("a")


@pytest.mark.asyncio
async def test_room():
    gate = Gate(Limits(concurrent=1))
    with gate, pytest.raises(Failure), gate:
        raise AssertionError
    with gate:
        pass


@pytest.mark.parametrize(
    ("pieces", "headers", "status"),
    [
        ([b"{}"], {"content_type": "text/plain"}, 415),
        ([b"{}"], {"content_encoding": "gzip"}, 415),
        ([b"{}"], {"content_length": "1000"}, 413),
        ([b"{}"], {"content_length": "-1"}, 413),
        ([b"{", b" " * 100, b"}"], {}, 413),
        ([b"[]"], {}, 400),
        ([b"{"], {}, 400),
        ([b'{"a": NaN}'], {}, 400),
        ([b"\xff"], {}, 400),
        ([b'{"a":' * 5 + b"1" + b"}" * 5], {"deep": "1"}, 0),
    ],
)
@pytest.mark.asyncio
async def test_bodies_that_are_refused(pieces, headers, status):
    limits = Limits(body_bytes=50)
    if not status:
        await body_of(request(*pieces, **headers), limits)
        return
    with pytest.raises(Failure) as caught:
        await body_of(request(*pieces, **headers), limits)
    assert caught.value.status == status
    assert caught.value.__context__ is None or status in (408, 413)


@pytest.mark.asyncio
async def test_a_deep_body_is_refused():
    deep = json.loads("[" * 60 + "]" * 60)
    with pytest.raises(Failure):
        await body_of(request(json.dumps({"a": deep}).encode()), Limits())
    with pytest.raises(Failure):
        await body_of(request(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), Limits())
