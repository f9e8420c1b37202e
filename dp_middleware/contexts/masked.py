"""BERT-like models: each position predicted from the tokens on both sides of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware._torch import torch
from dp_middleware.contexts.models import Loaded, ModelContext, Shift
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_CPU_TOKENS = 4096  # more of them in a pass are not faster
_CUDA_BYTES = 512  # memory of a token in a pass, per hidden unit, generously; a quarter is taken


class MaskedContext(ModelContext):
    """Logits of a masked language model; private text goes to the local model only.

    Each position is masked in turn, and the masked variants are batched. In a text longer than
    the model's window, a position sees the window of tokens around it, moved inwards at the ends
    of the text.

    Args:
        model: See :class:`ModelContext`; a masked language model.
        device: See :class:`ModelContext`.
        shift: See :class:`ModelContext`.
        unmasked: One pass over the text instead of one variant per position: far faster, but the
            model sees the token that it is to predict and favours it. The bound on the privacy
            loss is the same. A text longer than the window is read in windows that overlap by
            half.

    Raises:
        ParameterError: At first use, if the tokenizer has no mask token.
    """

    _loader: ClassVar[str] = "AutoModelForMaskedLM"

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        device: str = "auto",
        shift: Shift = "mean",
        unmasked: bool = False,
    ) -> None:
        super().__init__(model, device=device, shift=shift)
        self.unmasked = unmasked

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the public parameters by name."""
        return {**super().parameters, "unmasked": self.unmasked}

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
        length, owners = min(len(tokens), self.capacity), np.arange(len(positions))
        stride = max(1, self.capacity // 2) if self.unmasked else 1
        starts = window_starts(len(tokens), length, stride)[positions]
        if self.unmasked:
            starts, owners = np.unique(starts, return_inverse=True)
        columns = positions - starts[owners]
        added = self.ready().window - self.capacity
        step = max(1, min(size, self._batch_tokens() // max(1, added + length)))
        for first in range(0, len(starts), step):
            part = slice(*np.searchsorted(owners, [first, first + step]))
            sequences = tokens[starts[first : first + step, None] + np.arange(length)]
            rows = owners[part] - first
            if not self.unmasked:
                sequences[rows, columns[part]] = self.ready().tokenizer.mask_token_id
            for at in range(0, len(rows), size):  # one pass unless windows hold many positions
                some = rows[at : at + size]
                passed = sequences[some[0] : some[-1] + 1]
                yield self.scores(passed, some - some[0], columns[part][at : at + size], space)

    def start(self, space: EmbeddingSpace) -> MaskedStream:
        """Starts a stream whose logits are those of a mask behind what was released."""
        return MaskedStream(self, space)

    def start_among(self, space: EmbeddingSpace, releases: Ids) -> MaskedStream:
        """Starts one that also sees the public tokens ahead, and masks for what is drawn later."""
        return MaskedStream(self, space, releases)

    def scores(self, sequences: Ids, rows: Ids, columns: Ids, space: EmbeddingSpace) -> Floats:
        """Returns logits at k places (rows, columns) of model tokens (b, t), float64 (k, V)."""
        loaded = self.ready()
        before, after = (np.tile(end, (len(sequences), 1)) for end in _ends(loaded))
        whole = np.concatenate([before, sequences, after], axis=1).astype(np.int64)
        places = torch.from_numpy(rows), torch.from_numpy(columns + before.shape[1])
        columns_of = torch.from_numpy(self.ids_of(space))
        with loaded.lock, torch.inference_mode():
            found = _at(loaded.network, torch.from_numpy(whole).to(loaded.device), places)
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
        loaded = self.ready()
        if loaded.device.type != "cuda":
            return _CPU_TOKENS
        free, _ = torch.cuda.mem_get_info(loaded.device)
        bytes_each = _CUDA_BYTES * int(loaded.network.config.hidden_size)
        return max(_CPU_TOKENS, free // 4 // bytes_each)


class MaskedStream:
    """Gives logits of the next position: a mask behind the last released tokens, a pass each.

    ``public`` are ids of the text's public tokens, -1 for others: a position sees those ahead up to
    the last public one, with masks for the others, in a window as in :class:`MaskedContext`.
    """

    def __init__(
        self, context: MaskedContext, space: EmbeddingSpace, public: ArrayLike = ()
    ) -> None:
        self._context = context
        self._space = space
        self._released: list[int] = []
        self._ahead: list[int] = []
        known = np.asarray(public, dtype=np.int64)
        if (known != UNKNOWN).any():
            mask = context.ready().tokenizer.mask_token_id
            own = np.where(known != UNKNOWN, context.ids_of(space)[known], mask)
            self._ahead = own[: np.flatnonzero(known != UNKNOWN)[-1] + 1].tolist()

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""
        place, mask = len(self._released), self._context.ready().tokenizer.mask_token_id
        tokens = np.array([*self._released, mask, *self._ahead[place + 1 :]])
        length = min(len(tokens), self._context.capacity)
        start = int(window_starts(len(tokens), length, 1)[place])
        sequence, where = tokens[None, start : start + length], np.array([place - start])
        return self._context.scores(sequence, np.array([0]), where, self._space)

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""
        chosen = self._space.checked([number])
        self._released.append(int(self._context.ids_of(self._space)[chosen][0]))


def window_starts(size: int, length: int, stride: int) -> Ids:
    """Returns the first token of the window in which each position is predicted, int64 (size,).

    Windows of ``length`` start at multiples of ``stride``, or lower at the end of the text; a
    position lies as near to the middle as that allows.
    """
    margin = max(0, length - stride) // 2
    starts: Ids = (np.arange(size) - margin) // stride * stride
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
