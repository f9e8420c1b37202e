"""Rate, room and size."""

import asyncio

import pytest
from starlette.requests import Request
from support.cases import over

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


def test_a_bucket_of_a_minute_from_which_a_refused_request_takes_nothing():
    now = [0.0]
    gate = Gate(Limits(requests_per_minute=3), clock=lambda: now[0])
    for _ in range(3):
        gate.count("a")
    for now[0], wait in ((0.0, "21"), (15.0, "6")):
        with pytest.raises(Failure) as caught:
            gate.count("a")
        assert (caught.value.status, caught.value.headers["retry-after"]) == (429, wait)
    gate.count("b")
    now[0] = 20.1
    gate.count("a")
    with pytest.raises(Failure):
        gate.count("a")


def test_room():
    gate = Gate(Limits(concurrent=1))
    with gate, pytest.raises(Failure), gate:
        raise AssertionError
    with gate:
        pass


@over(
    "pieces, headers, status",
    [
        ([b"{}"], {"content_type": "text/plain"}, 415),
        ([b"{}"], {"content_encoding": "gzip"}, 415),
        ([b"{}"], {"content_length": "1000000"}, 413),
        ([b"{}"], {"content_length": "-1"}, 413),
        ([b"{", b" " * 500_000, b"}"], {}, 413),
        ([b"[]"], {}, 400),
        ([b"{"], {}, 400),
        ([b'{"a": NaN}'], {}, 400),
        ([b"\xff"], {}, 400),
        ([b'{"a":' + b"[" * 60 + b"]" * 60 + b"}"], {}, 400),
        ([b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"], {}, 400),
    ],
)
def test_bodies_that_are_refused(pieces, headers, status):
    with pytest.raises(Failure) as caught:
        asyncio.run(body_of(request(*pieces, **headers), Limits(body_bytes=400_000)))
    assert caught.value.status == status
    assert caught.value.__context__ is None or status == 413
