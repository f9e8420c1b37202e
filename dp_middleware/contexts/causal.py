"""GPT-2-like models: each position predicted from the tokens on its left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware._torch import torch
from dp_middleware.contexts.models import Loaded, ModelContext, Shift, differ, passed
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError


class CausalContext(ModelContext):
    """Gives logits of a causal language model; private text goes to the local model only.

    A text starts with the model's start token (or its end token, as GPT-2 was trained); for a
    model with neither, the first position has logits of zero. When the window is full it moves on
    by half: position i sees the start token and the tokens from s(i) to i - 1, where s(i) is 0
    while they fit and then the smallest multiple of half the capacity with which they fit. Of the
    output layer only the tokens of the space are computed, where trial passes tell that logits are
    a linear map of hidden states (not so with Gemma 2, which caps them).

    Args:
        model: See :class:`ModelContext`, as for ``device`` and ``shift``.
        prompt: **Public** text that the model reads before every text, always.

    Raises:
        ParameterError: At first use: see :class:`ModelContext`; or the model sees later tokens,
            or keeps no key-value cache, or the prompt leaves no room in its window.
    """

    _loader: ClassVar[str] = "AutoModelForCausalLM"

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        device: str = "auto",
        shift: Shift = "mean",
        prompt: str = "",
    ) -> None:
        super().__init__(model, device=device, shift=shift)
        if not isinstance(prompt, str):
            raise ParameterError(f"expected prompt of type str, got {type(prompt).__name__}")
        self.prompt = prompt
        self._head: Any = None  # if the model's logits are a linear map of its hidden states
        self._short: dict[str, tuple[Any, Any]] = {}

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the public parameters by name."""
        return super().parameters | ({"prompt": self.prompt} if self.prompt else {})

    def reading(self, prompt: str) -> CausalContext:
        """Returns the same model, loaded once, behind another prompt."""
        other = CausalContext(self.model, device=self.device, shift=self.shift, prompt=prompt)
        other._loaded, other._head, other._short = self.ready(), self._head, self._short
        return other

    @property
    def capacity(self) -> int:
        """Counts tokens of a text that fit into one pass behind the start token and the prompt."""
        loaded = self.ready()
        left = loaded.window - len(self.before())
        if left < 1:
            expected = "a model with room for a token behind the start token and the prompt"
            raise ParameterError(f"expected {expected}, got one of {loaded.window} positions")
        return left

    @property
    def window(self) -> int:
        """Counts positions that see one token: its own and the next :attr:`capacity` ones."""
        return self.capacity + 1

    def before(self) -> list[int]:
        """Lists the start token, if there is one, and the tokens of the public prompt."""
        loaded = self.ready()
        read = loaded.tokenizer
        started = [k for k in (read.bos_token_id, read.eos_token_id) if k is not None][:1]
        if not self.prompt:
            return started
        with loaded.lock:
            return [*started, *read(self.prompt, add_special_tokens=False)["input_ids"]]

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields logits of each position from its left, teacher-forced."""
        tokens, before = self._fed(ids, space), self.before()
        positions = np.arange(len(tokens)) if places is None else places
        starts = _left_starts(positions, self.capacity)
        for start in np.unique(starts):
            inside = positions[starts == start]
            if inside[0] + len(before) == 0:  # the first position sees nothing
                yield np.zeros((1, len(space)))
                inside = inside[1:]
            if inside.size:
                seen = np.concatenate([before, tokens[start : inside[-1]]]).astype(np.int64)
                states, _ = self.passed(seen[None], None)
                columns = torch.from_numpy(inside - start + len(before) - 1)
                for first in range(0, len(columns), size):
                    yield self.rows(states[0, columns[first : first + size]], space)

    def start(self, space: EmbeddingSpace) -> CausalStream:
        """Starts a stream with a key-value cache: one token is passed for each one released."""
        return CausalStream(self, space)

    def passed(self, tokens: Ids, cache: Any) -> tuple[Any, Any]:
        """Returns (n, t, d) after the model's tokens, int64 (n, t), for :meth:`rows`, and a cache.

        Hidden states, or logits where those do not suffice; the tokens stand behind the cache's.
        """
        loaded = self.ready()
        network = loaded.network if self._head is None else loaded.network.base_model
        inputs = torch.from_numpy(tokens).to(loaded.network.device)
        with loaded.lock, torch.inference_mode():
            known = 0 if cache is None else int(cache.get_seq_length())
            mask = inputs.new_ones((len(tokens), known + inputs.shape[1]))
            kept = {"past_key_values": cache, "use_cache": True, "return_dict": True}
            output = network(input_ids=inputs, attention_mask=mask, **kept)
        found = output.logits if self._head is None else output.last_hidden_state
        return found, output.past_key_values

    def rows(self, states: Any, space: EmbeddingSpace) -> Floats:
        """Computes logits of the tokens of a space from k of the states, float64 (k, V)."""
        with torch.inference_mode():
            if self._head is None:
                places = torch.from_numpy(self.ids_of(space)).to(states.device)
                return self.shifted(states[:, places])
            return self.shifted(torch.nn.functional.linear(states, *self._outputs(space)))

    def shares(self, states: Any, tokens: Ids, temperature: float) -> Floats:
        """Computes probabilities of some of the model's tokens from k states, float64 (k, m)."""
        with torch.inference_mode():
            logits = states if self._head is None else self._head(states)
            chosen = logits[:, torch.from_numpy(tokens).to(logits.device)]
            return np.asarray(torch.softmax(chosen.double() / temperature, dim=1).cpu().numpy())

    def _outputs(self, space: EmbeddingSpace) -> tuple[Any, Any]:
        """Of the model's output layer what belongs to the space; copied once."""
        head, key = self._head, space.vocabulary.fingerprint
        places = torch.from_numpy(self.ids_of(space)).to(head.weight.device)
        with self.ready().lock, torch.no_grad():
            if key not in self._short:
                bias = None if head.bias is None else head.bias[places]
                self._short[key] = head.weight[places], bias
            return self._short[key]

    def _check(self, loaded: Loaded) -> None:
        """Refuses a model that sees later tokens, or that a stream could not continue."""
        super()._check(loaded)
        network = loaded.network
        for text, varied in ((text, pair[1]) for pair in loaded.trials() for text in pair):
            other = np.append(text[:-1], varied[len(varied) // 2])
            if differ(*(passed(network, ids[None]).logits[0, :-1] for ids in (text, other))):
                raise ParameterError(
                    f"expected a causal model, got {self.model!r}, whose logits depend on later "
                    "tokens; see dp.MaskedContext"
                )
        inputs = torch.zeros((1, 1), dtype=torch.int64, device=network.device)
        with suppress(TypeError), torch.inference_mode():  # raised if it knows no caches
            output = network(input_ids=inputs, use_cache=True, return_dict=True)
            if hasattr(getattr(output, "past_key_values", None), "get_seq_length"):
                self._head = _linear_head(loaded)
                return
        raise ParameterError(
            f"expected a model with a key-value cache (past_key_values), got {self.model!r}"
        )


class CausalStream:
    """Gives logits of the next position, from what was released, with a key-value cache."""

    def __init__(self, context: CausalContext, space: EmbeddingSpace) -> None:
        self._context, self._space = context, space
        self._released = context.before()
        self._before, self._start = len(self._released), 0
        self._passed = 0  # tokens that the cache has seen or left behind
        self._cache = self._last = None

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""
        if not self._released:
            return np.zeros((1, len(self._space)))
        if self._passed < len(self._released):
            self._pass()
        return self._context.rows(self._last, self._space)

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""
        self._released.append(self._context.id_of(number, self._space))

    def _pass(self) -> None:
        """Bring the cache up to what was released; it is a new one if the window moved on."""
        length, before = len(self._released), self._before
        start = int(_left_starts(np.array(length - before), self._context.capacity))
        if start != self._start:
            self._cache, self._start = None, start
        tokens = self._released[self._passed :]
        if self._cache is None:
            tokens = self._released[:before] + self._released[before + start :]
        states, self._cache = self._context.passed(np.array([tokens]), self._cache)
        self._last, self._passed = states[0, -1:].clone(), length


def _left_starts(positions: Ids, capacity: int) -> Ids:
    """The first token that each position sees, so that it sees ``capacity`` at most."""
    stride = max(1, capacity // 2)
    return np.maximum(-((capacity - positions) // stride) * stride, 0)  # rounded up


def _linear_head(loaded: Loaded) -> Any:
    """The linear layer from the base model's hidden states to the network's logits.

    ``None`` if there is none, or if trial passes tell that there is more to it (scales, caps).
    """
    network = loaded.network
    body = getattr(network, "base_model", network)
    head = getattr(network, "get_output_embeddings", lambda: None)()
    texts = [varied[None] for _, varied in loaded.trials()]
    if body is network or type(head) is not torch.nn.Linear or head.weight.is_meta or not texts:
        return None
    for text in texts:
        states = getattr(passed(body, text), "last_hidden_state", None)
        if states is None or states.shape[-1] != head.in_features:
            return None
        with torch.inference_mode():
            found, logits = head(states), passed(network, text).logits
            if found.shape != logits.shape or differ(logits, found):
                return None
    return head
