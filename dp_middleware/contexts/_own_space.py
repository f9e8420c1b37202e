"""A language model's own tokens with its input embeddings as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.model_tokens import vocabulary_of


def own_space(
    name: str, network: Any, tokenizer: Any, size: int | None, device: str
) -> tuple[EmbeddingSpace, Ids]:
    """The space, and the model's id of each of its tokens, int64 (V,).

    Raises:
        ParameterError: A tokenizer of another kind or of fewer tokens, or a model without a row of
            input embeddings for each token.
    """
    vocabulary, numbers = vocabulary_of(name, tokenizer, size)
    ids = np.array(numbers, dtype=np.int64)
    weight = getattr(network.get_input_embeddings(), "weight", None)
    if weight is None or weight.is_meta or len(weight) <= ids.max():
        raise ParameterError("expected a model with a row of input embeddings for each token")
    vectors = weight.detach()[ids.tolist()].double().cpu().numpy()
    return EmbeddingSpace(vocabulary, vectors, device=device), ids
