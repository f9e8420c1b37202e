"""A text in another language than the vocabulary's is told to the caller, and to nobody else."""

import pytest
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.vocabulary import frequencies

GERMAN = "Meine Mutter wohnt seit dem letzten Sommer wieder in unserem alten Haus."
ENGLISH = "My mother has lived in our old house in Hintertupfingen again since last summer."


@pytest.fixture(scope="module")
def sanitizer():
    tokens = [*frequencies.words()[:500]]
    space = dp.EmbeddingSpace(dp.Vocabulary(tokens), random_space(tokens=500).vectors)
    return dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)


def test_the_caller_is_warned_and_what_goes_out_does_not_tell(sanitizer, caplog):
    foreign = sanitizer.release(GERMAN)
    (warning,) = caplog.records
    assert (warning.name, warning.levelname) == ("dp_middleware.sanitizers", "WARNING")
    assert "most words of this text are no English" in caplog.text
    assert "Mutter" not in caplog.text
    caplog.clear()
    assert sanitizer.release(ENGLISH).certificate == foreign.certificate
    assert caplog.records == []


def test_few_words_another_vocabulary_and_sessions_tell_nothing(sanitizer, caplog):
    sanitizer.release("Meine Mutter wohnt wieder hier")
    dp.Sanitizer(dp.TokenExponential(epsilon=2.0), random_space(tokens=20)).release(GERMAN)
    dp.Session(sanitizer).release_once("user", GERMAN)
    assert caplog.records == []
