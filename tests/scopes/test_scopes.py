"""What a scope declares public goes out as it is, all else is perturbed, and the frame holds."""

import json
import pickle
import re
import traceback
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware import scopes

HOSTILE = ['"', "\\", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\ud800", "\u2028", '","x":"', "'"]
HOSTILE += ["{", "}", "[", "]", ":", ",", "${x}", "</p>", "0", "12", "007", "null", "w", "é"]


def sanitizer_of(tokens, *, unknown="uniform"):
    vectors = np.random.default_rng(1).normal(size=(len(tokens), 3))
    space = dp.EmbeddingSpace(dp.Vocabulary(tokens, unknown=unknown), vectors)
    return dp.Sanitizer(dp.TokenExponential(epsilon=0.1), space, accept_infinite=True)


SANITIZERS = [sanitizer_of(HOSTILE), sanitizer_of(HOSTILE, unknown="drop")]  # which may be empty


def public(text, scope):
    left, position = [], 0
    for span in sorted(scope(text), key=lambda each: each.start):
        left.append(text[position : span.start])
        position = span.end
    return "\0".join([*left, text[position:]])


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def skeleton(value, leaf):
    if isinstance(value, dict):
        return {key: skeleton(each, leaf) for key, each in value.items()}
    if isinstance(value, list):
        return [skeleton(each, leaf) for each in value]
    return leaf(value)


def shape(value):
    """A private value is a string afterwards, whatever it was."""
    return skeleton(value, lambda each: None if each is None else "value")


@over("sanitizer", SANITIZERS)
@settings(max_examples=80)
@given(value=VALUES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_json_keeps_its_skeleton_whatever_is_released(sanitizer, value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    released = sanitizer.release(text, scope=scopes.json_values).text
    assert shape(json.loads(released)) == shape(value)
    released.encode()  # has a UTF-8 form
    assert "\0" not in released


@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_json_values_are_read_without_their_escapes(value, indent):
    text, leaves = json.dumps(value, indent=indent), []
    skeleton(value, lambda each: leaves.append(each if isinstance(each, str) else json.dumps(each)))
    found = [span.private(text) for span in scopes.json_values(text)]
    told = [[leaf for leaf in some if leaf != "null"] for some in (found, leaves)]  # also a text
    assert told[0] == told[1]


def test_json_only_the_values_under_chosen_keys():
    text = '{"id": 7, "who": {"name": "Ann", "age": [3, true]}, "x": [{"who": "\\u0042ob"}, "y"]}'
    scope = partial(scopes.json_values, keys={"who"})
    found = [span.private(text) for span in scope(text)]
    assert found == ["Ann", "3", "true", "Bob"]
    released = json.loads(SANITIZERS[0].release(text, scope=scope).text)
    assert released["id"] == 7
    assert released["x"][1] == "y"
    assert list(released["who"]) == ["name", "age"]


NO_JSON = ["", "{", '{"a": 1}}', "{'a': 1}", f'{{"{CANARY}": NaN}}', "[1,]", '"a\nb"', "01", "+1"]
NO_JSON += [f"{CANARY}", "[Infinity]", "\ufeff1", "[" * 100_000, '"\\x"', "1 2"]


@over("text", NO_JSON)
def test_what_is_no_json_is_refused_without_a_word_of_it(text):
    release = partial(SANITIZERS[0].release, scope=scopes.json_values)
    for refuses in (scopes.json_values, release):
        with pytest.raises(dp.ParameterError) as caught:
            refuses(text)
        assert CANARY not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_json_a_long_number_is_private_as_it_is_written():
    text = "[" + "9" * 5000 + ", 1e400, -0.5E-7]"
    found = [span.private(text) for span in scopes.json_values(text)]
    assert found == ["9" * 5000, "1e400", "-0.5E-7"]


def test_matches_of_several_patterns():
    scope, text = (
        scopes.matches(r"\d{4,}", re.compile(r"\w+@\w+", re.ASCII)),
        "PIN 12345 of a@b, 12",
    )
    assert public(text, scope) == public(text, pickle.loads(pickle.dumps(scope)))
    assert sanitizer_of(["w"]).release(text, scope=scope).text == "PIN w of w, 12"


@over("patterns", [(), ("(",), (3,)])
def test_matches_refuses_what_is_no_pattern(patterns):
    with pytest.raises(dp.ParameterError, match="expected"):
        scopes.matches(*patterns)


class Detector:
    def __call__(self, text):
        raise RuntimeError(text)


def outside(text):
    return [(0, len(text) + 1)]


SCOPES = [
    (scopes.json_values, "from the scope json_values, it failed with ParameterError"),
    (partial(scopes.json_values, keys={"a"}), "from the scope json_values, it failed with"),
    (Detector(), "the scope Detector, it failed with RuntimeError.*call it on a public text"),
    (outside, "got one outside from the scope outside; count"),
    ([(0, 99)], "got one outside from the scope, a list; count"),
    ([(0, "b")], "from the scope, a list, it failed with TypeError"),
    (lambda _: [dp.Span(0, 4, text="b"), (2, 6)], "got two that do from the scope .*<lambda>"),
]


@over("scope, message", SCOPES)
def test_an_error_of_a_scope_names_it_and_says_what_to_do_without_the_text(scope, message):
    with pytest.raises(dp.ParameterError, match=message) as caught:
        SANITIZERS[0].release(CANARY, scope=scope)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
