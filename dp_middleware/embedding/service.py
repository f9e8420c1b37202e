"""One encoder per model and device: sentence vectors, and vector tables for vocabularies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextvars import Context
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Literal, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files, _forks, _validate
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware._quiet import call_unrecorded
from dp_middleware._waits import told
from dp_middleware.embedding import arrays, backends
from dp_middleware.embedding.arrays import Floats, VectorSource, slices
from dp_middleware.embedding.backends import Backend, Encode, Given, SentenceModel, check_texts
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import EmbeddingError, ParameterError, needs
from dp_middleware.vocabulary.vocabulary import Vocabulary

Table = NDArray[np.float32]
Kind = Literal["input", "raw", "encoded"]

DEFAULT_FINGERPRINT = "22adc3a02123b6aeb55b412a44515d8bb9aa3dba2c1a608c4cdb2c40ac939e6f"
"""Of the default space, whose vectors are not read for what comes with the package."""

_DEFAULT_DIMENSIONS = 384
_STEP = 256  # tokens encoded together: on that the last bits of their vectors depend
_WARM = ["a warm and public sentence"]


class EmbeddingService:
    """Encodes sentences for all threads, event loops and frameworks of a process.

    Services of equal arguments are one, whose model is loaded at first use and then kept for the
    life of the process. Threads use it one after the other, and rows depend on the texts of their
    own call alone: another batch moves a row by rounding only, at most 1e-5 in length. Long lists
    are cut into batches, of texts of like length; others get their turn between two.

    Texts to encode are private: none is cached, logged or quoted in an error. How long a call
    takes is not protected: it depends on the lengths of the texts of all callers at that time. A
    model that is on a GPU cannot be used in a forked child: start processes with ``spawn``.

    Args:
        model: Name or folder of a sentence-transformers model, found in an installed offline
            package, in a local folder, or on the model hub.
        device: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``: the fastest there is.

    Attributes:
        backend: The model, or what :meth:`of` was given.

    Example:
        >>> EmbeddingService("all-MiniLM-L6-v2", device="cpu")
        EmbeddingService('all-MiniLM-L6-v2', device='cpu')
    """

    backend: Backend
    _encode: Encode | None
    _width: int | None
    _computing: bool

    def __new__(cls, model: str = DEFAULT_ENCODER, device: str = "auto") -> Self:
        """Returns the service of this model, always the same."""
        service = cls._on(SentenceModel(model, device=device))
        _lasting.add(service)
        return service

    @classmethod
    def _on(cls, backend: Backend) -> Self:
        with _sharing:
            service = _services.get(backend)
            if not isinstance(service, cls):
                service = _services[backend] = super().__new__(cls)
                service.backend = backend
                service._encode, service._width, service._computing = None, None, False
                service.after_fork()
                _forks.renewed[id(service)] = service
            return service

    def after_fork(self) -> None:
        """Makes a new lock; a model that the parent was using may be in any state."""
        if self._computing:
            self._encode, self._computing = None, False
        self._lock = Lock()

    @classmethod
    def of(cls, backend: Any) -> Self:
        """Makes a service on another backend; it lives as long as its services.

        That is an object with ``encode(texts)``, such as a sentence-transformers model, which sees
        raw text; a :class:`~dp_middleware.embedding.backends.Backend`; or a service. For models of
        frameworks and for servers see :func:`~dp_middleware.frameworks.embedding_service`.
        """
        if isinstance(backend, cls):
            return backend
        if hasattr(backend, "open") and hasattr(backend, "batch"):
            return cls._on(backend)
        if not callable(getattr(backend, "encode", None)):
            raise ParameterError(
                f"expected an object with encode(texts), got {type(backend).__name__}; wrap models "
                "of frameworks with dp_middleware.frameworks.embedding_service"
            )
        return cls._on(Given(backend))

    def __repr__(self) -> str:
        if not isinstance(self.backend, SentenceModel):
            return f"EmbeddingService.of({self.backend!r})"
        return f"EmbeddingService({self.backend.model!r}, device={self.backend.device!r})"

    def __reduce__(self) -> tuple[Any, ...]:  # leaves the model behind
        if isinstance(self.backend, SentenceModel):
            return type(self), (self.backend.model, self.backend.device)
        return type(self).of, (self.backend,)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns vectors of whole texts, float32 (n, d), of unit length; blocks the thread.

        EmbeddingError, which holds no text: the model failed.
        """
        listed = check_texts(texts)
        if not listed:
            return np.empty((0, self._width or self.encode(_WARM).shape[1]), np.float32)
        order = sorted(range(len(listed)), key=lambda k: -len(listed[k]))
        batches = [order[part] for part in slices(len(order), self.backend.batch)]
        rows = np.concatenate([self._rows([listed[k] for k in batch]) for batch in batches])
        table = np.empty_like(rows)
        table[order] = rows
        return table

    def _rows(self, texts: list[str]) -> Table:
        numbers: dict[str, int] = {}
        places = [numbers.setdefault(text, len(numbers)) for text in texts]
        with self._lock:
            self._computing = True
            try:
                if self._encode is None:
                    self._encode = backends.opened(self.backend)
                vectors = call_unrecorded(Context(), self._encode, list(numbers))
                rows = backends.checked_rows(vectors, len(numbers), self._width)
            except (Exception, SystemExit) as error:  # whatever it is, it may quote texts
                failed = f"the embedding model failed with {type(error).__name__}"
                if isinstance(error, EmbeddingError):
                    failed = str(error)
            else:
                self._width = rows.shape[1]
                return rows[places]
            finally:
                self._computing = False
        raise EmbeddingError(failed)

    def space(self, vocabulary: Vocabulary, vectors: Kind = "input") -> EmbeddingSpace:
        """Makes the vocabulary's space of this model, of unit length unless asked for raw.

        Kept on disk for a named model; for a backend of :meth:`of` it is computed every time, as
        nothing tells whether that has changed.

        Args:
            vocabulary: V tokens.
            vectors: ``"input"``: rows of a named model's input-embedding matrix, averaged over the
                WordPieces of a token; no encoding pass. ``"raw"``: the same as the model has
                them, of any length. ``"encoded"``: each token encoded as a text of its own, which
                any backend can do; ParameterError: it cannot do the others.
        """
        _validate.one_of(("input", "raw", "encoded"), vectors=vectors)
        if isinstance(self.backend, SentenceModel):
            table = self._kept(self.backend.model, vocabulary, vectors)
        elif vectors == "encoded":
            table = self._encoded(vocabulary)
        else:
            raise ParameterError(
                f'expected vectors="encoded", as only a named model has others, got {vectors!r}'
            )
        space = EmbeddingSpace(vocabulary, table if vectors == "raw" else unit_rows(table))
        if vectors != "encoded":  # read off the weights; encoded ones depend on device and batch
            space.recipe = partial(self.space, vocabulary, vectors)
        return space

    def _kept(self, model: str, vocabulary: Vocabulary, kind: Kind) -> Table:
        """On disk from the first time on; another file for other weights."""
        key = f"{model}/{_revision(model)}/{vocabulary.fingerprint}/{kind}"

        def made() -> dict[str, Table]:
            if kind == "encoded":
                return {"vectors": self._encoded(vocabulary)}
            return {"vectors": _input(model, vocabulary, kind)}

        return arrays.kept(_files.cache_path("vectors", key, suffix=".npz"), made)["vectors"]

    def _encoded(self, vocabulary: Vocabulary) -> Table:
        """Each token encoded as a text of its own."""
        texts = [(token.strip() or token).removeprefix("##") for token in vocabulary.tokens]
        with told(f"encoding {len(texts):,} tokens"):
            parts = [self.encode(texts[part]) for part in slices(len(texts), _STEP)]
        return np.concatenate(parts)


