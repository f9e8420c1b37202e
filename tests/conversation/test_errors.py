"""What adapters share: the session they are given, and errors that hold no private text."""

import traceback

import numpy as np
import pytest
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import guarded

SPACE = dp.EmbeddingSpace(dp.Vocabulary(["a", "b"]), np.eye(2))
SANITIZER = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), SPACE)


def fails(kind: type[Exception]) -> None:
    try:
        raise KeyError(CANARY)
    except KeyError as error:
        raise kind(CANARY if kind is ValueError else "text-free") from error


def test_a_session_is_used_and_a_sanitizer_gets_one():
    session = dp.Session(SANITIZER)
    assert session_of(session) is session
    assert session_of(SANITIZER).sanitizer is SANITIZER
    with pytest.raises(dp.ParameterError, match=r"a dp.Session or a dp.Sanitizer, got str"):
        session_of("text")


@pytest.mark.parametrize("kind", [ValueError, dp.BudgetExhausted])
def test_a_failure_quotes_nothing(kind):
    with pytest.raises(dp.DPMiddlewareError) as caught:
        guarded(fails, kind, what="the step")
    ours = "text-free" if kind is dp.BudgetExhausted else "the step failed with ValueError"
    assert ours in str(caught.value)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert fails.__name__ not in [frame.name for frame in traceback.extract_tb(caught.tb)]


def test_a_result_is_passed_on():
    assert guarded(max, 1, 2) == 2
