"""Pipelines: what releases whole texts in its own way, with a certificate of its own."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dp_middleware.errors import ParameterError
from dp_middleware.frameworks import PrivRewrite, PrivRewriteNaive
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.mapping import Mapping

_SUBJECT = "evaluation"


class Pipeline(ABC):
    """Releases texts as one call of its own, at its own epsilon.

    Args:
        name: Its name in the table.
        ledger: That of what is evaluated.

    Attributes:
        note: None, as it is what was asked for.
        seconds: To set it up: none are counted.

    Raises:
        ParameterError: There is a ledger.
    """

    note: ClassVar[str] = ""
    seconds: ClassVar[float] = 0.0

    def __init__(self, name: str, ledger: Ledger | None) -> None:
        if ledger is not None:
            raise ParameterError(
                "expected a pipeline without a ledger: an evaluation is of public texts and "
                "charges none"
            )
        self.name = name

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """Of every release, by the pipeline itself, which computes it at first use."""

    @abstractmethod
    def release(self, texts: Sequence[str]) -> tuple[list[Release], float]:
        """A release of each text, and the nats of the text that spends most.

        Args:
            texts: Private.

        Raises:
            ParameterError: A text that the pipeline does not release.
            RemoteError: Its chat model failed.
        """


class Rewriting(Pipeline):
    """A :class:`PrivRewrite`; each text is rewritten by itself.

    Args:
        rewrite: Without a ledger.
    """

    def __init__(self, rewrite: PrivRewrite) -> None:
        naive = isinstance(rewrite, PrivRewriteNaive)
        super().__init__("privrewrite-naive" if naive else "privrewrite", rewrite.sanitizer.ledger)
        self._rewrite = rewrite

    @property
    def certificate(self) -> Certificate:
        """Of the sanitizer and the choice together."""
        return self._rewrite.certificate

    def release(self, texts: Sequence[str]) -> tuple[list[Release], float]:
        """All texts at once."""
        charges, twin = _Charges(), copy.copy(self._rewrite)
        sanitizer = copy.copy(twin.sanitizer)
        sanitizer.ledger, sanitizer.subject = charges, _SUBJECT
        object.__setattr__(twin, "sanitizer", sanitizer)
        return twin.rewrite_batch(texts), max(charges.spent, default=0.0)


class Replacing(Pipeline):
    """:class:`Pseudonyms`; each text is a conversation of its own.

    Args:
        pseudonyms: Without a ledger.
    """

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        super().__init__("pseudonyms", pseudonyms.ledger)
        self._pseudonyms = pseudonyms

    @property
    def certificate(self) -> Certificate:
        """Of a release in which all kinds occur."""
        return self._pseudonyms.certificate

    def release(self, texts: Sequence[str]) -> tuple[list[Release], float]:
        """One text after the other."""
        twin, releases, largest = copy.copy(self._pseudonyms), [], 0.0
        twin.subject = _SUBJECT
        for text in texts:
            twin.ledger = charges = _Charges()
            releases.append(twin.release_draft(twin.read(text), Mapping())[0])
            largest = max(largest, math.fsum(charges.spent))
        return releases, largest


class _Charges:
    """A ledger in memory that grants everything.

    Attributes:
        spent: Nats of each charge.
    """

    def __init__(self) -> None:
        self.spent: list[float] = []

    def charge(self, subject: str, certificate: Certificate, n: int) -> None:
        """Note what a release of ``n`` tokens spends."""
        self.spent.append(certificate.epsilon * (1 if certificate.unit == "text" else n))


def pipeline_of(source: PrivRewrite | Pseudonyms) -> Pipeline:
    """What the evaluation runs.

    Raises:
        ParameterError: It has a ledger.
    """
    return Rewriting(source) if isinstance(source, PrivRewrite) else Replacing(source)
