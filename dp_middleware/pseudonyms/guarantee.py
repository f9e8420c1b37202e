"""What a text with pseudonyms guarantees."""

from __future__ import annotations

import math
from functools import lru_cache
from hashlib import sha256

from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Adjacency, Certificate, NoGuarantee, PureDP
from dp_middleware.pseudonyms.common import promise
from dp_middleware.pseudonyms.kinds import Kind

_PUBLIC = (
    "what the detector does not find is public and goes out as it is",
    "that entities are there, where, of which kind, in capitals or small letters, between which "
    "signs, and which of their parts are equal (numbers: in value), is public",
)
KEYED = (
    "pseudonyms follow from a key: equal values are equal everywhere, for ever; who has no key and "
    "may not ask learns no more than that, as long as AES and HMAC-SHA-256 are not broken; who may "
    "ask tells a value that can be guessed, so that no epsilon is finite"
)


@lru_cache(maxsize=256)
def certificate_of(
    kinds: frozenset[Kind],
    laws: tuple[tuple[str, Kind], ...],
    beside: Certificate | None,
    *,
    common: bool,
    allows: bool,
    keyed: bool = False,
) -> Certificate:
    """Returns that of a release in which these kinds occur, of all that may by these laws.

    ``beside`` is that of what perturbs the rest, and must add up with this.
    """
    if beside is not None and not isinstance(beside.guarantee, PureDP):
        kind = type(beside.guarantee).__name__
        raise ParameterError(f"expected a sanitizer with a finite pure guarantee, got {kind}")
    occurring = sorted(kinds, key=repr)
    losses = [0.0, *(kind.loss for kind in occurring)]
    epsilon = max(losses if beside is None else [*losses, beside.epsilon])
    epsilon = math.inf if keyed else epsilon
    digest = sha256(repr(sorted(laws)).encode()).hexdigest()
    everything = sha256(f"{digest}{beside and beside.mechanism!r}".encode()).hexdigest()
    return Certificate(
        guarantee=NoGuarantee(reason=KEYED) if keyed else PureDP(epsilon=epsilon),
        adjacency=Adjacency.entities(
            tuple(name for name, _ in laws), None if beside is None else beside.adjacency
        ),
        method="none" if keyed else "exact" if beside is None else beside.method,
        assumptions=(
            *((KEYED,) if keyed else ()),
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
