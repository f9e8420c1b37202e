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


def test_an_english_vocabulary_offers_ordinary_words():
    assert len(BLOCKED) > 800
    assert {"hitler", "fuck", "nazi"} <= BLOCKED
    for unit in units.english():
        assert SHAMEFUL.isdisjoint(unit.lower().replace(",", " ").split()), unit
    other = dp.Vocabulary(["haus", "baum", "x"])  # which offers its whole words
    assert frequencies.codewords(other).tolist() == [True, True, False]
    vocabulary = dp.default_space().vocabulary
    offered = {vocabulary.tokens[k] for k in np.flatnonzero(frequencies.codewords(vocabulary))}
    assert len(offered) > 10_000
    assert offered.isdisjoint(BLOCKED)
    assert {"hospital", "sister", "monday"} <= offered
    assert offered.isdisjoint({"obama", "merkel", "maria", "london", "don", "mein"})


@over("epsilon", chosen.EPSILONS)
def test_a_shipped_codebook_has_ordinary_words_only(epsilon):
    """So that no text, of whatever language, is released as another one."""
    space = dp.default_space()
    tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
    assert BLOCKED.isdisjoint(space.vocabulary.tokens[k] for k in tuned.codebook)
    assert frequencies.codewords(space.vocabulary)[list(tuned.codebook)].all()
