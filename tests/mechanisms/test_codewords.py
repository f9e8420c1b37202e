"""What a default codebook may hold: ordinary words, none that shames who releases it."""

from importlib.resources import files

import numpy as np
from support.cases import over

import dp_middleware as dp
from dp_middleware.mechanisms.kernels import chosen, units
from dp_middleware.vocabulary import frequencies

LISTED = (files("better_profanity") / "profanity_wordlist.txt").read_text("utf-8").lower()
SHAMEFUL = {*LISTED.splitlines()} | {"stalin"}
GRIM = {"massacre", "holocaust", "terrorist", "idiot"}  # fine in a sentence, not as one word
BLOCKED = SHAMEFUL | GRIM
FOREIGN = (
    "Mein Führer hat gestern den Arzt angerufen und nach der Rechnung gefragt",
    "Je voudrais parler avec le médecin de ma mère demain matin",
    "Mi hermana vive cerca de la iglesia y trabaja en el hospital",
    "Moja siostra pracuje w szpitalu od dwóch lat",
    "Annem hastanede çalışıyor ve yarın gelecek",
    "明天我要去医院看医生",
    "أمي تعمل في المستشفى",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
)


def test_the_blocked_words_are_many():
    assert len(BLOCKED) > 800
    assert {"hitler", "fuck", "nazi"} <= BLOCKED


def test_units_have_no_blocked_word():
    for unit in units.english():
        assert SHAMEFUL.isdisjoint(unit.lower().replace(",", " ").split()), unit


def test_an_english_vocabulary_offers_ordinary_words():
    vocabulary = dp.default_space().vocabulary
    offered = {vocabulary.tokens[k] for k in np.flatnonzero(frequencies.codewords(vocabulary))}
    assert len(offered) > 10_000
    assert offered.isdisjoint(BLOCKED)
    assert {"hospital", "sister", "monday"} <= offered
    assert offered.isdisjoint({"obama", "merkel", "maria", "london", "don", "mein"})


def test_another_vocabulary_offers_its_whole_words():
    vocabulary = dp.Vocabulary(["haus", "baum", "x"])
    assert frequencies.codewords(vocabulary).tolist() == [True, True, False]


@over("epsilon", chosen.EPSILONS)
def test_a_shipped_codebook_has_no_blocked_word(epsilon):
    space = dp.default_space()
    tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
    assert BLOCKED.isdisjoint(space.vocabulary.tokens[k] for k in tuned.codebook)


@over("text", FOREIGN)
def test_other_languages_come_out_as_ordinary_words(text):
    sanitizer = dp.sanitizer(10)
    vocabulary = sanitizer.space.vocabulary
    allowed = {vocabulary.tokens[k] for k in np.flatnonzero(frequencies.codewords(vocabulary))}
    for _ in range(5):
        assert allowed.issuperset(sanitizer.release(text).text.lower().split())
