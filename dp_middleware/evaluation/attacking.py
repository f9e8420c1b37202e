"""One attack on what a sanitizer releases for texts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from dp_middleware import _validate
from dp_middleware.attacks import AttackResult
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._cases import Case, Encoded, Models
from dp_middleware.evaluation._laws import Law
from dp_middleware.evaluation.data import Texts
from dp_middleware.evaluation.measures import MEASURES, named
from dp_middleware.metrics.inputs import default_encoder
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.vocabulary import UNKNOWN


def attack(
    name: str, texts: Sequence[str], sanitizer: Sanitizer, *, models: Models | None = None
) -> AttackResult:
    """Release texts, as :meth:`Sanitizer.release_batch` does, and attack the releases.

    Tokens that the policy keeps are no trials, but attackers read them as context. The ledger is
    charged once it is known that the attack can be run.

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
    given = models if models is not None else Models()
    MEASURES[name].check(given, sanitizer.mechanism)
    drafts = [sanitizer.read(text) for text in texts]
    started = time.perf_counter()
    released = sanitizer.release_drafts(drafts)
    seconds = time.perf_counter() - started
    seen = [[t for t in draft.tokens if t.kept is None or t.id != UNKNOWN] for _, draft in released]
    certificate = sanitizer.certificate
    case = Case(
        law=Law(mechanism=sanitizer.mechanism, certificate=certificate, note="", seconds=0.0),
        space=sanitizer.space,
        data=Texts(name="text", texts=tuple(texts)),
        raw=tuple(_ids(t.id if t.kept is None else UNKNOWN for t in each) for each in seen),
        released=tuple(_ids(t.output if t.kept is None else t.id for t in each) for each in seen),
        models=given,
        encoder=Encoded(default_encoder()),
        sample=len(texts),
        seconds=seconds,
        spelt=tuple(release.text for release, _ in released),
    )
    found = MEASURES[name].run(case)
    if not isinstance(found, AttackResult):
        raise ParameterError(f"expected an attack, got {name}")
    return found


def _ids(tokens: Iterable[int | None]) -> Ids:
    return np.fromiter((UNKNOWN if t is None else t for t in tokens), dtype=np.int64)
