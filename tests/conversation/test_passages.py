"""Raw documents come back in the places of their released copies, for who released them."""

from __future__ import annotations

import copy
import pickle

import pytest

import dp_middleware as dp


def test_documents_stand_where_their_copies_stood():
    passages = dp.Passages()
    passages.keep(None, "red", "private one")
    passages.keep(None, "red blue", "private two")
    assert passages.restore(None, "By 'red blue', red; reddish.") == (
        "By 'private two', private one; reddish."
    )


def test_a_document_that_quotes_another_copy_is_left_as_it_is():
    passages = dp.Passages()
    passages.keep(None, "red", "she wrote blue")
    passages.keep(None, "blue", "she wrote red")
    assert passages.restore(None, "red, blue") == "she wrote blue, she wrote red"


def test_equal_copies_come_back_together_and_empty_ones_never():
    passages = dp.Passages()
    for released, raw in [("red", "one"), ("red", "two"), (" ", "three"), ("red", "one")]:
        passages.keep(None, released, raw)
    assert passages.restore(None, "red ") == "two\n\none "


def test_a_subject_reads_what_was_released_in_its_own_name():
    passages = dp.Passages()
    passages.keep("ann", "red", "private")
    assert passages.restore("bob", "red") == passages.restore(None, "red") == "red"
    assert passages.restore("ann", "red") == "private"


def test_the_oldest_is_dropped():
    passages = dp.Passages(capacity=2)
    for word in ("red", "blue", "green"):
        passages.keep(None, word, f"private {word}")
    assert passages.restore(None, "red blue green") == "red private blue private green"


def test_it_stays_here_and_shows_nothing():
    passages = dp.Passages(capacity=3)
    passages.keep(None, "red", "private")
    assert repr(passages) == "Passages(capacity=3)"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private text"):
            leave(passages)
    with pytest.raises(dp.ParameterError, match="capacity"):
        dp.Passages(capacity=0)
