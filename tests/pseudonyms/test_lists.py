"""What is named by hand: never replaced, or always."""

import json
import re

import pytest
from support.cases import over
from support.entities import CONTRACT, detector

import dp_middleware as dp
from dp_middleware.errors import ParameterError


def session(**terms):
    return dp.Pseudonyms(detector(), on_empty="pass", **terms).session()


def released(text, **terms):
    return session(**terms).release("1", "user", text).text


@over("what", ["Berlin", "berlin", re.compile("B[a-z]+")])
def test_what_is_allowed_is_never_replaced(what):
    text = released(CONTRACT, allow=[what])
    assert "in Berlin on" in text
    assert "Tamburi" not in text


@over("what", ["SIGNED", re.compile("sign.."), lambda text: [re.search("sig..d", text).span()]])
def test_what_is_named_is_always_replaced_with_its_kind(what):
    text = released(CONTRACT, also={what: "verb"})
    assert "signed" not in text
    assert re.search(r"VERB_\d+", text)


def test_a_part_of_an_entity_may_stay_and_what_is_named_always_wins():
    assert re.search(r"Mirela \w+ of", released(CONTRACT, allow=["Mirela"]))
    assert "Berlin" not in released(CONTRACT, allow=["Berlin"], also=[("Berlin", "city")])


def test_a_number_of_json_or_another_kind_is_replaced_where_it_is_named():
    text = released(json.dumps({"count": 4711}), also={re.compile("4711"): "total"})
    assert re.fullmatch(r'\{"count": "TOTAL_\d+"\}', text)
    text = released("Falcon in Berlin", kinds=["person"], also={"Falcon": "project"})
    assert re.fullmatch(r"PROJECT_\d+ in Berlin", text)


WRONG = [("allow", "Berlin"), ("allow", [""]), ("allow", [3]), ("also", "Berlin")]


@over("name, value", [*WRONG, ("also", ["Berlin"]), ("also", {"": "x"})])
def test_other_things_are_refused_without_a_quote(name, value):
    with pytest.raises(ParameterError) as raised:
        session(**{name: value})
    assert "Berlin" not in str(raised.value)


def test_a_function_that_fails_quotes_nothing():
    def fails(text):
        raise ValueError(text)

    with pytest.raises(ParameterError) as raised:
        released(CONTRACT, also={fails: "x"})
    assert "Mirela" not in str(raised.value) + repr(raised.value.__cause__)
