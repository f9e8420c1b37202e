"""Sessions on a toy space, and texts for them; for processes of their own, too."""

import numpy as np
from support.spaces import random_space

import dp_middleware as dp

KEY = bytes(range(32))
SPACE = random_space(tokens=40, dimensions=6)
MECHANISM = dp.NearestResponse(epsilon=1.0, candidates=3)
WORDS = SPACE.vocabulary.tokens


def session(ledger=None, mechanism=MECHANISM, **options):
    subject = options.pop("subject", "s") if ledger else None
    return dp.Session(dp.Sanitizer(mechanism, SPACE, ledger=ledger, subject=subject), **options)


def words(count, seed=0):
    return " ".join(np.random.default_rng(seed).choice(WORDS, size=count))
