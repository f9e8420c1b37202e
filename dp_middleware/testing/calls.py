"""Ways of calling: results drained, and all call paths of a LangChain Runnable."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_middleware.testing.probe import Probe

Call = Callable[[Any, "Probe"], Any]
"""From an adapter and the probe to a result; a plain or an ``async def`` function."""


def result_of(call: Call, adapter: Any, probe: Probe) -> Any:
    """What a call gives, waited for and drained.

    A plain function is called outside of any event loop; what it returns is awaited or iterated
    in one if it must be.
    """
    if inspect.iscoroutinefunction(call):
        return asyncio.run(call(adapter, probe))
    found = call(adapter, probe)
    if isinstance(found, Iterator):
        return list(found)
    if inspect.isawaitable(found) or isinstance(found, AsyncIterator):
        return asyncio.run(_drained(found))
    return found


async def _drained(found: Any) -> Any:
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, AsyncIterator):
        return [each async for each in found]
    return list(found) if isinstance(found, Iterator) else found


async def _one(value: Any) -> AsyncIterator[Any]:
    yield value


def runnable_calls(value: Callable[[Probe], Any]) -> Mapping[str, Call]:
    """All call paths of a LangChain Runnable, by name.

    Args:
        value: Makes an input that is a new event every time.
    """
    return {
        "invoke": lambda r, p: r.invoke(value(p), p.config),
        "ainvoke": lambda r, p: r.ainvoke(value(p), p.config),
        "batch": lambda r, p: r.batch([value(p), value(p)], p.config),
        "abatch": lambda r, p: r.abatch([value(p), value(p)], p.config),
        "batch_as_completed": lambda r, p: r.batch_as_completed([value(p), value(p)], p.config),
        "abatch_as_completed": lambda r, p: r.abatch_as_completed([value(p), value(p)], p.config),
        "stream": lambda r, p: r.stream(value(p), p.config),
        "astream": lambda r, p: r.astream(value(p), p.config),
        "transform": lambda r, p: r.transform(iter([value(p)]), p.config),
        "atransform": lambda r, p: r.atransform(_one(value(p)), p.config),
        "astream_events": lambda r, p: r.astream_events(value(p), p.config, version="v2"),
        "astream_events_v1": lambda r, p: r.astream_events(value(p), p.config, version="v1"),
        "astream_log": lambda r, p: r.astream_log(value(p), p.config),
    }
