"""What a person may choose on the page: ways to release a text, each made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.gateway.service import Gateway
from dp_middleware.gateway.settings import PATHS
from dp_middleware.privacy.releases import Ledger
from dp_middleware.privacy.wording import nats
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.calibrated import document_sanitizer, sanitizer
from dp_middleware.sanitizers.sanitizer import Sanitizer

Releaser = Sanitizer | Pseudonyms

_SUBJECT = "playground"  # whose budget is charged


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A way to release a text.

    Attributes:
        name: In requests.
        title: On the page.
        about: A sentence on the page: what it protects.
        unit: What epsilon is paid for.
        make: What releases at such an epsilon; may take minutes.
        epsilon: Nats that stand in the form; ``None``: there are none to choose.
    """

    name: str
    title: str
    about: str
    unit: str
    make: Callable[[float], Releaser]
    epsilon: float | None = None


def default_choices(
    *, space: EmbeddingSpace | None = None, detector: Any = None, ledger: Ledger | None = None
) -> tuple[Choice, ...]:
    """Pseudonyms, whole texts, words, and pseudonyms with words.

    Args:
        space: Of the words; default :func:`~dp_middleware.default_space`.
        detector: Of what gets pseudonyms; default that of the extra ``detect``.
        ledger: Charged before any draw, to the subject ``playground``; default: nothing is.
    """
    payer: dict[str, Any] = {} if ledger is None else {"ledger": ledger, "subject": _SUBJECT}

    def words(epsilon: float) -> Sanitizer:
        return sanitizer(epsilon, space=space, **payer)

    return (
        Choice(
            name="pseudonyms",
            title="Pseudonyms",
            about="Names, contacts, dates and amounts get stand-ins, which are turned back in the "
            "answer. What is not found goes out as it is.",
            unit="value",
            make=lambda _: Pseudonyms(detector, on_empty="pass", **payer),
        ),
        Choice(
            name="text",
            title="Whole text",
            about="A few public words and phrases are drawn for all of it; nothing else goes out.",
            epsilon=25.0,
            unit="text",
            make=lambda epsilon: document_sanitizer(epsilon, space, **payer),
        ),
        Choice(
            name="words",
            title="Every word",
            about="Each token is replaced by a draw whose exact epsilon is the one you choose.",
            epsilon=10.0,
            unit="token",
            make=words,
        ),
        Choice(
            name="both",
            title="Pseudonyms and every word",
            about="Stand-ins for what is found, and a draw for each token of the rest.",
            epsilon=10.0,
            unit="token",
            make=lambda epsilon: Pseudonyms(detector, sanitizer=words(epsilon)),
        ),
    )


def policy_choices(gateway: Gateway) -> list[Choice]:
    """The gateway's policies, each with what its routes release with; their epsilon is fixed."""
    settings, choices = gateway.settings, list[Choice]()
    for number, (name, policy) in enumerate(settings.policies.items()):
        releaser = gateway.sessions.releaser(name, _SUBJECT)
        certificate = releaser.certificate
        paths = [path for path in PATHS if settings.policy_of(path) == name]
        choice = Choice(
            name=f"policy-{number}",
            title=f"Policy {name}",
            about=f"Mode {policy.mode}, {nats(certificate.epsilon)} nats per {certificate.unit}; "
            f"used by {', '.join(paths) or 'no whole route'}.",
            unit=certificate.unit,
            make=lambda _, releaser=releaser: releaser,  # type: ignore[misc]
        )
        choices.append(choice)
    return choices
