"""What a contextual mechanism releases for texts, one token at a time, by its definition."""

import numpy as np

from dp_middleware.sampling import sampler

FRESH = -1


def replayed(mechanism, space, context, texts, releases, seed):
    """One text after the other, position by position."""
    entropy, drawn = sampler.insecure_entropy(seed), [[] for _ in texts]
    for text, own in enumerate(texts):
        stream = context.start(space)
        for number in releases[text]:
            if number == FRESH:
                row = law(mechanism, space, own[len(drawn[text])], stream.logits())
                number = sampler.tables(row)[0].draw(1, entropy)[0]
                drawn[text].append(number)
            stream.append(int(number))
    return drawn


def law(mechanism, space, token, logits):
    """float64 (1, V), of a token or of the unknown symbol."""
    if token >= 0:
        return mechanism.log_probs([token], space, logits)
    row, outputs = np.full((1, len(space)), -np.inf), mechanism.outputs(space, logits[0])
    row[0, outputs] = -np.log(len(outputs))
    return row


def with_kept(texts, size, seed):
    """Releases of texts among which public tokens stand, also at the start and the end."""
    rng = np.random.default_rng(seed)
    releases = []
    for ids in texts:
        known = rng.integers(0, size, 2 * len(ids) + 2)
        known[rng.permutation(len(known))[: len(ids)]] = FRESH
        releases.append(known)
    return releases
