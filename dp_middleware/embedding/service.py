"""One encoder per model and device: sentence vectors, and vector tables for vocabularies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Literal, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files, _validate
from dp_middleware._files import DEFAULT_ENCODER
from dp_middleware._waits import told
from dp_middleware.embedding import arrays, grid
from dp_middleware.embedding.arrays import Floats, VectorSource, slices
from dp_middleware.embedding.backends import Backend, Given, SentenceModel, SharedModel, check_texts
from dp_middleware.embedding.grid import unit_rows
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError, needs
from dp_middleware.vocabulary.vocabulary import Vocabulary

DEFAULT_FINGERPRINT = "22adc3a02123b6aeb55b412a44515d8bb9aa3dba2c1a608c4cdb2c40ac939e6f"
"""Of the default space, whose vectors are not read for what comes with the package."""

_DEFAULT_DIMENSIONS = 384


class EmbeddingService:
    """Encodes sentences for all threads, event loops and frameworks of a process.

    Services of equal arguments have one model, which is loaded at first use and then kept for the
    life of the process. Threads use it one after the other, and rows depend on the texts of their
    own call alone. Another batch moves a row by rounding only: at most 1e-5 in length.

    Texts to encode are private: none is cached, logged or quoted in an error. How long a call
    takes is not protected: it depends on the lengths of the texts of all callers at that time.

    A forked child has on a CPU the parent's model; one that is on a GPU cannot be used there, so
    start such processes with ``spawn``.

    Args:
        model: Name or folder of a sentence-transformers model, found in an installed offline
            package, in a local folder, or on the model hub.
        device: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``: the fastest there is.

    Attributes:
        backend: The model, or what :meth:`of` was given.

    Raises:
        ParameterError: From a call: not a list of texts.
        EmbeddingError: From a call: the model failed. Holds no text.

    Example:
        >>> EmbeddingService("all-MiniLM-L6-v2", device="cpu")
        EmbeddingService('all-MiniLM-L6-v2', device='cpu')
    """

    def __init__(self, model: str = DEFAULT_ENCODER, device: str = "auto") -> None:
        self.backend: Backend = SentenceModel(model, device=device)
        self._shared = _model_of(self.backend)
        _lasting.add(self._shared)

    @classmethod
    def of(cls, backend: Any) -> Self:
        """Makes a service on another backend; it lives as long as its services.

        Args:
            backend: An object with ``encode(texts)``, such as a sentence-transformers model, which
                sees raw text; a :class:`~dp_middleware.embedding.backends.Backend`; or a service.
                For models of LangChain and LlamaIndex and for servers see
                :func:`~dp_middleware.frameworks.embedding_service`. ParameterError: none of these.
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
        service._shared = _model_of(backend)
        return service

    def __repr__(self) -> str:
        if not isinstance(self.backend, SentenceModel):
            return f"EmbeddingService.of({self.backend!r})"
        return f"EmbeddingService({self.backend.model!r}, device={self.backend.device!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the model behind."""
        named = self.backend
        if isinstance(named, SentenceModel):
            return type(self), (named.model, named.device)
        return type(self).of, (named,)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns vectors of whole texts, float32 (n, d), of unit length; blocks the thread."""
        return self._shared.encode(check_texts(texts))

    def space(self, vocabulary: Vocabulary, vectors: Kind = "input") -> EmbeddingSpace:
        """Makes the vocabulary's space of this model, of unit length unless asked for raw.

        Kept on disk for a named model; for a backend of :meth:`of` it is computed every time, as
        nothing tells whether that has changed.

        Args:
            vocabulary: V tokens.
            vectors: ``"input"``: rows of a named model's input-embedding matrix, averaged over the
                WordPieces of a token; no encoding pass. ``"raw"``: the same as the model has
                them, of any length. ``"encoded"``: each token encoded as a text of its own.
                ParameterError: others than these of a backend that is not a named model.
        """
        _validate.one_of(("input", "raw", "encoded"), vectors=vectors)
        if isinstance(self.backend, SentenceModel):
            model = self.backend.model
            space = named_space(model, vocabulary, vectors, self.encode)
        elif vectors == "encoded":
            table = encode_tokens(vocabulary, self.encode)
            space = EmbeddingSpace(vocabulary, unit_rows(table))
        else:
            raise ParameterError(
                f'expected vectors="encoded", as only a named model has others, got {vectors!r}'
            )
        if vectors != "encoded":  # read off the weights; encoded ones depend on device and batch
            space.recipe = partial(self.space, vocabulary, vectors)
        return space


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
    """Reads them; MissingExtra: there is no model; ParameterError: another one is there."""
    space = EmbeddingService().space(default_space().vocabulary)
    if space.fingerprint != DEFAULT_FINGERPRINT:
        raise ParameterError(
            f"expected the vectors of {DEFAULT_ENCODER}, got a model of this name with others; "
            "install the extra offline, or make a space of your own with dp.EmbeddingService(...)"
        )
    return space.vectors


_sharing = Lock()
_models: WeakValueDictionary[Backend, SharedModel] = WeakValueDictionary()
_lasting: set[SharedModel] = set()  # named ones, which are loaded once per process


def _model_of(backend: Backend) -> SharedModel:
    """Returns the model of this backend and of equal ones."""
    with _sharing:
        model = _models.get(backend)
        if model is None:
            model = _models[backend] = SharedModel(backend)
        return model


def _after_fork() -> None:
    """Make a new lock: another thread of the parent may have held the old one."""
    global _sharing
    _sharing = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


Table = NDArray[np.float32]
Kind = Literal["input", "raw", "encoded"]

_STEP = 256  # tokens encoded together: on that the last bits of their vectors depend


def named_space(
    model: str, vocabulary: Vocabulary, kind: Kind, encode: Callable[[list[str]], Table]
) -> EmbeddingSpace:
    """Makes the vocabulary's space with a named model's vectors, on disk from the first time on.

    Their file is read when something is computed with them: the fingerprint of the space is kept
    beside it. Another file for other weights; one that is damaged is made again. A folder that
    cannot be written costs time only.
    """
    key = f"{model}/{_revision(model)}/{vocabulary.fingerprint}/{kind}"
    path = _files.cache_path("vectors", key, suffix=".npz")
    beside = ("spaces", key, _files.code_fingerprint())

    def made() -> dict[str, Table]:
        encoded = kind == "encoded"
        table = encode_tokens(vocabulary, encode) if encoded else _input(model, vocabulary, kind)
        return {"vectors": table}

    def read() -> Floats:
        table = arrays.kept(path, made)["vectors"]
        return table.astype(np.float64) if kind == "raw" else unit_rows(table)

    def read_again() -> Floats:
        vectors = read()
        if grid.fingerprint(vocabulary.fingerprint, vectors) != fingerprint:
            _files.cache_path(*beside).unlink(missing_ok=True)
            raise ParameterError(
                f"expected the vectors of the space {fingerprint[:8]}, got others: their file was "
                "replaced; start again"
            )
        vectors.setflags(write=False)
        return vectors

    match _files.load(*beside):
        case {"fingerprint": str(fingerprint), "dimensions": int(dimensions)}:
            return EmbeddingSpace(vocabulary, VectorSource(read_again, dimensions, fingerprint))
    space = EmbeddingSpace(vocabulary, read())
    _files.store({"fingerprint": space.fingerprint, "dimensions": space.vectors.shape[1]}, *beside)
    return space


def encode_tokens(vocabulary: Vocabulary, encode: Callable[[list[str]], Table]) -> Table:
    """Encodes each token as a text of its own."""
    texts = [(token.strip() or token).removeprefix("##") for token in vocabulary.tokens]
    with told(f"encoding {len(texts):,} tokens"):
        return np.concatenate([encode(texts[part]) for part in slices(len(texts), _STEP)])


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
