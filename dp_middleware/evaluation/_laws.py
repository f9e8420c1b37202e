"""A mechanism at an epsilon: its nominal parameter, its exact epsilon, its guarantee."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dp_middleware.certification import calibrate, certify
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.privacy import Certificate

_NOT_CALIBRATED = "cannot be calibrated to this exact epsilon; drawn at the nominal one"


@dataclass(frozen=True, kw_only=True)
class Law:
    """What is evaluated.

    Attributes:
        mechanism: With the parameter that is drawn with.
        certificate: Of texts of the evaluated length, any token replaced by any other.
        note: Why it is not what was asked for, else empty.
        seconds: To calibrate and certify; less where that is on disk.
    """

    mechanism: Mechanism
    certificate: Certificate
    note: str
    seconds: float

    @property
    def nominal(self) -> float | None:
        """The parameter of the mechanism; ``None`` if it has none."""
        return None if self.mechanism.scale is None else self.mechanism.nominal


def law(
    chosen: str | Mechanism, epsilon: float, space: EmbeddingSpace, *, exact: bool, length: int
) -> Law:
    """The mechanism at this epsilon.

    Args:
        chosen: A name of ``MECHANISMS``, with public defaults, or a mechanism.
        epsilon: Nats per token.
        space: V tokens with vectors.
        exact: Calibrate to it, where that can be done; else it is the nominal parameter.
        length: Tokens of the longest text.
    """
    started = time.perf_counter()
    mechanism = nominal(chosen, epsilon, space)
    note = ""
    if exact:
        try:
            mechanism = calibrate(mechanism, space, epsilon, length=length)
        except CannotCalibrate:
            note = _NOT_CALIBRATED
    certificate = certify(mechanism, space, length=length)
    return Law(
        mechanism=mechanism,
        certificate=certificate,
        note=note,
        seconds=time.perf_counter() - started,
    )


def nominal(chosen: str | Mechanism, epsilon: float, space: EmbeddingSpace) -> Mechanism:
    """The mechanism whose own parameter is this epsilon, if it has one."""
    if isinstance(chosen, str):
        return MECHANISMS[chosen].with_defaults(epsilon, space)
    return chosen if chosen.scale is None else chosen.at(epsilon)
