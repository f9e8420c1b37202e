"""What a text with pseudonyms guarantees."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Adjacency, Certificate, PureDP
from dp_middleware.pseudonyms.common import promise
from dp_middleware.pseudonyms.kinds import Kind

_PUBLIC = (
    "what the detector does not find is public and goes out as it is",
    "that entities are there, where, of which kind, in capitals or small letters, between which "
    "signs, and which of their parts are equal (numbers: in value), is public",
)


@lru_cache(maxsize=256)
def certificate_of(
    kinds: frozenset[Kind],
    laws: tuple[tuple[str, Kind], ...],
    beside: Certificate | None,
    *,
    common: bool,
    allows: bool,
) -> Certificate:
    """Returns that of a release in which these kinds occur.

    Args:
        kinds: Those that occur.
        laws: All that may occur, by name.
        beside: Of what perturbs the rest, if anything does.
        common: Whether only common words of the rest go out.
        allows: Whether somebody named what stays.

    Raises:
        ParameterError: What is beside them has a guarantee that does not add up with this.
    """
    if beside is not None and not isinstance(beside.guarantee, PureDP):
        raise ParameterError(
            "expected a sanitizer with a finite pure guarantee beside pseudonyms, got "
            f"{type(beside.guarantee).__name__}; kinds of guarantee do not add up"
        )
    occurring = sorted(kinds, key=repr)
    losses = [0.0, *(kind.loss for kind in occurring)]
    epsilon = max(losses if beside is None else [*losses, beside.epsilon])
    digest = sha256(repr(sorted(laws)).encode()).hexdigest()
    everything = sha256(f"{digest}{beside and beside.mechanism!r}".encode()).hexdigest()
    return Certificate(
        guarantee=PureDP(epsilon=epsilon),
        adjacency=Adjacency.entities(
            tuple(name for name, _ in laws), None if beside is None else beside.adjacency
        ),
        method="exact" if beside is None else beside.method,
        assumptions=(
            *((promise(),) if common else ()),
            *_PUBLIC[common or beside is not None :],
            *(("what allow= names is public",) if allows else ()),
            *dict.fromkeys(f"kept of each {kind.name}: {kind.keeps}" for kind in occurring),
            *(() if beside is None else beside.assumptions),
        ),
        claimed=epsilon,
        epsilon=epsilon,
        mechanism=f"Pseudonyms({everything[:16]})",
        space="public lists" if beside is None else beside.space,
    )
