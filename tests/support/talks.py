"""Sessions on a toy space, and texts for them; for processes of their own, too."""

from typing import Any

import numpy as np
from support.ledgers import Charges
from support.spaces import random_space

import dp_middleware as dp

KEY = bytes(range(32))
SPACE = random_space(tokens=40, dimensions=6)
MECHANISM = dp.NearestResponse(epsilon=1.0, candidates=3)
WORDS = SPACE.vocabulary.tokens


def session(
    ledger: Charges | None = None, mechanism: Any = MECHANISM, **options: Any
) -> dp.Session:
    subject = options.pop("subject", "s") if ledger else None
    return dp.Session(dp.Sanitizer(mechanism, SPACE, ledger=ledger, subject=subject), **options)


def words(count: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, size=count))
