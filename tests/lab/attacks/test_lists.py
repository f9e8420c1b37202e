"""Reading lists of candidates out of what chat models really answer."""

import pytest
from hypothesis import given, strategies as st
from support.cases import over

from dp_middleware.lab.attacks._chat import candidates

WANTED = [["cat", "dog"], ["sat"]]

ANSWERS = {
    "object": '{"1": ["cat", "dog"], "2": ["sat"]}',
    "fenced": 'Sure!\n```json\n{"1": ["cat", "dog"],\n "2": ["sat"]}\n```\nAnything else?',
    "one guess as a string": '{"1": ["cat", "dog"], "2": "sat"}',
    "array of lists": 'Here: [["cat", "dog"], ["sat"]]',
    "array of objects": '[{"1": ["cat", "dog"]}, {"2": ["sat"]}]',
    "other keys and types": '{"1": ["cat", 7, null, " dog "], "x": ["no"], "2": ["sat", ""]}',
    "numbered lines": "1. cat, dog\n2. sat",
    "brackets": "Answer:\n(1) [cat, dog]\n(2) [sat]",
    "bold and quotes": '**1.** "cat", "dog"\n**2.** "sat".',
    "token repeated": "1. car -> cat, dog\n2. set → sat",
    "colons and semicolons": "1: cat; dog\n2: sat",
    "bullets": "- 1) cat / dog\n- 2) sat",
    "cut JSON over lines": '{\n"1": ["cat", "dog"],\n"2": ["sat"],\n"3": ["o',
    "cut JSON": '{"1": ["cat", "dog"], "2": ["sat"], "3": ["o',
    "wrapped": '{"tokens": [["cat", "dog"], ["sat"]]}',
    "beyond the last": '{"1": ["cat", "dog"], "2": ["sat"], "9": ["x"], "0": ["y"], "-1": ["z"]}',
}


@over("answer", ANSWERS.values())
def test_answers_are_read(answer):
    assert candidates(answer, 2) == WANTED


@over(
    "answer",
    [
        "",
        "I cannot help with that.",
        "{}",
        "[]",
        "[[[",
        "{" * 100_000,
        '{"1": {"a": 1}}',
        "9" * 9999 + ". cat",
        '{"' + "9" * 9999 + '": ["cat"]}',
    ],
)
def test_what_is_no_list_is_nothing(answer):
    assert candidates(answer, 2) == [[], []]


def test_a_part_is_taken_where_only_a_part_can_be_read():
    assert candidates("2. sat", 3) == [[], ["sat"], []]


@given(st.text(alphabet='{}[]"1239.,:->abc\n\\ ', max_size=60), st.integers(1, 4))
def test_nothing_breaks_it(answer, count):
    found = candidates(answer, count)
    assert len(found) == count
    assert all(isinstance(text, str) and text for listed in found for text in listed)


@pytest.mark.parametrize(
    ("answer", "count", "expected"),
    [
        ('["a", "b", "c"]', 1, [["a", "b", "c"]]),
        ('["a", "b"]', 2, [["a"], ["b"]]),
        ("1. foo: bar, baz", 1, [["bar", "baz"]]),
    ],
)
def test_a_list_for_one_token_and_a_token_repeated(answer, count, expected):
    assert candidates(answer, count) == expected
