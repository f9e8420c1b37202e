"""GPT-2-like models: each position predicted from the tokens on its left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware._torch import torch
from dp_middleware.contexts.models import Loaded, ModelContext, Shift
from dp_middleware.contexts.trials import differ, trial_logits, trial_passed, trials
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
    Of the output layer only the tokens of the space are computed, where the logits are a linear
    map of the base model's hidden states: trial passes at first use tell. Where they are not (as
    with Gemma 2, which caps them), all are computed.

    Args:
        model: See :class:`ModelContext`; a causal language model.
        device: See :class:`ModelContext`.
        shift: See :class:`ModelContext`.
        prompt: **Public** text that the model reads before every text, always.

    Raises:
        ParameterError: At first use: see :class:`ModelContext`; or the model sees later tokens,
            or it keeps no key-value cache, or the prompt leaves no room in its window.
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

    @property
    def capacity(self) -> int:
        """Counts tokens of a text that fit into one pass behind the start token and the prompt."""
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
        """Counts positions that see one token: its own and the next :attr:`capacity` ones."""
        return self.capacity + 1

    def before(self) -> list[int]:
        """Lists the start token, if there is one, and the tokens of the public prompt."""
        loaded = self.ready()
        tokenizer = loaded.tokenizer
        numbers = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        started = [number for number in numbers if number is not None][:1]
        if not self.prompt:
            return started
        with loaded.lock:
            return [*started, *tokenizer(self.prompt, add_special_tokens=False)["input_ids"]]

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields logits of each position from its left, teacher-forced."""
        tokens, before = self._fed(ids, space), self.before()
        positions = np.arange(len(tokens)) if places is None else places
        starts = left_starts(positions, self.capacity)
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
        """Returns what the model holds after each token of n texts, and its key-value cache.

        ``tokens`` are the model's, int64 (n, t), behind those in the cache. (n, t, d), for
        :meth:`rows`: hidden states, or logits where those do not suffice.
        """
        loaded = self.ready()
        network = loaded.network if self._head is None else loaded.network.base_model
        inputs = torch.from_numpy(tokens).to(loaded.device)
        with loaded.lock, torch.inference_mode():
            known = 0 if cache is None else int(cache.get_seq_length())
            output = network(
                input_ids=inputs,
                attention_mask=inputs.new_ones((len(tokens), known + inputs.shape[1])),
                past_key_values=cache,
                use_cache=True,
                return_dict=True,
            )
        found = output.logits if self._head is None else output.last_hidden_state
        return found, output.past_key_values

    def rows(self, states: Any, space: EmbeddingSpace) -> Floats:
        """Computes logits of the tokens of a space from k of the states, float64 (k, V)."""
        with torch.inference_mode():
            if self._head is None:
                places = torch.from_numpy(self.ids_of(space)).to(states.device)
                return self.shifted(states[:, places])
            return self.shifted(torch.nn.functional.linear(states, *self._outputs(space)))

    def shares(self, states: Any, tokens: Ids) -> Floats:
        """Computes probabilities of some of the model's tokens from k states, float64 (k, m)."""
        with torch.inference_mode():
            logits = states if self._head is None else self._head(states)
            chosen = logits[:, torch.from_numpy(tokens).to(logits.device)]
            return np.asarray(torch.softmax(chosen.double(), dim=1).cpu().numpy())

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
        _check_causal(loaded.network, loaded.window, self.model)
        inputs = torch.zeros((1, 1), dtype=torch.int64, device=loaded.device)
        try:
            with torch.inference_mode():
                output = loaded.network(input_ids=inputs, use_cache=True, return_dict=True)
        except TypeError:  # it knows no caches
            output = None
        cache = getattr(output, "past_key_values", None)
        if not hasattr(cache, "get_seq_length"):
            raise ParameterError(
                f"expected a model with a key-value cache (past_key_values), got {self.model!r}"
            )
        self._head = _linear_head(loaded.network, loaded.window)


class CausalStream:
    """Gives logits of the next position, from what was released, with a key-value cache."""

    def __init__(self, context: CausalContext, space: EmbeddingSpace) -> None:
        self._context, self._space = context, space
        self._released = context.before()
        self._before, self._start = len(self._released), 0
        self._passed = 0  # tokens that the cache has seen or left behind
        self._cache: Any = None
        self._last: Any = None  # state behind the last token

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""
        if not self._released:
            return np.zeros((1, len(self._space)))
        if self._passed < len(self._released):
            self._pass()
        return self._context.rows(self._last, self._space)

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""
        chosen = self._space.checked([number])
        self._released.append(int(self._context.ids_of(self._space)[chosen][0]))

    def _pass(self) -> None:
        """Bring the cache up to what was released; it is a new one if the window moved on."""
        length, before = len(self._released), self._before
        start = int(left_starts(np.array(length - before), self._context.capacity))
        if start != self._start:
            self._cache, self._start = None, start
        tokens = self._released[self._passed :]
        if self._cache is None:
            tokens = self._released[:before] + self._released[before + start :]
        states, self._cache = self._context.passed(np.array([tokens]), self._cache)
        self._last, self._passed = states[0, -1:].clone(), length


def left_starts(positions: Ids, capacity: int) -> Ids:
    """Computes the first token that each position sees, so that it sees ``capacity`` at most."""
    stride = max(1, capacity // 2)
    return np.maximum(-((capacity - positions) // stride) * stride, 0)  # rounded up


def _check_causal(network: Any, window: int, name: str) -> None:
    """Refuses a model whose logits at a position depend on a later token."""
    for steady, varied in trials(network, window):
        for text in (steady, varied):
            other = np.append(text[:-1], varied[len(varied) // 2])
            first, second = (trial_logits(network, ids[None])[0, :-1] for ids in (text, other))
            if differ(first, second):
                raise ParameterError(
                    f"expected a causal model, got {name!r}, whose logits depend on later tokens; "
                    "see dp.MaskedContext"
                )


def _linear_head(network: Any, window: int) -> Any:
    """Returns the linear layer from the base model's hidden states to the network's logits.

    ``None`` if there is none, or if trial passes tell that there is more to it (scales, caps).
    """
    body = getattr(network, "base_model", network)
    head = getattr(network, "get_output_embeddings", lambda: None)()
    if body is network or type(head) is not torch.nn.Linear or head.weight.is_meta:
        return None
    texts = [varied for _, varied in trials(network, window)]
    return head if texts and all(_is_all(network, body, head, text) for text in texts) else None


def _is_all(network: Any, body: Any, head: Any, text: Ids) -> bool:
    """Whether the layer, applied to the body's hidden states, says what the network says."""
    states = getattr(trial_passed(body, text[None]), "last_hidden_state", None)
    if states is None or states.shape[-1] != head.in_features:
        return False
    with torch.inference_mode():
        found, logits = head(states).float(), trial_logits(network, text[None])
        return found.shape == logits.shape and not differ(logits, found)
