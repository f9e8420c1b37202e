"""Where private text becomes released text: one plain function call, in no run of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.runnables import RunnableConfig, ensure_config

from dp_middleware.errors import DPMiddlewareError, ParameterError
from langchain_dp_middleware._messages import released

if TYPE_CHECKING:
    from dp_middleware.sanitizers import Release

USAGE = "the head goes first: PrivateHead(...) | prompt | model"


class Releaser(Protocol):
    """What releases a text: a ``dp.Sanitizer``."""

    def release(self, text: str) -> Release:
        """Perturb a text, or raise an error that does not quote it."""


def cross(session: Releaser, value: Any, keys: tuple[str, ...] | None) -> Any:
    """Charge and draw for every text of one input; see :func:`released`.

    Raises:
        ParameterError: Something in ``value`` cannot be released; nothing was charged.
        DPMiddlewareError: The release failed. Has no cause and no context: these may quote.
    """
    failed: Exception
    try:
        released(value, keys, str)  # refuses what cannot be released before any charge
        return released(value, keys, lambda text: session.release(text).text)
    except DPMiddlewareError as error:
        failed = error
    except Exception as error:  # whatever a ledger or a device raises may quote the text
        kind = type(error).__name__
        failed = DPMiddlewareError(f"the release failed with {kind}; nothing was sent")
    failed.__cause__ = failed.__context__ = None
    raise failed.with_traceback(None)


def refuse_outer_run(config: RunnableConfig) -> None:
    """Raise inside a sequence, graph node, tool or ``@traceable``: these recorded the input.

    Raises:
        ParameterError: There is an outer run, in ``config`` or around the call.
    """
    from langsmith.run_helpers import get_current_run_tree

    managers = (ensure_config(each).get("callbacks") for each in (config, None))
    inside = any(getattr(manager, "parent_run_id", None) is not None for manager in managers)
    if inside or get_current_run_tree() is not None:
        raise ParameterError(f"PrivateHead runs inside another run, which has its input; {USAGE}")
