"""By what all rows of a channel are known, in memory and on disk."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from dp_middleware import _files
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError, needs
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism

_PACKAGE = __name__.rpartition(".")[0]


def is_ours(mechanism: Mechanism) -> bool:
    """Tells whether this package's code decides its rows, inner mechanisms included."""
    own = type(mechanism).__module__.startswith(f"{_PACKAGE}.")
    return own and all(map(is_ours, mechanism.parts))


def is_known(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Tells whether fingerprints and the version of this package tell all that decides the rows."""
    return is_ours(mechanism) and type(space) is EmbeddingSpace


def key_in_memory(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Hashable:
    """Makes a key that is equal where the rows are, bit for bit.

    A mechanism whose code is not known shares no rows: a class may be defined anew, or have
    parameters whose ``repr`` does not tell all.
    """
    if not is_known(mechanism, space):
        return object()
    return mechanism.fingerprint, space.fingerprint, str(space.device)


def key_on_disk(mechanism: Mechanism, space: EmbeddingSpace) -> tuple[str, ...]:
    """Gathers all that decides a row on the CPU, the versions of what computes it included."""
    with needs("models"):
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "scipy"))
    return mechanism.fingerprint, space.fingerprint, _files.code_fingerprint(), versions


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Says, where a file cannot be written, that another folder can be chosen."""
    try:
        yield
    except OSError as error:
        raise ParameterError(
            f"expected a folder for {what}, cannot write to {path.parent}: {error.strerror}; "
            "set DP_MIDDLEWARE_CACHE to another folder"
        ) from None
