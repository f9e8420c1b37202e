"""Public templates: a text is cut where one of them, and no other, can have made it."""

import pytest
from hypothesis import given, strategies as st
from support.cases import over

import dp_middleware as dp
from dp_middleware.conversation.templates import Parts, Template, parts_of

ASK = Template(fixed=("By:\n", "\nanswer ", "\nSay: "))
RULE = Template(fixed=("be brief",), role="system")
TEXT = "By:\na note\nanswer why?\nSay: "
TEXTS = st.text(st.sampled_from("aB:y\n answerSay"), max_size=30)


def test_only_values_are_private():
    parts = parts_of([RULE, ASK, ASK], "user", TEXT)
    assert parts == Parts(("a note", "why?"), ASK.fixed)
    assert parts.joined(iter(["red", "blue"])) == "By:\nred\nanswer blue\nSay: "
    assert "note" not in repr(parts)


OTHERS = ["By:\na note\nanswer why?\nSay:", " By:\na note\nanswer why?\nSay: "]
OTHERS += ["By:\na note, why?\nSay: ", "By:\na\nanswer b\nanswer why?\nSay: ", "By:\nSay: ", ""]


@over("text", OTHERS)
def test_what_was_not_made_by_it_is_private_as_a_whole(text):
    assert parts_of([ASK], "user", text) == Parts((text,))


def test_what_two_could_have_made_is_private_as_a_whole():
    other = Template(fixed=("By:\n", "\nSay: "))
    assert parts_of([ASK, other], "user", TEXT) == Parts((TEXT,))


def test_a_prompt_without_values_is_the_systems():
    assert parts_of([RULE], "system", "be brief") == Parts((), ("be brief",))
    assert parts_of([RULE], "user", "be brief") == Parts(("be brief",))
    assert parts_of([RULE], "system", "be brief!") == Parts(("be brief!",))


@over("fixed", [(), ("Say yes.",), ("", ""), ("a", "", "b")])
def test_templates_that_tell_nothing_apart_are_refused(fixed):
    with pytest.raises(dp.ParameterError, match="template with"):
        Template(fixed=fixed, role="user")


@given(TEXTS, TEXTS)
def test_every_cut_gives_the_text_again(note, question):
    text = f"By:\n{note}\nanswer {question}\nSay: "
    parts = parts_of([ASK], "user", text)
    assert parts.joined(iter(parts.values)) == text
    assert parts.values in [(text,), (note, question)]
