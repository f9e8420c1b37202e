"""``certify`` says what the library certifies, ``mechanisms`` what it has."""

import json

import pytest
from support.commands import CERTIFICATE, flat, run

import dp_middleware as dp
from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM


def test_certify_agrees_with_the_library(toy):
    options = ("--nominal", "--epsilon", "1", "--epsilon", "4", "--json")
    found = json.loads(run("certify", "token-exponential", *options).stdout)
    assert [each["epsilon_nominal"] for each in found] == [1, 4]
    for each in found:
        mechanism = dp.TokenExponential(epsilon=each["epsilon_nominal"])
        assert each["epsilon"] == dp.certify(mechanism, toy).epsilon
        assert set(each) >= CERTIFICATE | {"epsilon_nominal", "name"}
    exact = json.loads(run("certify", "token-exponential", "-e", "1", "--json").stdout)
    assert 0.99 < exact[0]["epsilon"] <= 1
    assert exact[0]["epsilon_nominal"] > 1


def test_certify_as_a_table():
    infinite = flat(run("certify", "custext", "--nominal", "--epsilon", "1").stdout)
    assert run("certify", "custext").exit_code == 3
    assert "infinite" in infinite
    assert "output" in infinite  # the witness
    within = run("certify", "custext", "--epsilon", "1", "--within-classes")
    assert "public class" in flat(within.stdout)
    assert "infinite" not in within.stdout
    assert "per unit of euclidean distance" in flat(run("certify", "santext").stdout)


def test_a_length_makes_a_raw_context_finite(toy):
    options = ("certify", "cape", "--nominal", "--epsilon", "1", "--json")
    assert json.loads(run(*options).stdout)[0]["epsilon"] == "inf"
    one, two = (json.loads(run(*options, "--length", n).stdout)[0]["epsilon"] for n in ("1", "2"))
    assert two == pytest.approx(2 * one)


def test_lists_of_rantext_are_fitted_to_a_share(toy):
    options = ("--nominal", "--list-size", "0.3", "--json")
    (found,) = json.loads(run("certify", "rantext", *options).stdout)
    assert found["mechanism"] == dp.RanText.with_list_size(toy, epsilon=10.0, size=0.3).fingerprint
    assert "--list-size" in run("certify", "santext", "--list-size", "0.3", code=2).stderr


def test_mechanisms_lists_what_the_library_has():
    rows = json.loads(run("mechanisms", "--json").stdout)
    assert [row["name"] for row in rows] == list(dp.MECHANISMS)
    assert all(row[field] for row in rows for field in row), "a docstring lacks a section"
    assert rows[0]["name"] == DEFAULT_MECHANISM  # as the help of --mechanism says
    table = run("mechanisms").stdout
    assert all(name in table for name in dp.MECHANISMS)
