"""An error that may quote private text is withheld: neither cause nor context of ours holds it."""

import traceback

import pytest
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import withheld


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


def test_a_missing_extra_names_ways_that_work_without_an_index():
    assert str(dp.MissingExtra("cryptography", "detect")) == (
        "cryptography is not installed; it is in the extra detect of dp-middleware: run pip "
        "install '.[detect]' in a clone, or pip install 'WHEEL[detect]' with the path of its wheel"
    )
