"""New settings for a gateway that runs: no request, and no session that stays, notices."""

from __future__ import annotations

import asyncio
import logging
import signal

from dp_middleware.errors import ParameterError
from dp_middleware.gateway.releasing import Sessions
from dp_middleware.gateway.service import Gateway
from dp_middleware.gateway.settings import Settings

_KEPT = "the settings stay as they were: %s"
_FIXED = "expected other policies, rules, clients, limits and models alone; restart for more"
_log = logging.getLogger("dp_middleware.gateway")


def reload_on_signal(gateway: Gateway, file: str) -> None:
    """Reads a file again on every SIGHUP, one time after the other; in the main thread."""
    turn, tasks = asyncio.Lock(), set[asyncio.Task[None]]()

    async def in_turn() -> None:
        async with turn:
            await reload(gateway, file)

    def hear() -> None:
        tasks.add(task := asyncio.create_task(in_turn()))
        task.add_done_callback(tasks.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hear)


async def reload(gateway: Gateway, file: str) -> None:
    """Has the settings of a file from the next request on; where it is broken, those from before.

    That is logged, without any value.
    """
    try:
        settings = await asyncio.to_thread(Settings.read, file)
        if settings.fixed != gateway.settings.fixed:
            raise ParameterError(_FIXED)
    except ParameterError as error:
        _log.error(_KEPT, error)
        return
    try:
        terms = settings, gateway.ledger, gateway.releases, gateway.sessions
        gateway.sessions = await asyncio.to_thread(Sessions, *terms)
    except Exception as error:
        _log.error(_KEPT, type(error).__name__)
        return
    gateway.take(settings)
    _log.info("the settings were read again")