_sharing = Lock()
_services: WeakValueDictionary[Backend, EmbeddingService] = WeakValueDictionary()
_lasting = set[EmbeddingService]()  # named ones, which are loaded once per process


def _after_fork() -> None:
    global _sharing
    _sharing = Lock()  # another thread of the parent may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@lru_cache(maxsize=1)
def default_space() -> EmbeddingSpace:
    """Makes the space of all-MiniLM-L6-v2's WordPieces and input embeddings: V = 29,523, d = 384.

    One object per process. The vocabulary comes with the package; the vectors are those of the
    model, which is opened when something is first computed with them.
    """
    vocabulary = Vocabulary.from_encoder(DEFAULT_ENCODER)
    source = VectorSource(_default_vectors, _DEFAULT_DIMENSIONS, DEFAULT_FINGERPRINT)
    space = EmbeddingSpace(vocabulary, source)
    space.recipe = default_space
    return space


def _default_vectors() -> Floats:
    """MissingExtra: there is no model; ParameterError: another one is there."""
    space = EmbeddingService().space(default_space().vocabulary)
    if space.fingerprint != DEFAULT_FINGERPRINT:
        raise ParameterError(
            f"expected the vectors of {DEFAULT_ENCODER}, got a model of this name with others; "
            "install the extra offline, or make a space of your own with dp.EmbeddingService(...)"
        )
    return space.vectors


def _input(model: str, vocabulary: Vocabulary, kind: Kind) -> Table:
    """Input embeddings, of unit length unless raw, averaged over the WordPieces of a token."""
    with needs("models"):
        from safetensors import safe_open

    with safe_open(_files.encoder_file(model, "model.safetensors"), "np") as file:
        names = [name for name in file.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        if len(names) != 1:
            raise ParameterError(f'expected one word-embedding matrix in {model!r}; use "encoded"')
        matrix: Table = file.get_tensor(names[0]).astype(np.float32)
    if kind != "raw":
        matrix = unit_rows(matrix).astype(np.float32)
    source = _files.encoder_tokenizer(model)
    if vocabulary.tokenizer.name == f"wordpiece:{model}":
        own = source.get_vocab()
        return matrix[[own[token] for token in vocabulary.tokens]]
    texts = [token.strip() for token in vocabulary.tokens]
    pieces = source.encode_batch(texts, add_special_tokens=False)
    nothing = np.zeros(matrix.shape[1], dtype=np.float32)
    return np.stack([sum(matrix[p.ids], nothing) / max(1, len(p.ids)) for p in pieces])


def _revision(model: str) -> str:
    """Changes with the weights: their size and their first and last megabyte."""
    path = _files.encoder_file(model, "model.safetensors")
    size, part = path.stat().st_size, 1 << 20
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(part))
        file.seek(max(0, size - part))
        digest.update(file.read(part))
    return digest.hexdigest()[:16]
