"""GPT-2-like models: each position predicted from the tokens on its left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from dp_middleware.contexts._probes import check_causal
from dp_middleware.contexts.base import Loaded, ModelContext, shifted
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError


class CausalContext(ModelContext):
    """Logits of a causal language model; private text goes to the local model only.

    A text starts with the model's start token (or its end token, as GPT-2 was trained); for a
    model with neither, the first position has logits of zero. When the window is full it moves
    on by half: position i sees the start token and the tokens from s(i) to i - 1, where s(i) is
    0 while they fit and then the smallest multiple of half the capacity with which they fit.
    :meth:`logits` makes one pass per s, a :meth:`start`-ed stream restarts its key-value cache
    where s changes: both see the same tokens.

    Args:
        model: See :class:`ModelContext`; a causal language model.
        device: See :class:`ModelContext`.
        prompt: **Public** text that the model reads before every text, always.

    Raises:
        ParameterError: At first use: see :class:`ModelContext`; or the model sees later tokens,
            or it keeps no key-value cache, or the prompt leaves no room in its window.
    """

    _loader: ClassVar[str] = "AutoModelForCausalLM"

    def __init__(
        self, model: str | Path | tuple[Any, Any], *, device: str = "auto", prompt: str = ""
    ) -> None:
        super().__init__(model, device=device)
        if not isinstance(prompt, str):
            raise ParameterError(f"expected prompt of type str, got {type(prompt).__name__}")
        self.prompt = prompt

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name."""
        return super().parameters | ({"prompt": self.prompt} if self.prompt else {})

    @property
    def capacity(self) -> int:
        """Tokens of a text that fit into one pass behind the start token and the prompt."""
        loaded = self.ready()
        left = loaded.window - len(self.before())
        if left < 1:
            raise ParameterError(
                "expected a model with room for a token behind the start token and the prompt, "
                f"got one of {loaded.window} positions"
            )
        return left

    @property
    def window(self) -> int:
        """Positions that see one token: its own and the next :attr:`capacity` ones."""
        return self.capacity + 1

    def before(self) -> list[int]:
        """The start token, if there is one, and the tokens of the public prompt."""
        loaded = self.ready()
        tokenizer = loaded.tokenizer
        numbers = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        started = [number for number in numbers if number is not None][:1]
        if not self.prompt:
            return started
        with loaded.lock:
            return [*started, *tokenizer(self.prompt, add_special_tokens=False)["input_ids"]]

    def blocks(self, ids: ArrayLike, space: EmbeddingSpace, size: int) -> Iterator[Floats]:
        """Logits of each position from its left, teacher-forced."""
        tokens, before = self._fed(ids, space), self.before()
        positions = np.arange(len(tokens))
        starts = left_starts(positions, self.capacity)
        for start in np.unique(starts):
            inside = positions[starts == start]
            if start + len(before) == 0:  # the first position sees nothing
                yield np.zeros((1, len(space)))
                inside = inside[1:]
            if inside.size:
                seen = np.concatenate([before, tokens[start : inside[-1]]]).astype(np.int64)
                found, _ = self._passed(seen, None)
                places = inside - start + len(before) - 1
                for first in range(0, len(places), size):
                    yield self._chosen(found, places[first : first + size], space)

    def start(self, space: EmbeddingSpace) -> CausalStream:
        """A stream with a key-value cache: one token is passed for each one released."""
        return CausalStream(self, space)

    def scores(
        self, tokens: ArrayLike, places: ArrayLike, space: EmbeddingSpace, cache: Any
    ) -> tuple[Floats, Any]:
        """Logits of what follows some of the tokens, float64 (k, V), and the key-value cache.

        Args:
            tokens: int (t,), model tokens behind those in the cache.
            places: int (k,), in -t .. t - 1.
            space: V tokens.
            cache: From an earlier call, whose tokens come before; ``None``: nothing does.
        """
        found, cache = self._passed(np.asarray(tokens), cache)
        return self._chosen(found, np.asarray(places), space), cache

    def _passed(self, tokens: Ids, cache: Any) -> tuple[Any, Any]:
        """The model's logits (t, M) after each token, and its cache."""
        loaded = self.ready()
        inputs = torch.tensor(tokens, device=loaded.device)[None]
        with loaded.lock, torch.inference_mode():
            known = 0 if cache is None else int(cache.get_seq_length())
            output = loaded.network(
                input_ids=inputs,
                attention_mask=inputs.new_ones((1, known + inputs.shape[1])),
                past_key_values=cache,
                use_cache=True,
                return_dict=True,
            )
            return output.logits[0], output.past_key_values

    def _chosen(self, found: Any, places: Ids, space: EmbeddingSpace) -> Floats:
        rows = torch.from_numpy(places).to(found.device)
        columns = torch.from_numpy(self.ids_of(space)).to(found.device)
        with torch.inference_mode():
            return shifted(found[rows][:, columns])

    def _check(self, loaded: Loaded) -> None:
        """Refuse a model that sees later tokens, or that a stream could not continue."""
        super()._check(loaded)
        check_causal(loaded.network, loaded.window, self.model)
        inputs = torch.zeros((1, 1), dtype=torch.int64, device=loaded.device)
        try:
            with torch.inference_mode():
                output = loaded.network(input_ids=inputs, use_cache=True, return_dict=True)
        except TypeError:  # it knows no caches
            output = None
        if not hasattr(getattr(output, "past_key_values", None), "get_seq_length"):
            raise ParameterError(
                f"expected a model with a key-value cache (past_key_values), got {self.model!r}"
            )


class CausalStream:
    """Logits of the next position from what was released, with a key-value cache."""

    def __init__(self, context: CausalContext, space: EmbeddingSpace) -> None:
        self._context = context
        self._space = space
        self._before = context.before()
        self._released: list[int] = []
        self._start = 0
        self._passed = 0  # released tokens that the cache has seen or left behind
        self._cache: Any = None
        self._row: Floats | None = None

    def logits(self) -> Floats:
        """For the next position, float64 (1, V)."""
        if self._row is not None:
            return self._row.copy()
        start = int(left_starts(np.array(len(self._released)), self._context.capacity))
        if self._cache is None or start != self._start:
            self._cache, self._start = None, start
            tokens = [*self._before, *self._released[start:]]
        else:
            tokens = self._released[self._passed :]
        self._row = np.zeros((1, len(self._space)))
        if tokens:
            self._row, self._cache = self._context.scores(tokens, [-1], self._space, self._cache)
            self._passed = len(self._released)
        return self._row.copy()

    def append(self, number: int) -> None:
        """The id released at the next position, 0 .. V - 1."""
        chosen = self._space.checked([number])
        self._released.append(int(self._context.ids_of(self._space)[chosen][0]))
        self._row = None


def left_starts(positions: Ids, capacity: int) -> Ids:
    """First token that each position sees, so that it sees ``capacity`` tokens at most."""
    stride = max(1, capacity // 2)
    starts: Ids = -((capacity - positions) // stride) * stride  # rounded up
    return np.maximum(starts, 0)
