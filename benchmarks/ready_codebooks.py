"""Make the codebooks that come with the package, and the rows of near codewords with them.

    OMP_NUM_THREADS=1 python benchmarks/ready_codebooks.py [--target FILE]

For the default space and exact epsilon 1 to 12, by the same search as for any other space: five
minutes of one core, in float32, so that it may end elsewhere on another processor. Rows are
integers: whoever has the package draws from the same ones, without torch.
"""

import hashlib

import numpy as np
import pages

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.kernels import chosen, codebook
from dp_middleware.vocabulary import frequencies


def arrays(space: dp.EmbeddingSpace, epsilon: float) -> dict[str, np.ndarray]:
    """The arrays for one epsilon, by name: codewords and k among ordinary words, and rows."""
    words = np.flatnonzero(frequencies.codewords(space.vocabulary))
    origin, weights = chosen.weighted(None, space.vocabulary, epsilon)
    codewords, near = codebook.best_codebook(space, epsilon, weights(), words)
    print(f"epsilon {epsilon:g}: {len(codewords)} codewords, k = {near}", flush=True)
    book = tuple(codewords.tolist())
    options = {"candidates": near, "codebook": book, "nearness": "centred_cosine"}
    mechanism = dp.NearestResponse(epsilon=epsilon, **options)
    asked = hashlib.sha256(words.tobytes()).hexdigest()
    key = (space.fingerprint, repr(epsilon), origin, asked)
    made = {chosen.name_of("codebook", *key): np.array([near, *codewords], dtype=np.uint16)}
    made[chosen.name_of("book", *near_lists.book_key(mechanism, space))] = np.array([near])
    exact = dp.calibrate(mechanism, space, epsilon=epsilon)  # what is drawn from
    for name, array in near_lists.made(exact, space).arrays.items():
        made[chosen.name_of(f"rows-{name}", exact.fingerprint, space.fingerprint)] = array
    return made


if __name__ == "__main__":
    given, made = pages.options(__doc__, target=chosen.FILE), dict[str, np.ndarray]()
    for epsilon in chosen.EPSILONS:
        made |= arrays(dp.default_space(), float(epsilon))
    np.savez_compressed(given.target, **made)
