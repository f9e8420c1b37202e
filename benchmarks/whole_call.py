"""Tokens per CPU second from text to text, beside the tokenizer alone.

    OMP_NUM_THREADS=1 python benchmarks/whole_call.py [--space NAME ...] [--tokens 60000]

Texts are tokens by their frequency in English. ``tokenizer`` is the bare call of its library, a
text at a time, and the limit one and a half times its time; ``encode`` makes ids, ``decode`` a text
again; ``release`` is a text a call and ``batch`` all texts in one, with cached rows. Each figure is
the best of some rounds that take turns.
"""

from collections.abc import Callable

import numpy as np
import pages
from exact_epsilon import SPACES, mechanism_named, space_named

import dp_middleware as dp
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.bert import WordPieceTokenizer
from dp_middleware.vocabulary.tokenizers import TiktokenTokenizer

MECHANISM, EPSILON, ROUNDS, LENGTHS = "nearest-response", 3.0, 5, (20, 200, 2_000)
HEADS = ("space", "tokens a text", "tokenizer", "limit", "encode", "decode", "release", "batch")


def bare(vocabulary: dp.Vocabulary) -> Callable[[str], object]:
    """The call of the tokenizer's own library."""
    tokenizer = vocabulary.tokenizer
    if isinstance(tokenizer, TiktokenTokenizer):
        return tokenizer._encoding.encode_ordinary
    if not isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.pieces
    fast = tokenizer._tokenizer.encode_batch_fast
    return lambda text: fast([text], add_special_tokens=False)[0].ids


def rates(sanitizer: dp.Sanitizer, tokens: int, length: int) -> dict[str, float]:
    """Tokens per CPU second, by part."""
    vocabulary, rng = sanitizer.space.vocabulary, np.random.default_rng(0)
    weights = frequencies.english(vocabulary)
    weights = weights if weights.any() else np.ones(len(vocabulary))
    drawn = rng.choice(len(vocabulary), (tokens // length, length), p=weights / weights.sum())
    texts = [vocabulary.decode(ids) for ids in drawn]
    encoded = [vocabulary.encode(text) for text in texts]
    total, alone = sum(map(len, encoded)), bare(vocabulary)
    known = [ids[ids >= 0] for ids in encoded]
    sanitizer.release_batch(texts)  # all rows are cached
    parts: dict[str, Callable[[], object]] = {
        "tokenizer": lambda: [alone(text) for text in texts],
        "encode": lambda: [vocabulary.encode(text) for text in texts],
        "decode": lambda: [vocabulary.decode(ids) for ids in known],
        "release": lambda: [sanitizer.release(text) for text in texts],
        "batch": lambda: sanitizer.release_batch(texts),
    }
    best = dict.fromkeys(parts, np.inf)
    for name, part in ROUNDS * [*parts.items()]:
        best[name] = min(best[name], pages.timed(part)[0])
    return {name: total / seconds for name, seconds in best.items()}


if __name__ == "__main__":
    options = pages.options(__doc__, space=[*SPACES], tokens=60_000)
    print(f"{MECHANISM}, nominal {EPSILON:g}, tokens per CPU second\n")
    print(pages.markdown((*HEADS, "release / limit", "batch / limit")))
    for name in options.space:
        space = space_named(name)
        sanitizer = dp.Sanitizer(mechanism_named(MECHANISM, EPSILON, space), space)
        for length in LENGTHS:
            found = rates(sanitizer, options.tokens, length)
            limit = found.pop("tokenizer")
            figures = [f"{rate:,.0f}" for rate in (limit, limit / 1.5, *found.values())]
            shares = [f"{1.5 * found[way] / limit:.2f}" for way in ("release", "batch")]
            print(pages.row((name, f"{length:,}", *figures, *shares)), flush=True)
