"""What a thread wants done in a transaction that it may share with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

import sqlalchemy as sa

from dp_middleware.errors import BudgetExhausted, DPMiddlewareError, LedgerError, ParameterError

T = TypeVar("T")


class Job(Generic[T]):
    """One thread's part of a transaction.

    Args:
        subject: Whose rows it is about; empty: nobody's.
        work: What it does. A refusal is raised before anything was changed.
    """

    def __init__(self, subject: str, work: Callable[[sa.Connection], T]) -> None:
        self.subject, self._work = subject, work
        self.is_done = False
        self._result: T | None = None
        self._error: DPMiddlewareError | None = None

    def run(self, connection: sa.Connection) -> None:
        """Do it; a refusal is for the one who asked, and the others' rows stand."""
        try:
            self._result = self._work(connection)
        except (BudgetExhausted, ParameterError) as error:
            self._error = error

    def end(self, failure: str | None) -> None:
        """The transaction is over; where it failed, so has this, whatever it had found."""
        if failure is not None:
            self._error = LedgerError(failure)
        self.is_done = True

    def outcome(self) -> T:
        """What was returned, or what is raised in the thread that asked."""
        if self._error is not None:
            raise self._error.with_traceback(None)  # of another thread, with its subjects
        return cast(T, self._result)
