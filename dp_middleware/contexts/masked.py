"""BERT-like models: each position predicted from the tokens on both sides of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware._torch import torch
from dp_middleware.contexts.models import Loaded, ModelContext
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_CPU_TOKENS = 4096  # more of them in a pass are not faster
_CUDA_BYTES = 512  # memory of a token in a pass, per hidden unit, generously; a quarter is taken


class MaskedContext(ModelContext):
    """Gives logits of a masked language model; private text goes to the local model only.

    Each position is masked in turn, in the window of tokens around it, which is moved inwards at
    the ends of the text; masked variants are batched. See :class:`ModelContext`; a tokenizer
    without a mask token raises ParameterError at first use.
    """

    _loader: ClassVar[str] = "AutoModelForMaskedLM"

    @property
    def capacity(self) -> int:
        """Counts tokens of a text that fit into one pass beside the special ones."""
        loaded = self.ready()
        left = loaded.window - sum(map(len, _ends(loaded)))
        if left < 1:
            raise ParameterError(f"expected a model of 3 positions or more, got {loaded.window}")
        return left

    @property
    def window(self) -> int:
        """Counts positions that see one token: those less than :attr:`capacity` away."""
        return 2 * self.capacity - 1

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields logits of each position from both sides."""
        tokens = self._fed(ids, space)
        positions = np.arange(len(tokens)) if places is None else places
        length = min(len(tokens), self.capacity)
        starts = _window_starts(len(tokens), length)[positions]
        passed = max(1, self.ready().window - self.capacity + length)
        step = max(1, min(size, self._batch_tokens() // passed))
        for first in range(0, len(starts), step):
            part = slice(first, first + step)
            sequences = tokens[starts[part, None] + np.arange(length)]
            rows, columns = np.arange(len(sequences)), positions[part] - starts[part]
            sequences[rows, columns] = self.ready().tokenizer.mask_token_id
            yield self.scores(sequences, columns, space)

    def start(self, space: EmbeddingSpace) -> MaskedStream:
        """Starts a stream whose logits are those of a mask behind what was released."""
        return MaskedStream(self, space)

    def start_among(self, space: EmbeddingSpace, releases: Ids) -> MaskedStream:
        """Starts one that also sees the public tokens ahead, and masks for what is drawn later."""
        return MaskedStream(self, space, releases)

    def scores(self, sequences: Ids, columns: Ids, space: EmbeddingSpace) -> Floats:
        """Returns logits at a column of each row of model tokens (k, t), float64 (k, V)."""
        loaded = self.ready()
        before, after = (np.tile(end, (len(sequences), 1)) for end in _ends(loaded))
        whole = np.concatenate([before, sequences, after], axis=1).astype(np.int64)
        places = torch.arange(len(whole)), torch.from_numpy(columns + before.shape[1])
        columns_of = torch.from_numpy(self.ids_of(space))
        with loaded.lock, torch.inference_mode():
            found = _at(loaded.network, torch.from_numpy(whole).to(loaded.network.device), places)
            return self.shifted(found[:, columns_of.to(found.device)])

    def _check(self, loaded: Loaded) -> None:
        if loaded.tokenizer.mask_token_id is None:
            raise ParameterError(
                f"expected a masked language model, got {self.model!r}, whose tokenizer has no "
                "mask token; see dp.CausalContext"
            )
        super()._check(loaded)

    def _batch_tokens(self) -> int:
        """Of one pass; at least one variant is passed whatever its length."""
        network = self.ready().network
        if network.device.type != "cuda":
            return _CPU_TOKENS
        free, _ = torch.cuda.mem_get_info(network.device)
        return max(_CPU_TOKENS, free // 4 // (_CUDA_BYTES * int(network.config.hidden_size)))


class MaskedStream:
    """Gives logits of the next position: a mask behind the last released tokens, a pass each.

    Of ``public`` ids, -1 for others, it sees those ahead, with masks for the others between.
    """

    def __init__(
        self, context: MaskedContext, space: EmbeddingSpace, public: ArrayLike = ()
    ) -> None:
        self._context, self._space = context, space
        self._mask = context.ready().tokenizer.mask_token_id
        self._released: list[int] = []
        self._ahead: list[int] = []
        known = np.asarray(public, dtype=np.int64)
        if (known != UNKNOWN).any():
            own = np.where(known != UNKNOWN, context.ids_of(space)[known], self._mask)
            self._ahead = own[: np.flatnonzero(known != UNKNOWN)[-1] + 1].tolist()

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""
        place = len(self._released)
        tokens = np.array([*self._released, self._mask, *self._ahead[place + 1 :]])
        length = min(len(tokens), self._context.capacity)
        start = int(_window_starts(len(tokens), length)[place])
        sequence = tokens[None, start : start + length]
        return self._context.scores(sequence, np.array([place - start]), self._space)

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""
        self._released.append(self._context.id_of(number, self._space))


def _window_starts(size: int, length: int) -> Ids:
    """The first token of the window of each position, which is as near to its middle as it can."""
    starts: Ids = np.arange(size) - (length - 1) // 2
    return np.clip(starts, 0, max(0, size - length))


def _ends(loaded: Loaded) -> list[list[int]]:
    """The special tokens before and after a text, of those that the model has."""
    numbers = (loaded.tokenizer.cls_token_id, loaded.tokenizer.sep_token_id)
    return [[] if number is None else [number] for number in numbers]


def _at(network: Any, inputs: Any, places: tuple[Any, Any]) -> Any:
    """Logits (k, M) at some places, where alone the head runs. The network's lock must be held."""

    def keep(_module: Any, _arguments: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[places][None]
        return output

    body, options = network.base_model, {"attention_mask": torch.ones_like(inputs)}
    if body is network:
        return network(input_ids=inputs, **options, return_dict=True).logits[places]
    hook = body.register_forward_hook(keep)
    try:
        return network(input_ids=inputs, **options, return_dict=True).logits[0]
    finally:
        hook.remove()
