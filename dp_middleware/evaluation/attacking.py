"""One attack on what a sanitizer releases for texts."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dp_middleware import _validate
from dp_middleware.attacks import AttackResult
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._cases import Case, Models
from dp_middleware.evaluation._encoded import Encoded
from dp_middleware.evaluation._laws import Law
from dp_middleware.evaluation.data import Texts
from dp_middleware.evaluation.measures import MEASURES, named
from dp_middleware.metrics._inputs import default_encoder
from dp_middleware.sanitizers import Sanitizer


def attack(
    name: str, texts: Sequence[str], sanitizer: Sanitizer, *, models: Models | None = None
) -> AttackResult:
    """Release texts, as :meth:`Sanitizer.release_batch` does, and attack the releases.

    Tokens that the policy keeps are no trials: everybody sees them. The ledger is charged.

    Args:
        name: Of an attack of :data:`~dp_middleware.evaluation.measures.MEASURES`.
        texts: Private.
        sanitizer: What releases them.
        models: Language models of the attacker. A chat model is sent what was released.

    Raises:
        ParameterError: An unknown attack, one whose model is missing, or no token to attack.
        ChatError: The chat model failed.
    """
    _validate.one_of(named("attack"), attack=name)
    plans = [sanitizer.plan(text) for text in texts]
    started = time.perf_counter()
    released = [plan for _, plan in sanitizer.release_plans(plans)]
    seconds = time.perf_counter() - started
    drawn = [plan.perturbed for plan in released]
    certificate = sanitizer.certificate
    case = Case(
        law=Law(mechanism=sanitizer.mechanism, certificate=certificate, note="", seconds=0.0),
        space=sanitizer.space,
        data=Texts(name="text", texts=tuple(texts)),
        raw=tuple(np.array([t.id for t in each], dtype=np.int64) for each in drawn),
        released=tuple(np.array([t.output for t in each], dtype=np.int64) for each in drawn),
        models=models if models is not None else Models(),
        encoder=Encoded(default_encoder()),
        sample=len(texts),
        seconds=seconds,
    )
    found = MEASURES[name].run(case)
    if not isinstance(found, AttackResult):
        raise ParameterError(f"expected an attack, got {name}")
    return found
