"""One encoder per model and device: sentence vectors, and vector tables for vocabularies."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware.embedding import _vector_tables
from dp_middleware.embedding._vector_tables import Kind
from dp_middleware.embedding.arrays import Floats, VectorSource
from dp_middleware.embedding.backends import Backend, Given, Precision, Rows, SentenceModel
from dp_middleware.embedding.batching import Batcher, check_texts
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

DEFAULT_FINGERPRINT = "22adc3a02123b6aeb55b412a44515d8bb9aa3dba2c1a608c4cdb2c40ac939e6f"
"""Of the default space, whose vectors are not read for what comes with the package."""

_DEFAULT_DIMENSIONS = 384

_WARM = ["a warm and public sentence"]
_AHEAD = 2  # batches of a call in the queue: one with the model, one ready; others get their turn

_Places = list[int]


class EmbeddingService:
    """Encodes sentences for all threads, event loops and frameworks of a process.

    Services of equal arguments have one worker, one queue and one model, which is loaded at first
    use and then kept for the life of the process. What many callers ask for at the same time is
    computed together. Rows depend on that by rounding only: at most 1e-5 in length for float32,
    for half precision as in :class:`~dp_middleware.embedding.backends.SentenceModel`. What a
    certified release is drawn from, and the vectors of a space, are computed :func:`apart`.

    Texts to encode are private: none is cached, logged or quoted in an error. How long a call
    takes is not protected: it depends on the lengths of the texts of all callers at that time and
    on whether some are equal.

    A forked child has a worker of its own, and on a CPU the parent's model; one that is on a GPU
    cannot be used there, so start such processes with ``spawn``.

    Args:
        model: Name or folder of a sentence-transformers model, found in an installed offline
            package, in a local folder, or on the model hub.
        device: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``: the fastest there is.
        precision: ``"float32"``, or ``"float16"`` or ``"bfloat16"`` for a GPU.

    Attributes:
        backend: The model, or what :meth:`of` was given.

    Raises:
        ParameterError: No such precision; from a call: not a list of texts.
        EmbeddingError: From a call: the model failed. Holds no text.

    Example:
        >>> EmbeddingService("all-MiniLM-L6-v2", device="cpu")
        EmbeddingService('all-MiniLM-L6-v2', device='cpu', precision='float32')
    """

    def __init__(
        self,
        model: str = DEFAULT_ENCODER,
        device: str = "auto",
        precision: Precision = "float32",
    ) -> None:
        self.backend: Backend = SentenceModel(model, device=device, precision=precision)
        self._batcher = _worker_of(self.backend)
        _lasting.add(self._batcher)

    @classmethod
    def of(cls, backend: Any) -> Self:
        """A service on another backend; it lives as long as its services.

        Args:
            backend: An object with ``encode(texts)``, such as a sentence-transformers model, which
                sees raw text; a :class:`~dp_middleware.embedding.backends.Backend`; or a service.
                For models of LangChain and LlamaIndex and for servers see
                :func:`~dp_middleware.frameworks.embedding_service`.

        Raises:
            ParameterError: None of these.
        """
        if isinstance(backend, cls):
            return backend
        if not (hasattr(backend, "open") and hasattr(backend, "batch")):
            if not callable(getattr(backend, "encode", None)):
                raise ParameterError(
                    f"expected an object with encode(texts), got {type(backend).__name__}; wrap "
                    "models of frameworks with dp_middleware.frameworks.embedding_service"
                )
            backend = Given(backend)
        service = cls.__new__(cls)
        service.backend = backend
        service._batcher = _worker_of(backend)
        return service

    def __repr__(self) -> str:
        if not isinstance(self.backend, SentenceModel):
            return f"EmbeddingService.of({self.backend!r})"
        model, device, precision = self.backend.model, self.backend.device, self.backend.precision
        return f"EmbeddingService({model!r}, {device=}, {precision=})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds neither the model nor the queue."""
        named = self.backend
        if isinstance(named, SentenceModel):
            return type(self), (named.model, named.device, named.precision)
        return type(self).of, (named,)

    def warm_up(self) -> None:
        """Load the model and compute a public sentence, so that no request has to wait for that."""
        self.encode(_WARM)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of whole texts, float32 (n, d), rows of unit length; blocks the thread."""
        return self._encode(texts)

    def _encode(self, texts: Sequence[str], *, apart: bool = False) -> NDArray[np.float32]:
        with closing(self._answers(check_texts(texts), apart=apart)) as answers:
            parts = [(places, answer.result()) for places, answer in answers]
        return _in_order(parts) if parts else np.empty((0, self._width()), np.float32)

    def _answers(
        self, texts: list[str], *, apart: bool = False
    ) -> Generator[tuple[_Places, Future[Rows]]]:
        """Batch by batch the places of its texts and their rows; when closed, cancels the rest.

        Texts of like length share a batch, which saves padding.
        """
        order = sorted(range(len(texts)), key=lambda k: -len(texts[k]))
        size = self._batcher.backend.batch
        batches = (order[start : start + size] for start in range(0, len(order), size))
        pending: deque[tuple[_Places, Future[Rows]]] = deque()
        try:
            while True:
                for places in islice(batches, _AHEAD - len(pending)):
                    some = [texts[k] for k in places]
                    pending.append((places, self._batcher.submit(some, apart=apart)))
                if not pending:
                    return
                yield pending[0]
                pending.popleft()
        finally:
            for _, answer in pending:
                answer.cancel()

    def space(self, vocabulary: Vocabulary, vectors: Kind = "input") -> EmbeddingSpace:
        """The vocabulary with vectors of this model, of unit length unless asked for raw.

        Kept on disk for a named model; for a backend of :meth:`of` it is computed every time, as
        nothing tells whether that has changed.

        Args:
            vocabulary: V tokens.
            vectors: ``"input"``: rows of a named model's input-embedding matrix, averaged over the
                WordPieces of a token; no encoding pass. ``"raw"``: the same as the model has
                them, of any length. ``"encoded"``: each token encoded as a text of its own; a
                progress bar the first time.

        Raises:
            ParameterError: Input vectors of a backend that is not a named model.
        """
        _validate.one_of(("input", "raw", "encoded"), vectors=vectors)
        if isinstance(self.backend, SentenceModel):
            model, precision = self.backend.model, self.backend.precision
            space = _vector_tables.named_space(model, precision, vocabulary, vectors, apart(self))
        elif vectors == "encoded":
            table = _vector_tables.encode_tokens(vocabulary, apart(self))
            space = EmbeddingSpace(vocabulary, unit_rows(table))
        else:
            raise ParameterError(
                f'expected vectors="encoded", as only a named model has others, got {vectors!r}'
            )
        if vectors != "encoded":  # read off the weights; encoded ones depend on device and batch
            space.recipe = partial(self.space, vocabulary, vectors)
        return space

    def _width(self) -> int:
        if self._batcher.width is None:
            self.warm_up()
        return self._batcher.width or 0


def apart(encoder: Any) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """Returns the ``encode`` of an encoder whose rows depend on the texts of the call alone.

    In a common batch a row moves by rounding with its neighbours, which are private texts of other
    callers, so what is released must not be drawn from it. What a server does with the calls that
    it is sent is out of reach, as is what another encoder than a service does.
    """
    if isinstance(encoder, EmbeddingService):
        return partial(encoder._encode, apart=True)
    encode: Callable[[Sequence[str]], NDArray[np.float32]] = encoder.encode
    return encode


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
    """Reads the vectors of the default space.

    Raises:
        MissingExtra: There is no model on this computer, and none can be downloaded.
        ParameterError: The model that is there is another one.
    """
    space = EmbeddingService().space(default_space().vocabulary)
    if space.fingerprint != DEFAULT_FINGERPRINT:
        raise ParameterError(
            f"expected the vectors of {DEFAULT_ENCODER}, got a model of this name with others; "
            "install the extra offline, or make a space of your own with dp.EmbeddingService(...)"
        )
    return space.vectors


_sharing = Lock()
_workers: WeakValueDictionary[Backend, Batcher] = WeakValueDictionary()
_lasting: set[Batcher] = set()  # of named models, which are loaded once per process


def _worker_of(backend: Backend) -> Batcher:
    """The worker of this backend and of equal ones."""
    with _sharing:
        batcher = _workers.get(backend)
        if batcher is None:
            batcher = _workers[backend] = Batcher(backend)
        return batcher


def _after_fork() -> None:
    """Make a new lock: another thread of the parent may have held the old one."""
    global _sharing
    _sharing = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _in_order(parts: Sequence[tuple[_Places, Rows]]) -> Rows:
    """The rows of all texts, each at its place."""
    count = sum(len(places) for places, _ in parts)
    table = np.empty((count, parts[0][1].shape[1]), np.float32)
    for places, rows in parts:
        table[places] = rows
    return table
