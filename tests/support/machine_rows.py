"""What a machine computes: run in a process whose settings make it behave like another one.

    python machine_rows.py FILE

Checks that products, distances and rows are the same bits in every batch and with one thread or
two, and writes digests of products and distances, and the integers of every channel and the
masses of codes, to FILE.
"""

import hashlib
import itertools
import sys
from functools import partial

import numpy as np
import torch
from support.gpt2 import letters
from support.spaces import CASES, random_space, space_of
from support.weighted import CODES

import dp_middleware as dp
from dp_middleware.embedding.space import on_host
from dp_middleware.mechanisms.vector_response import Components
from dp_middleware.sampling import sampler

EPSILONS = (1.0, 8.0)
BATCHES = (1, 64)
STARTS = 3  # batches tried of each size
BOTH = ("few dimensions", "lattice")  # more than 128 tokens and fewer
SPACES_OF = {"rantext": BOTH, "rantext-strict": BOTH}
WHOLE = {
    "english keywords": (dp.KeywordCode(), ["syndrome", "superb film", "abetalipoproteinemia"]),
    "english units": (dp.UnitCode(), ["superb, film"]),
}
LINES = ("b", "d c", "b c d", "bc d")


def spaces():
    generator = np.random.default_rng(0)
    wide = generator.normal(size=(260, 384))
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return {
        "few dimensions": random_space(tokens=150, dimensions=5, seed=7),
        "many": space_of(np.float32(unit)),
        "off centre": space_of(generator.normal(size=(300, 65)) * 1e-3 + 7.0),
        "lattice": space_of(np.array([[i % 4, i // 4 % 5, i // 20] for i in range(90)])),
    }


def settled(compute, size):
    """All rows, the same bits whatever is computed beside them.

    Args:
        compute: From ids to rows.
        size: Number V of tokens.
    """
    everyone = np.arange(size)
    torch.set_num_threads(2)
    whole = compute(everyone)
    torch.set_num_threads(1)  # for all that follows: other threads wait where cores are busy
    shuffled = np.random.default_rng(1).permutation(everyone)
    assert np.array_equal(compute(shuffled), whole[shuffled]), "permuted, with one thread"
    for batch in BATCHES:
        for start in range(0, size, batch)[:STARTS]:
            ids = everyone[start : start + batch]
            assert np.array_equal(compute(ids), whole[ids]), f"in batches of {batch}"
    return whole


def digest(rows):
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()


def main(path):
    written = {}
    made = spaces()
    for name, space in made.items():
        for kind in ("distance_rows", "cosine_rows", "centred_cosine_rows"):
            compute = getattr(space, kind)
            rows = settled(lambda ids, compute=compute: on_host(compute(ids)), len(space))
            written[f"{name}/{kind}"] = np.array(digest(rows))
        written[f"{name}/scalars"] = np.array([space.diameter, space.radius, space.resolution])
        written[f"{name}/fingerprint"] = np.array(space.fingerprint)
    for (name, case), epsilon in itertools.product(CASES.items(), EPSILONS):
        for where in SPACES_OF.get(name, ("few dimensions",)):
            space, mechanism = made[where], case(epsilon)
            rows = settled(partial(mechanism.log_probs, space=space), len(space))
            integers = sampler.integer_rows(rows)
            written[f"{name}/{where}/{epsilon}/weights"] = integers.weights.numpy()
            written[f"{name}/{where}/{epsilon}/bits"] = integers.bits.numpy()
    for name, (code, releases) in (CODES | WHOLE).items():
        mechanism = dp.WeightedResponse(epsilon=20.0, code=code)
        masses = [mechanism.fitted.weight(release) for release in releases]
        law = (mechanism.coin, mechanism.fingerprint, dp.certify(mechanism, made["many"]))
        written[f"{name}/code"] = np.array(repr((law, masses)))
    lines = dp.LanguageModelCode(letters(), prompt="b c\nd\n", most=3).fitted(12.0)
    written["lines/masses"] = np.array([float(lines.weight(line)) for line in LINES])
    rows = np.random.default_rng(1).normal(size=(700, 33))
    written["components"] = np.array(Components.of(rows).fingerprint)
    np.savez(path, **written)


if __name__ == "__main__":
    main(sys.argv[1])
