"""Classes of tokens are made of the vocabulary and shipped lists; a small one is no class."""

import string
from collections import Counter

import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.spaces import random_space, space_of

import dp_middleware as dp
from dp_middleware.vocabulary import classes

GROUPS = {
    "month": ["January", " march", "may", "SEPT", "Dec"],
    "weekday": ["monday", " Tue", "Friday", "sunday", "thurs"],
    "number word": ["two", "Seven", " twelve", "million", "ninety"],
    "ordinal": ["first", "2nd", " 33rd", "11TH", "third"],
    "name": ["Maria", " john", "josé", "jose", "Wei"],
    "year": ["1900", "1999", "2000", " 2026", "2099"],
    "number of 1 digit": [*"01234"],
    "number of 3 digits": ["100", "234", " 999", "000", "٣٤٥"],
    "number with a separator": ["3.14", "1,000", "-2.5", "10.000,00", "+1.5"],
    "punctuation": [".", ",", " !", "--", "…"],
    "word": ["a", "the", "naïve", "3d", "x1"],
    "piece: word": ["##ing", "##s", "##maria", "##may", "##x1"],
    "piece: number of 2 digits": ["##10", "##99", "##00", "##42", "##07"],
    "piece: punctuation": ["##.", "##!", "##-", "##,", "##?"],
}
TOKENS = [token for group in GROUPS.values() for token in group]


def test_every_kind_of_token_has_its_class():
    labels = dp.token_classes(dp.Vocabulary(TOKENS))
    found = {}
    for token, label in zip(TOKENS, labels, strict=False):
        found.setdefault(label, []).append(token)
    assert found == GROUPS
    assert labels[len(TOKENS) :] == ("word",)  # an unknown word looks like any other
    assert dp.token_classes(dp.Vocabulary(TOKENS, unknown="drop"))[-1] == "unknown"


@given(tokens=st.lists(st.sampled_from(TOKENS) | st.text(min_size=1), min_size=1, unique=True))
def test_a_class_of_few_tokens_is_no_class(tokens):
    *labels, unknown = dp.token_classes(dp.Vocabulary(tokens))
    assert len(labels) == len(tokens)
    sizes = Counter(labels)
    assert all(sizes[label] >= classes.SMALLEST_CLASS for label in sizes if label != "word")
    assert unknown == "word"


def test_the_lists_are_disjoint_words_in_lower_case():
    words = classes._words()
    assert len(words) > 900
    assert all(word == word.casefold() and word.isalpha() for word in words)
    assert {words[w] for w in ("may", "monday", "ten", "second", "olga")} == set(classes._LISTED)


def test_class_preserving_keeps_every_class():
    space = dp.EmbeddingSpace(
        dp.Vocabulary(TOKENS), random_space(tokens=len(TOKENS), seed=2).vectors
    )
    sanitizer = dp.class_preserving(2.0, space)
    assert 1.9 < sanitizer.certificate.epsilon <= 2.0
    labels = dict(zip(map(str.strip, TOKENS), dp.token_classes(space.vocabulary), strict=False))
    text = "Maria may 1999 3.14 the ##ing never-seen ."
    for _ in range(30):
        released = sanitizer.release(text).text.split()
        for word, other in zip(text.split(), released, strict=True):
            assert labels[other] == labels.get(word, "word")


def test_class_preserving_with_classes_of_ones_own():
    space = random_space(tokens=26, seed=3)
    labels = [letter in "aeiou" for letter in string.ascii_lowercase]
    sanitizer = dp.class_preserving(3.0, space, labels)
    released = sanitizer.release("w0 w4 w1").text.split()
    assert [labels[int(word[1:])] for word in released] == [True, True, False]
    with pytest.raises(dp.ParameterError, match="expected 26 class labels"):
        dp.class_preserving(3.0, space, labels[:-1])


@over("unknown", ["uniform", "split", "drop", "raise"])
@over("labels", ["abcd", "aaab", "aabbc", "aaabc", "aaaba"])
def test_a_token_that_its_class_tells_is_refused(labels, unknown):
    space = space_of(random_space(tokens=4).vectors, unknown=unknown)
    sizes = Counter(labels[:4])
    if all(size > 1 for size in sizes.values()):
        assert dp.class_preserving(3.0, space, labels).certificate.epsilon <= 3.0
        return
    alone = list(sizes.values()).count(1)
    with pytest.raises(dp.ParameterError, match=f"got {alone} with one"):
        dp.class_preserving(3.0, space, labels)


@over("unknown", ["uniform", "split", "drop", "raise"])
def test_a_token_among_the_unknown_ones_is_told_from_none(unknown):
    """Released for itself and for every unknown word, if these are released at all."""
    space = space_of(random_space(tokens=4).vectors, unknown=unknown)
    if unknown in ("drop", "raise"):
        with pytest.raises(dp.ParameterError, match="alone"):
            dp.class_preserving(3.0, space, "aaabb")
        return
    sanitizer = dp.class_preserving(3.0, space, "aaabb")
    assert {sanitizer.release(word).text for word in ("w3", "?") for _ in range(20)} == {"w3"}
