"""By what all rows of a channel are known, in memory and on disk."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from importlib.metadata import version

from dp_middleware import _files
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import needs
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism

_PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True, eq=False)
class _Itself:
    """Equal to what holds the same two objects."""

    mechanism: ChannelMechanism
    space: EmbeddingSpace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Itself):
            return False
        return self.mechanism is other.mechanism and self.space is other.space

    def __hash__(self) -> int:
        return hash((id(self.mechanism), id(self.space)))


def is_ours(mechanism: Mechanism) -> bool:
    """Tells whether this package's code decides its rows, inner mechanisms included."""
    own = type(mechanism).__module__.startswith(f"{_PACKAGE}.")
    return own and all(map(is_ours, mechanism.parts))


def is_known(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Tells whether fingerprints and the version of this package tell all that decides the rows."""
    return is_ours(mechanism) and type(space) is EmbeddingSpace


def key_in_memory(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Hashable:
    """Makes a key that is equal where the rows are, bit for bit.

    A fingerprint stands for a mechanism whose code is known. Another one shares rows with itself
    only: a class may be defined anew, or have parameters whose ``repr`` does not tell all.
    """
    if not is_known(mechanism, space):
        return _Itself(mechanism, space)
    return mechanism.fingerprint, space.fingerprint, str(space.device)


def key_on_disk(mechanism: Mechanism, space: EmbeddingSpace) -> tuple[str, ...]:
    """Gathers all that decides a row on the CPU, the versions of what computes it included."""
    with needs("models"):
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "scipy"))
    return mechanism.fingerprint, space.fingerprint, _files.code_fingerprint(), versions
