"""One attack on what a sanitizer releases for texts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dp_middleware import _validate
from dp_middleware.errors import ParameterError
from dp_middleware.lab.attacks import AttackResult
from dp_middleware.lab.evaluation._cases import Case, Encoded, Models
from dp_middleware.lab.evaluation._cuts import aligned
from dp_middleware.lab.evaluation._laws import Law
from dp_middleware.lab.evaluation.data import Texts
from dp_middleware.lab.evaluation.measures import MEASURES, named
from dp_middleware.lab.metrics.inputs import default_encoder
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer


def attack(
    name: str, texts: Sequence[str], sanitizer: Sanitizer, *, models: Models | None = None
) -> AttackResult:
    """Releases private texts, as :meth:`Sanitizer.release_batch` does, and attacks the releases.

    Tokens that the policy keeps are no trials, but attackers read them as context. The ledger is
    charged once it is known that the attack can be run. A chat model among ``models``, the
    attacker's, is sent what was released.

    Raises:
        ParameterError: An unknown attack, one whose model is missing, or no token to attack.
        ChatError: The chat model failed.
    """
    _validate.one_of(named("attack"), attack=name)
    models = models if models is not None else Models()
    MEASURES[name].check(models, sanitizer.mechanism)
    if isinstance(sanitizer.mechanism, TextMechanism):
        kind = sanitizer.mechanism.name
        raise ParameterError(f"expected a mechanism of tokens, which are attacked, got {kind}")
    drafts = [draft for text in texts if isinstance(draft := sanitizer.read(text), Draft)]
    started = time.perf_counter()
    released = sanitizer.release_drafts(drafts)
    seconds = time.perf_counter() - started
    seen = [aligned(draft) for _, draft in released]
    case = Case(
        law=Law(mechanism=sanitizer.mechanism, certificate=sanitizer.certificate),
        space=sanitizer.space,
        data=Texts(name="text", texts=tuple(texts)),
        raw=tuple(text.raw for text in seen),
        released=tuple(text.released for text in seen),
        fresh=tuple(text.fresh for text in seen),
        models=models,
        encoder=Encoded(default_encoder()),
        sample=len(texts),
        seconds=seconds,
        spelt=tuple(release.text for release, _ in released),
    )
    result = MEASURES[name].run(case)
    assert isinstance(result, AttackResult)  # so are those of kind "attack"
    return result
