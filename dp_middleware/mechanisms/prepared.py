"""Rows that are computed before any text is there, and by what all rows of a channel are known."""

from __future__ import annotations

import shutil
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from dp_middleware import _files
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError, needs as needs_extra
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, rows_of
from dp_middleware.sampling import files, sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

_PACKAGE = __name__.rpartition(".")[0]
_SAMPLE = 64  # rows from which the size of all is told
_SLACK = 1.1


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
    """Whether the code that decides its rows is that of this package, inner mechanisms included."""
    inner = [each for each in mechanism.parameters.values() if isinstance(each, Mechanism)]
    own = type(mechanism).__module__.startswith(f"{_PACKAGE}.")
    return own and all(is_ours(each) for each in inner)


def is_known(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Whether fingerprints and the version of this package tell all that decides the rows."""
    return is_ours(mechanism) and type(space) is EmbeddingSpace


def key_in_memory(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Hashable:
    """Equal where the rows are, bit for bit.

    A fingerprint stands for a mechanism whose code is known. Another one shares rows with itself
    only: a class may be defined anew, or have parameters whose ``repr`` does not tell all.
    """
    if not is_known(mechanism, space):
        return _Itself(mechanism, space)
    return mechanism.fingerprint, space.fingerprint, str(space.device)


def opened(mechanism: ChannelMechanism, space: EmbeddingSpace) -> files.PreparedRows | None:
    """The rows that :func:`prepare` wrote, if it did."""
    if not is_known(mechanism, space):
        return None
    key = key_on_disk(mechanism, space, space.device.type)
    return files.open_rows(_path(key), key)


def prepare(mechanism: Mechanism, space: EmbeddingSpace, ids: Ids) -> Path:
    """Write rows to a folder, unless it has them; see :meth:`Sanitizer.prepare`.

    Args:
        mechanism: A channel of this package.
        space: V tokens with vectors.
        ids: Distinct and public.
    """
    if not isinstance(mechanism, ChannelMechanism):
        raise ParameterError(
            f"expected a mechanism with a law per token to prepare, got {mechanism.name}: "
            "its law depends on the other tokens or is known by its draws only"
        )
    if not is_known(mechanism, space):
        raise ParameterError(
            "expected a mechanism and a space of dp_middleware to prepare, got "
            f"{type(mechanism).__name__} on {type(space).__name__}: a folder of rows is valid for "
            "one version of the code only, and that of others has no fingerprint"
        )
    if not len(ids):
        raise ParameterError("expected a public token or more to prepare, got none")
    unknown = [UNKNOWN] if space.vocabulary.has_unknown_symbol else []
    wanted = np.concatenate([np.array(unknown, dtype=np.int64), ids])
    key = key_on_disk(mechanism, space, space.device.type)
    path = _path(key)
    found = files.open_rows(path, key)
    if found is None or not found.holds(wanted) or not found.is_intact():
        _write(path, key, mechanism, space, wanted)
    return path


def _write(
    path: Path, key: dict[str, str], mechanism: ChannelMechanism, space: EmbeddingSpace, ids: Ids
) -> None:
    advice = "; choose fewer tokens, or set DP_MIDDLEWARE_CACHE to another folder"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (needed, _), free = needs(mechanism, space, ids), shutil.disk_usage(path.parent).free
        if needed > free:
            raise ParameterError(
                f"expected {needed / 1e9:.2f} GB free for {len(ids):,} rows of {mechanism.name} in "
                f"{path.parent}, got {free / 1e9:.2f} GB{advice}"
            )
        files.write(path, key, tables_of(mechanism, space, ids))
    except OSError as error:
        raise ParameterError(
            f"expected a folder for rows, cannot write to {path.parent}: {error.strerror}{advice}"
        ) from None


def needs(mechanism: ChannelMechanism, space: EmbeddingSpace, ids: Ids) -> tuple[float, float]:
    """Bytes and seconds that writing these rows takes, told from some of them."""
    some = ids[np.unique(np.linspace(0, len(ids) - 1, _SAMPLE).astype(np.int64))]
    rows_of(mechanism, some[-1:], space)  # what is computed once
    started, share = time.perf_counter(), len(ids) / len(some)
    made = [table for _, table in tables_of(mechanism, space, some)]
    seconds = (time.perf_counter() - started) * share
    return _SLACK * files.room_for(made) * share, seconds


def tables_of(
    mechanism: ChannelMechanism, space: EmbeddingSpace, ids: Ids
) -> Iterator[tuple[int, sampler.Table]]:
    """Ids and their tables, a block at a time."""
    for start in range(0, len(ids), space.block):
        batch = ids[start : start + space.block]
        made = sampler.tables(rows_of(mechanism, batch, space))
        yield from zip(batch.tolist(), made, strict=True)


def key_on_disk(mechanism: ChannelMechanism, space: EmbeddingSpace, device: str) -> dict[str, str]:
    """All that decides a row, the versions of what computes it included."""
    with needs_extra("models"):
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "scipy"))
    return {
        "mechanism": mechanism.fingerprint,
        "space": space.fingerprint,
        "code": _files.code_fingerprint(),
        "device": device,
        "versions": versions,
    }


def _path(key: dict[str, str]) -> Path:
    return _files.cache_path("rows", *key.values(), suffix=".rows")
