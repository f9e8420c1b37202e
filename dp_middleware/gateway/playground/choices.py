"""What a person may choose on the page: ways to release a text, each made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.privacy.releases import Ledger
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.sanitizers.calibrated import document_sanitizer, sanitizer
from dp_middleware.sanitizers.sanitizer import Sanitizer

Releaser = Sanitizer | Pseudonyms


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A way to release a text.

    Attributes:
        name: In requests.
        title: On the page.
        about: A sentence on the page: what it protects.
        epsilon: Nats that stand in the form; ``None``: there are none to choose.
        unit: What epsilon is paid for.
        make: What releases at such an epsilon; may take minutes.
    """

    name: str
    title: str
    about: str
    epsilon: float | None
    unit: str
    make: Callable[[float], Releaser]


def default_choices(
    *,
    space: EmbeddingSpace | None = None,
    encoder: Encoder | None = None,
    detector: Any = None,
    ledger: Ledger | None = None,
    subject: str = "playground",
) -> tuple[Choice, ...]:
    """Pseudonyms, whole texts, words, and pseudonyms with words.

    Args:
        space: Of the words; default :func:`~dp_middleware.default_space`.
        encoder: Of whole texts; default an :class:`~dp_middleware.EmbeddingService`.
        detector: Of what gets pseudonyms; default that of the extra ``detect``.
        ledger: Charged before any draw; default: nothing is.
        subject: Whose budget is charged.
    """
    payer: dict[str, Any] = {} if ledger is None else {"ledger": ledger, "subject": subject}

    def words(epsilon: float) -> Sanitizer:
        return sanitizer(epsilon, space=space, **payer)

    def whole(epsilon: float) -> Sanitizer:
        return document_sanitizer(epsilon, space, encoder=encoder, **payer)

    def names(_: float) -> Pseudonyms:
        return Pseudonyms(detector, on_empty="pass", **payer)

    def both(epsilon: float) -> Pseudonyms:
        return Pseudonyms(detector, sanitizer=words(epsilon))

    return (
        Choice(
            name="pseudonyms",
            title="Pseudonyms",
            about="Names, contacts, dates and amounts get stand-ins, which are turned back in the "
            "answer. What is not found goes out as it is.",
            epsilon=None,
            unit="value",
            make=names,
        ),
        Choice(
            name="text",
            title="Whole text",
            about="A few public words and phrases are drawn for all of it; nothing else goes out.",
            epsilon=25.0,
            unit="text",
            make=whole,
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
            make=both,
        ),
    )
