"""What the studies of the papers share: texts as released, spaces, lists of words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from common import Floats
from numpy.typing import NDArray

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers import draft as drafting
from dp_middleware.vocabulary import frequencies

Ids = NDArray[np.int64]


class Released(NamedTuple):
    """Texts of a data set as a mechanism sent them, and the tokens that it drew for."""

    texts: list[str]
    raw: list[Ids]  # tokens that were drawn for, int64 (n,); -1 for an unknown one
    drawn: list[Ids]  # what was drawn for them
    whole: list[Ids]  # all tokens and what was sent for them, kept ones too, int64 (2, m)


def release(
    mechanism: dp.mechanisms.Mechanism,
    space: dp.EmbeddingSpace,
    texts: Sequence[str],
    seed: int = 0,
    *,
    policy: dp.KeepPolicy | None = None,
    context: Context | None = None,
) -> Released:
    """Draw for public texts with the entropy of a seed: no certificate, no privacy."""
    kept = policy or dp.KeepPolicy.nothing()
    drafts = [drafting.read(text, None, space, kept) for text in texts]
    fresh, around = zip(*((d.fresh, d.releases(space.vocabulary)) for d in drafts), strict=True)
    entropy = sampler.insecure_entropy(seed)
    outputs = drawer(mechanism, space, context).draw([*fresh], entropy, [*around])
    drafts = [each.fill(ids) for each, ids in zip(drafts, outputs, strict=True)]
    return Released(
        texts=[each.write(space.vocabulary) for each in drafts],
        raw=[each.ids[each.perturbed] for each in drafts],
        drawn=[each.outputs[each.perturbed] for each in drafts],
        whole=[np.stack([d.ids, np.where(d.perturbed, d.outputs, d.ids)]) for d in drafts],
    )


def beginnings(
    texts: Sequence[str], vocabulary: dp.Vocabulary, tokens: int, generated: int, *, least: int = 1
) -> Iterator[tuple[str, str]]:
    """First tokens and human continuation, of ``least`` tokens, of the texts that have one."""
    for text in texts:
        found = vocabulary.occurrences(text)[: tokens + generated]
        if len(found) >= tokens + least:
            end = found[tokens - 1].end
            yield text[:end].rstrip(), text[end : found[-1].end].strip()


def cosines(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Of the bundled encoder's vectors of each pair of texts, float64 (n,)."""
    one, other = (dp.EmbeddingService().encode(list(texts)) for texts in (first, second))
    return np.einsum("nd,nd->n", one.astype(np.float64), other)


def word_list_space() -> dp.EmbeddingSpace:
    """The 11,000 words of cl100k, as in InferDPT and DYNTEXT; other words are split into them."""
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", unknown="split")
    return dp.EmbeddingService().space(vocabulary)


def frequent_space(size: int) -> dp.EmbeddingSpace:
    """The most frequent WordPieces of English; other words are split into them."""
    whole = dp.Vocabulary.from_encoder()
    shares = frequencies.english(whole)
    single = np.array([len(token.removeprefix("##")) == 1 for token in whole.tokens])
    chosen = np.lexsort((np.arange(len(whole)), -shares, ~single))[:size]
    tokens = [whole.tokens[number] for number in np.sort(chosen)]
    split = dp.Vocabulary(tokens, tokenizer=whole.tokenizer, unknown="split")
    return dp.EmbeddingService().space(split)


def function_words() -> dp.KeepPolicy:
    """NLTK's stop words and the 32 ASCII signs."""
    return dp.KeepPolicy.nltk_stop_words() | dp.KeepPolicy.punctuation()
