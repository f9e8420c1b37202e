"""The exact law of whole texts that a contextual mechanism releases, and what one token moves."""

import itertools
from functools import cache

import numpy as np
from support import replay


def worst_loss(mechanism, space, context, texts):
    """The largest loss of a release over one changed token, by every release of each text."""

    @cache
    def row(number, seen):
        return replay.law(mechanism, space, number, np.array([np.frombuffer(seen)]))[0]

    def law(ids):
        found = np.zeros((len(space),) * len(ids))
        raw = context.logits(ids, space) if mechanism.context == "raw" else None
        for release in np.ndindex(found.shape):
            stream = context.start(space)
            for position, output in enumerate(release):
                seen = stream.logits() if raw is None else raw[[position]]
                found[release] += row(ids[position], seen.tobytes())[output]
                stream.append(output)
        return found

    laws, losses = {text: law(text) for text in texts}, []
    for one, other in itertools.combinations(texts, 2):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            possible = np.isfinite(laws[one])
            assert np.array_equal(possible, np.isfinite(laws[other]))
            losses.append(np.abs(laws[one][possible] - laws[other][possible]).max())
    return max(losses)
