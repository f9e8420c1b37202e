"""An error that may quote private text is withheld: neither cause nor context of ours holds it."""

import traceback

import pytest
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import guarded, withheld


def told(failure: Exception, *kinds: type[Exception]) -> Exception:
    with pytest.raises(Exception, match=r".") as caught, withheld("expected peace, got {}", *kinds):
        raise failure
    return caught.value


@pytest.mark.parametrize("kinds", [(), (LookupError, OSError), (Exception,)])
def test_an_error_that_quotes_is_named_and_not_quoted(kinds):
    error = told(KeyError(CANARY), *kinds)
    assert (type(error), str(error)) == (dp.ParameterError, "expected peace, got KeyError")
    assert error.__cause__ is error.__context__ is None
    assert CANARY not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("kinds", [(), (OSError,)])
def test_ours_and_other_kinds_pass_as_they_are(kinds):
    ours = dp.BudgetExhausted("ours")
    assert told(ours, *kinds) is ours
    assert isinstance(told(KeyError("x"), *kinds), KeyError) == bool(kinds)


def test_ours_are_withheld_where_all_are_asked_for():
    assert str(told(dp.ParameterError(CANARY), Exception)) == "expected peace, got ParameterError"


@pytest.mark.parametrize("kind", [ValueError, dp.BudgetExhausted])
def test_a_failure_of_what_is_guarded_quotes_nothing(kind):
    def fails() -> None:
        try:
            raise KeyError(CANARY)
        except KeyError as error:
            raise kind(CANARY if kind is ValueError else "text-free") from error

    with pytest.raises(dp.DPMiddlewareError) as caught:
        guarded(fails, what="the step")
    ours = "text-free" if kind is dp.BudgetExhausted else "the step failed with ValueError"
    assert ours in str(caught.value)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert fails.__name__ not in [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert guarded(max, 1, 2) == 2


def test_a_missing_extra_names_ways_that_work_without_an_index():
    assert str(dp.MissingExtra("cryptography", "detect")) == (
        "cryptography is not installed; it is in the extra detect of dp-middleware: run pip "
        "install '.[detect]' in a clone, or pip install 'WHEEL[detect]' with the path of its wheel"
    )
