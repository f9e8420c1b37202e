"""Ways of calling: results drained, and all call paths of a LangChain Runnable."""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from functools import partial


def result_of(call, adapter, probe):
    """What a call gives, waited for and drained, also what is in lists, tuples and dicts.

    An ``async def`` function is run in an event loop. A plain one is called outside of any; what
    it returns is awaited or iterated in one if it must be.
    """
    if inspect.iscoroutinefunction(call):
        return asyncio.run(call(adapter, probe))
    return _drained_here(call(adapter, probe))


def _drained_here(found):
    if isinstance(found, Iterator):
        return list(found)
    if isinstance(found, dict):
        return {key: _drained_here(each) for key, each in found.items()}
    if isinstance(found, list | tuple):  # as a message with the stream of its answer
        return [_drained_here(each) for each in found]
    if inspect.isawaitable(found) or isinstance(found, AsyncIterator):
        return asyncio.run(_drained(found))
    return found


async def _drained(found):
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, AsyncIterable):
        return [each async for each in found]
    if isinstance(found, dict):
        return {key: await _drained(each) for key, each in found.items()}
    if isinstance(found, list | tuple):
        return [await _drained(each) for each in found]
    return list(found) if isinstance(found, Iterator) else found


async def _one(value):
    yield value


def _raised(results):
    """What a batch returned, its first error raised."""
    for error in (each for each in results if isinstance(each, BaseException)):
        raise error
    return results


def _first(pieces):
    """The first piece of a stream that is then given up."""
    try:
        return next(pieces)
    finally:
        pieces.close()


async def _afirst(pieces):
    try:
        return await anext(pieces)
    finally:
        await pieces.aclose()


def runnable_calls(value):
    """All call paths of a LangChain Runnable, by name, but those of :func:`typed_event_calls`.

    Args:
        value: From a probe to an input that is a new event every time.
    """
    return {
        "invoke": lambda r, p: r.invoke(value(p), p.config),
        "ainvoke": lambda r, p: r.ainvoke(value(p), p.config),
        "batch": lambda r, p: r.batch([value(p), value(p)], p.config),
        "batch_return_exceptions": lambda r, p: _raised(
            r.batch([value(p), value(p)], p.config, return_exceptions=True)
        ),
        "abatch": lambda r, p: r.abatch([value(p), value(p)], p.config),
        "batch_as_completed": lambda r, p: r.batch_as_completed([value(p), value(p)], p.config),
        "abatch_as_completed": lambda r, p: r.abatch_as_completed([value(p), value(p)], p.config),
        "stream": lambda r, p: r.stream(value(p), p.config),
        "astream": lambda r, p: r.astream(value(p), p.config),
        "stream_abandoned": lambda r, p: _first(r.stream(value(p), p.config)),
        "astream_abandoned": lambda r, p: _afirst(r.astream(value(p), p.config)),
        "transform": lambda r, p: r.transform(iter([value(p)]), p.config),
        "atransform": lambda r, p: r.atransform(_one(value(p)), p.config),
        "astream_events": lambda r, p: r.astream_events(value(p), p.config, version="v2"),
        "astream_events_v1": lambda r, p: r.astream_events(value(p), p.config, version="v1"),
        "astream_log": lambda r, p: r.astream_log(value(p), p.config),
    }


def typed_event_calls(value):
    """As :func:`runnable_calls`: those of typed events, which chat models and agents have."""
    return {
        "stream_events": lambda r, p: list(r.stream_events(value(p), p.config, version="v3")),
        "astream_events_v3": lambda r, p: r.astream_events(value(p), p.config, version="v3"),
    }


def fallback_calls(value):
    """As :func:`runnable_calls`: of what is made of it, with a remote model as a fallback."""

    def call(derive, runnable, probe):
        derived = derive(runnable).with_fallbacks([probe.chat_openai()])
        return derived.invoke(value(probe), probe.config)

    return {name: partial(call, derive) for name, derive in _DERIVED.items()}


_DERIVED = {
    "itself": lambda r: r,
    "bind": lambda r: r.bind(),
    "with_config": lambda r: r.with_config(tags=["t"]),
    "with_types": lambda r: r.with_types(output_type=object),
    "with_listeners": lambda r: r.with_listeners(),
    "with_retry": lambda r: r.with_retry(stop_after_attempt=1),
    "pipe": lambda r: r.pipe(lambda x: x),
    "or": lambda r: r | (lambda x: x),
    "all of them": lambda r: (r.bind().with_config(tags=["t"]) | (lambda x: x)).with_types(),
}
