"""What a context is, and those of language models: loading, locks, the id of each token."""

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
from dp_middleware.contexts.trials import differ, trial_logits, trials
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
        """Returns what the raw tokens of one text say of each position, float64 (n, V).

        ``ids`` are int (n,), -1 for an unknown token. Private. ParameterError: others.
        """

    def blocks(
        self, ids: ArrayLike, space: EmbeddingSpace, size: int, places: Ids | None = None
    ) -> Iterator[Floats]:
        """Yields the rows of :meth:`logits` in order, float64 (k, V), at most ``size`` at a time.

        ``places`` are positions asked for, ascending, where some tokens are public; ``None``: all.
        """
        rows = self.logits(ids, space)
        rows = rows if places is None else rows[places]
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    @abstractmethod
    def start(self, space: EmbeddingSpace) -> Stream:
        """Starts a stream for one text, of which nothing has been released yet."""

    def start_among(self, space: EmbeddingSpace, releases: Ids) -> Stream:
        """Starts a stream for a text with what is public of it before the draw, also ahead.

        By default that of :meth:`start`, which looks ahead at nothing. ``releases`` are int64
        (m,): ids of public tokens, and -1 where one is to be drawn.
        """
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

    @property
    def device(self) -> Any:
        """Tells where the model lies."""
        return self.network.device

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


class ModelContext(Context):
    """Makes a context of a language model of the ``transformers`` library.

    The model is loaded at first use, in float32, from a local folder or the model hub. No text
    passes through the model's own tokenizer, only the public vocabulary does: each vocabulary token
    is fed as one model token, see :func:`model_ids`; an unknown token as the model's unknown (or
    mask) token. Passes over one network are made one after another.

    A model's logits are defined up to a constant per position: by default we subtract the row's
    mean over the V tokens of the space. Each row moves by a function of itself alone, and what is
    guaranteed holds for all logits, so this costs no privacy.

    Args:
        model: Name or folder, or a loaded (model, tokenizer) pair, which is used as it is, in
            evaluation mode, and computes each text of a batch by itself, unlike after dynamic
            quantisation; such a context cannot be pickled.
        device: ``"cpu"``, ``"cuda"``, ... or ``"auto"``: CUDA if there is one, and a loaded model
            stays where it is.
        shift: What is subtracted from the logits of a position: their ``"mean"``, or ``"none"``,
            for a mechanism that takes a model's logits as they are.

    Raises:
        ParameterError: At first use: the model cannot be loaded.
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
        if not isinstance(model, tuple):
            self.model = str(model)
            return
        network, tokenizer = model
        self.model = type(network).__name__
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
        """Yields the rows of :meth:`logits`; those of the whole text are never held at once."""

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
        device = auto if self.device == "auto" else self.device
        try:
            loader = getattr(transformers, self._loader)
            network = loader.from_pretrained(self.model, dtype=torch.float32)
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.model)
        except (OSError, ValueError) as error:
            raise ParameterError(
                f"expected a folder or the name of a model that {self._loader} loads, got another"
            ) from error
        return Loaded(network.to(device).eval(), tokenizer)

    def _check(self, loaded: Loaded) -> None:
        """Refuses a model for which :attr:`window` would be wrong.

        A scale shared by a whole batch, as of dynamically quantised activations, is moved by most
        texts: one text of one repeated token is passed beside itself and beside a varied one.
        """
        for steady, varied in trials(loaded.network, loaded.window):
            pairs = (np.stack([steady, other]) for other in (steady, varied))
            first, second = (trial_logits(loaded.network, ids)[0] for ids in pairs)
            if differ(first, second):
                raise ParameterError(
                    f"expected a model that computes each sequence independently, got "
                    f"{self.model!r}, whose logits depend on the whole batch; dynamically "
                    "quantised models do that: use the model in floating point"
                )

    def ids_of(self, space: EmbeddingSpace) -> Ids:
        """Finds the model's id for each token of the space, int64 (V,); computed once."""
        loaded, key = self.ready(), space.vocabulary.fingerprint
        with loaded.lock:
            if key not in self._maps:
                self._maps[key] = model_ids(space.vocabulary, loaded.tokenizer)
            return self._maps[key]

    def space(self, size: int | None = None) -> EmbeddingSpace:
        """Makes a space of the model's own tokens, with its input embeddings as vectors.

        As CAPE has it, with BERT's vocabulary or GPT-2's. Special and added tokens, blanks and
        parts of characters are left out; ``size``: the first so many. ParameterError: a tokenizer
        that is no fast one of bytes, SentencePiece or WordPieces, one of fewer tokens, or a model
        without a row of input embeddings for each token.
        """
        loaded = self.ready()
        with loaded.lock:
            vocabulary, numbers = vocabulary_of(self.model, loaded.tokenizer, size)
            ids = np.array(numbers, dtype=np.int64)
            weight = getattr(loaded.network.get_input_embeddings(), "weight", None)
            if weight is None or weight.is_meta or len(weight) <= ids.max():
                raise ParameterError(
                    "expected a model with a row of input embeddings for each token"
                )
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

    def _fed(self, ids: ArrayLike, space: EmbeddingSpace) -> Ids:
        """What the model is fed for the ids of a text, int64 (n,)."""
        numbers = np.asarray(ids)
        if numbers.ndim != 1:
            raise ParameterError("expected ids as a one-dimensional sequence of integers")
        known = numbers != UNKNOWN
        fed = np.full(numbers.shape, unknown_id(self.ready().tokenizer), dtype=np.int64)
        fed[known] = self.ids_of(space)[space.checked(numbers[known])]
        return fed
