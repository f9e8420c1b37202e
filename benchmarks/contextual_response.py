"""What ContextualResponse keeps of real texts with a causal language model, and how fast it is.

    python benchmarks/contextual_response.py DATA... --model FOLDER [--texts 40] [--tokens 32]

DATA are files or folders that ``dp-middleware evaluate`` reads, FOLDER a causal model that
``dp.CausalContext`` loads. Texts are cut to so many tokens of the default space. A row per data
set, keep list and epsilon: the share of the perturbed tokens that came out as they were, the cosine
of the default encoder's vectors of raw and released text with its 95 % bootstrap interval, the
same with another text's release (null), the mean epsilon of a whole text, and tokens a second of
processor time, of all texts released together and of the first one alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

import dp_middleware as dp
from dp_middleware.lab.evaluation.data import load

KEEP = {"nothing": dp.KeepPolicy.nothing(), "stop words": dp.KeepPolicy.stop_words()}


def interval(values: np.ndarray) -> str:
    """Mean and a 95 % bootstrap interval."""
    means = np.random.default_rng(0).choice(values, size=(2000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def row(
    texts: list[str],
    policy: dp.KeepPolicy,
    epsilon: float,
    space: dp.EmbeddingSpace,
    context: dp.CausalContext,
    service: dp.EmbeddingService,
) -> str:
    """Release all texts together, and measure."""
    allowed = tuple(np.flatnonzero(~policy.kept_tokens(space)).tolist()) if policy.kept else None
    mechanism = dp.ContextualResponse(epsilon=epsilon, allowed=allowed)
    sanitizer = dp.Sanitizer(mechanism, space, context=context, policy=policy)
    drafts = [sanitizer.read(text) for text in texts]
    sanitizer.release(texts[0])  # loads the model
    _, alone = timed(sanitizer, drafts[:1])
    pairs, speed = timed(sanitizer, drafts)
    same = np.concatenate([(d.outputs == d.ids)[d.perturbed] for _, d in pairs])
    released = service.encode([release.text for release, _ in pairs])
    raw = service.encode(texts)
    cosines = (raw * released).sum(axis=1)
    null = (raw * np.roll(released, 1, axis=0)).sum(axis=1).mean()
    paid = epsilon * np.mean([len(draft.fresh) for draft in drafts])
    kept = f"{np.mean(same):.2f} | {interval(cosines)} | {null:.2f}"
    return f"{kept} | {paid:.0f} | {speed:.0f} | {alone:.0f} |"


def timed(sanitizer: dp.Sanitizer, drafts: list[Any]) -> tuple[list[Any], float]:
    """What is released together, and tokens a second of processor time."""
    started = time.process_time()
    pairs = sanitizer.release_drafts(drafts)
    return pairs, sum(len(draft.ids) for draft in drafts) / (time.process_time() - started)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--keep", choices=list(KEEP), nargs="+", default=list(KEEP))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[6.0, 8.0, 10.0])
    parser.add_argument("--prompt", default="")
    options = parser.parse_args()
    space, service = dp.default_space(), dp.EmbeddingService()
    context = dp.CausalContext(options.model, prompt=options.prompt)
    print(f"{torch.get_num_threads()} threads\n")
    heads = "data | kept list | epsilon | same | cosine | null | epsilon a text | tokens/s | alone"
    print(f"| {heads} |\n|" + "---|" * 9)
    for source in options.data:
        data = load(source, limit=options.texts)
        vocabulary = space.vocabulary
        texts = [vocabulary.decode(vocabulary.encode(t)[: options.tokens]) for t in data.texts]
        for keep in options.keep:
            for epsilon in options.epsilons:
                measured = row(texts, KEEP[keep], epsilon, space, context, service)
                print(f"| {data.name} | {keep} | {epsilon:g} | {measured}", flush=True)


if __name__ == "__main__":
    main()
