"""What a context is, and those of language models: loading, locks, trials, the id of each token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.contexts._vocabulary_map import model_ids, unknown_id
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import ParameterError, needs
from dp_middleware.vocabulary.model_tokens import vocabulary_of
from dp_middleware.vocabulary.vocabulary import UNKNOWN


class Context(ABC):
    """Turns the other tokens of a text into logits over the tokens of a space."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Counts positions, its own included, that one token can influence through raw logits."""

    @abstractmethod
    def logits(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Returns what raw ids, int (n,), -1 if unknown, say of each position, float64 (n, V)."""

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields rows of :meth:`logits`, at most ``size`` at a time; ``places`` ascend, or all."""
        rows = self.logits(ids, space)
        rows = rows if places is None else rows[places]
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    @abstractmethod
    def start(self, space: EmbeddingSpace) -> Stream:
        """Starts a stream for one text, of which nothing has been released yet."""

    def start_among(self, space: EmbeddingSpace, releases: Ids) -> Stream:
        """Starts one that may look ahead at public tokens: int64 (m,), -1 for those to be drawn."""
        return self.start(space)

    def logit_bound(self, texts: Sequence[str], space: EmbeddingSpace) -> float:
        """Finds CAPE's bound, the largest logit over **public** texts; ParameterError: none > 0."""
        if isinstance(texts, str):
            raise ParameterError("expected a sequence of public texts, got one string")
        encoded = [space.vocabulary.encode(text) for text in texts]
        rows = (part for ids in encoded for part in self.blocks(ids, space, BLOCK))
        largest = max((part.max() for part in rows), default=0.0)
        if not largest > 0:
            raise ParameterError("expected public texts with a logit above zero; pass more text")
        return float(largest)


class Stream(Protocol):
    """Gives logits position by position, from what was released to the left; sees nothing else."""

    def logits(self) -> Floats:
        """Returns those for the next position, float64 (1, V)."""

    def append(self, number: int) -> None:
        """Takes the id released at the next position, 0 .. V - 1."""


Shift = Literal["mean", "none"]

_WINDOW = 512  # of a model that does not say
_UNLIMITED = 10**6  # what tokenizers say when they do not know

_LOCKS: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()  # by network: contexts may share one
_LOCKS_LOCK = Lock()


_LENGTHS = (2, 32)  # tokens of a trial pass; one token weighs most in a short text
_TRIALS = 2
_TOLERANCE = 1e-5  # of the largest logit; passes of one shape differ by less


@dataclass(frozen=True)
class Loaded:
    """Holds a language model in memory with its tokenizer."""

    network: Any
    tokenizer: Any

    @property
    def lock(self) -> RLock:
        """Returns what is held while the network or its tokenizer works; one for each network."""
        with _LOCKS_LOCK:
            return _LOCKS.setdefault(self.network, RLock())

    @cached_property
    def window(self) -> int:
        """Counts tokens, special ones included, that one pass takes."""
        positions = getattr(self.network.config, "max_position_embeddings", None) or 0
        for name, module in self.network.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                positions -= padding + 1  # RoBERTa and its kin count from behind the padding id
                break
        limits = (getattr(self.tokenizer, "model_max_length", None) or 0, positions)
        return min((int(limit) for limit in limits if 0 < limit < _UNLIMITED), default=_WINDOW)

    def trials(self) -> list[tuple[Ids, Ids]]:
        """Pairs a public text of one token with one of many, of equal length."""
        rng, size = np.random.default_rng(0), int(self.network.config.vocab_size)
        lengths = _TRIALS * sorted({min(length, self.window) for length in _LENGTHS} - {0, 1})
        return [(np.full(n, rng.integers(size)), rng.integers(size, size=n)) for n in lengths]


def passed(network: Any, ids: Ids) -> Any:
    """Passes texts of one length, int64 (n, T), through a network."""
    with torch.inference_mode():
        inputs = torch.from_numpy(ids).to(network.device)
        mask = torch.ones_like(inputs)
        return network(input_ids=inputs, attention_mask=mask, return_dict=True)


def differ(first: Any, second: Any) -> bool:
    """Tells whether logits differ, also where either is not finite."""
    first, second = first.float(), second.float()
    return not float((first - second).abs().max()) <= _TOLERANCE * float(first.abs().max())


class ModelContext(Context):
    """Makes a context of a language model of the ``transformers`` library.

    Loaded at first use, in float32. No text passes through the model's own tokenizer: each token
    of the public vocabulary is fed as one of the model's, see :func:`model_ids`, an unknown one as
    its unknown (or mask) token. Passes over one network are made one after another.

    Args:
        model: Name or folder, or a loaded (model, tokenizer) pair, which is used as it is and
            computes each text of a batch by itself, unlike after dynamic quantisation; such a
            context cannot be pickled.
        device: ``"cpu"``, ``"cuda"``, ... or ``"auto"``: CUDA if there is one, and a loaded model
            stays where it is.
        shift: What is subtracted from the logits of a position, which are defined up to a constant:
            their ``"mean"`` over the space, or ``"none"``, for a mechanism that takes them as they
            are. A row moves by a function of itself alone: this costs no privacy.

    Raises:
        ParameterError: At first use: the model cannot be loaded, or mixes the texts of a batch.
    """

    _loader: ClassVar[str]

    def __init__(
        self, model: str | Path | tuple[Any, Any], *, device: str = "auto", shift: Shift = "mean"
    ) -> None:
        _validate.one_of(("mean", "none"), shift=shift)
        self.device, self.shift = device, shift
        self._lock = RLock()
        self._maps: dict[str, Ids] = {}
        self._loaded: Loaded | None = None
        self._given: Loaded | None = None
        self.model = type(model[0]).__name__ if isinstance(model, tuple) else str(model)
        if isinstance(model, tuple):
            network, tokenizer = model
            moved = network if device == "auto" else network.to(device)
            self._given = Loaded(moved.eval(), tokenizer)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None:
            raise ParameterError(
                "expected a context made from a name or folder, got one made from a loaded "
                "model; save the model to a folder to pickle the context"
            )
        return partial(type(self), **self.parameters), ()

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the public parameters by name."""
        own = {} if self.shift == "mean" else {"shift": self.shift}
        return {"model": self.model, "device": self.device, **own}

    def logits(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Returns what the raw tokens of one text say of each position, float64 (n, V)."""
        parts = self.blocks(ids, space, max(1, np.size(ids)))
        return np.concatenate([np.empty((0, len(space))), *parts])

    @abstractmethod
    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields rows of :meth:`logits`; those of the whole text are never held at once."""

    def ready(self) -> Loaded:
        """Returns the model, loaded and checked if it is not yet."""
        with self._lock:
            if self._loaded is None:
                loaded = self._given or self._load()
                with loaded.lock:
                    self._check(loaded)
                self._loaded = loaded
            return self._loaded

    def _load(self) -> Loaded:
        with needs("models"):
            import transformers

        auto = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            loader = getattr(transformers, self._loader)
            network = loader.from_pretrained(self.model, dtype=torch.float32)
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.model)
        except (OSError, ValueError) as error:
            raise ParameterError(
                f"expected a folder or the name of a model that {self._loader} loads, got another"
            ) from error
        network = network.to(auto if self.device == "auto" else self.device)
        return Loaded(network.eval(), tokenizer)

    def _check(self, loaded: Loaded) -> None:
        """Refuses a model that mixes texts: one is passed beside itself and beside a varied one."""
        for steady, varied in loaded.trials():
            pairs = (np.stack([steady, other]) for other in (steady, varied))
            if differ(*(passed(loaded.network, ids).logits[0] for ids in pairs)):
                raise ParameterError(
                    f"expected a model that computes each sequence independently, got "
                    f"{self.model!r}, whose logits depend on the whole batch, as of dynamically "
                    "quantised models: use it in floating point"
                )

    def ids_of(self, space: EmbeddingSpace) -> Ids:
        """Finds the model's id for each token of the space, int64 (V,); computed once."""
        loaded, key = self.ready(), space.vocabulary.fingerprint
        with loaded.lock:
            if key not in self._maps:
                self._maps[key] = model_ids(space.vocabulary, loaded.tokenizer)
            return self._maps[key]

    def space(self, size: int | None = None) -> EmbeddingSpace:
        """Makes a space of the model's own tokens, with its input embeddings, as CAPE has it.

        See :func:`vocabulary_of`; ParameterError also: no row of input embeddings for each.
        """
        loaded = self.ready()
        with loaded.lock:
            vocabulary, numbers = vocabulary_of(self.model, loaded.tokenizer, size)
            ids = np.array(numbers, dtype=np.int64)
            weight = getattr(loaded.network.get_input_embeddings(), "weight", None)
            if weight is None or weight.is_meta or len(weight) <= ids.max():
                raise ParameterError("expected a row of input embeddings for each token")
            vectors = weight.detach()[numbers].double().cpu().numpy()
            space = EmbeddingSpace(vocabulary, vectors, device=self.device)
            self._maps[space.vocabulary.fingerprint] = ids
        return space

    def shifted(self, logits: Any) -> Floats:
        """Subtracts what :attr:`shift` says from a model's logits (k, V), float64 (k, V)."""
        rows: Floats = logits.double().cpu().numpy()
        if self.shift == "mean":
            rows -= rows.mean(axis=1, keepdims=True)
        return rows

    def id_of(self, number: int, space: EmbeddingSpace) -> int:
        """Finds the model's id for one token of the space, 0 .. V - 1; ParameterError: another."""
        return int(self.ids_of(space)[space.checked([number])][0])

    def _fed(self, ids: ArrayLike, space: EmbeddingSpace) -> Ids:
        """What the model is fed for the ids of a text, int64 (n,)."""
        if (numbers := np.asarray(ids)).ndim != 1:
            raise ParameterError("expected ids as a one-dimensional sequence of integers")
        known = numbers != UNKNOWN
        fed = np.full(numbers.shape, unknown_id(self.ready().tokenizer), dtype=np.int64)
        fed[known] = self.ids_of(space)[space.checked(numbers[known])]
        return fed
