"""Releases for columns of a table: one charge a subject, then one draw for all rows."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

import pyarrow as pa

from dp_middleware.corpora.once import Seed, once
from dp_middleware.corpora.pseudonymized import Found, draw, find
from dp_middleware.corpora.rows import refuse_columns, refuse_type
from dp_middleware.errors import ParameterError, withheld
from dp_middleware.privacy import Certificate, Guarantee
from dp_middleware.privacy.releases import Bill, Release
from dp_middleware.pseudonyms.labels import KNOWN, is_known, kind_of
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.session import PseudonymSession
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector, name_of

G = TypeVar("G", bound=Guarantee)

TOKENS, EPSILON = "dp_tokens", "dp_epsilon"
"""Columns of what is released, beside the texts: of all texts of a row, public."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Says which columns of a table are released, with what, and who pays.

    A sanitizer charges each subject of a chunk once, for all its texts there, before the first
    draw: epsilon for each text, as everywhere. Pseudonyms charge text by text; a row has
    pseudonyms of its own, which its columns share, and nobody can turn them back, unless a session
    has one mapping for all.

    Attributes:
        releaser: A sanitizer or pseudonyms; with a ledger, or nothing is charged.
        names: Of the columns.
        subject: A column that says whose budget a row is charged to; ``None``: the releaser's
            subject pays for all.
        scope: Finds the private spans of a text; everything else goes out as it is.
        kinds: Of pseudonyms, by column: each cell is one value of it, and nothing is detected.
        session: Of the pseudonyms: all rows share its mapping, which turns them back.
        found: What :meth:`find` found in the rows that are released next.

    Raises:
        ParameterError: No columns or one twice, a subject without a ledger, a scope for
            pseudonyms, or a kind that is unknown or for a sanitizer.
    """

    releaser: Sanitizer | Pseudonyms
    names: tuple[str, ...]
    subject: str | None = None
    scope: Detector | None = field(default=None, repr=False)
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    session: PseudonymSession | None = field(default=None, repr=False)
    found: Sequence[Sequence[Found]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: object = self.names
        if not isinstance(names, tuple) or not names or len({*names}) < len(names):
            raise ParameterError("expected names of columns, one or more, none twice")
        if self.subject in self.names:
            raise ParameterError("expected a column of subjects that is not itself released")
        if self.subject is not None and self.releaser.ledger is None:
            raise ParameterError("expected a ledger to charge with a column of subjects, got none")
        if self.scope is not None and isinstance(self.releaser, Pseudonyms):
            raise ParameterError("expected no scope= with pseudonyms: the detector finds the spans")
        if self.kinds and not isinstance(self.releaser, Pseudonyms):
            raise ParameterError("expected kinds of columns with pseudonyms alone")
        for name, kind in self.kinds.items():
            if not is_known(kind):
                raise ParameterError(
                    f"expected a kind of {name!r} out of {', '.join(KNOWN)}, got another"
                )

    @cached_property
    def fingerprint(self) -> str:
        """Of all that decides a release and who pays for it; a scope counts by its name."""
        releaser, scope = self.releaser, self.scope
        own: list[Any] = [releaser.subject, [*self.names], self.subject, releaser.ledger is None]
        if isinstance(releaser, Sanitizer):
            own += [sorted(releaser.policy.kept), repr(releaser.context), repr(releaser.encoder)]
        else:
            own += [releaser.fingerprint, sorted(self.kinds.items())]
        if scope is not None:
            own += [name_of(scope)]
        told = json.dumps([releaser.certificate.fingerprint, *own])
        return hashlib.sha256(told.encode()).hexdigest()[:32]

    @property
    def schema(self) -> pa.Schema:
        """Of what :meth:`release` returns."""
        texts = dict.fromkeys(self.names, pa.large_string())
        return pa.schema({**texts, TOKENS: pa.int64(), EPSILON: pa.float64()})

    def release(self, rows: pa.Table, seed: Seed | None = None) -> pa.Table:
        """Charge, then draw.

        Args:
            rows: Private; the columns, of strings, and that of subjects.
            seed: Of these rows: with an equal one a ``dp.PrivacyLedger`` is charged once, and the
                draw is the same; ``None``: both are anew.

        Returns:
            Public, (n,) rows: the columns, ``null`` where the text is, :data:`TOKENS` int64 and
            :data:`EPSILON` float64, nats.

        Raises:
            BudgetExhausted: From the ledger; nothing was drawn. Other subjects of the chunk may
                have been charged.
            ParameterError: A cell that is no text, or a row without a subject.
        """
        texts = [_strings(rows, name) for name in self.names]
        payers = self.payers(rows)
        releaser = once(self.releaser, seed, [self.fingerprint, texts, payers])
        if isinstance(releaser, Pseudonyms):
            kinds = [self.kinds.get(name) for name in self.names]
            found = self.found or [[None] * len(rows)] * len(texts)
            columns = list(zip(kinds, texts, found, strict=True))
            releases = draw(releaser, self.session, columns, payers)
        else:
            releases = self._drawn(releaser, texts, payers)
        released: dict[str, list[Any]] = {
            name: [one and one.text for one in column]
            for name, column in zip(self.names, releases, strict=True)
        }
        by_row = [[one for one in row if one is not None] for row in zip(*releases, strict=True)]
        released[TOKENS] = [sum(r.tokens_total for r in row) for row in by_row]
        released[EPSILON] = [math.fsum(r.charged for r in row) for row in by_row]
        return pa.table(released, schema=self.schema)

    def find(self, rows: pa.Table) -> list[list[Found]]:
        """What is found in some rows, for their release in another process; only of pseudonyms."""
        releaser = cast(Pseudonyms, self.releaser)
        return [find(releaser, self.kinds.get(n), _strings(rows, n)) for n in self.names]

    def payers(self, rows: pa.Table) -> list[str | None]:
        """Returns whose budget each row is charged to."""
        if self.subject is None:
            return [self.releaser.subject] * len(rows)
        subjects = _strings(rows, self.subject)
        if not all(name and name.strip() for name in subjects):
            raise ParameterError("expected a subject in each row, got a row without one")
        return subjects

    def _drawn(
        self,
        sanitizer: Sanitizer,
        texts: Sequence[Sequence[str | None]],
        payers: Sequence[str | None],
    ) -> list[list[Release | None]]:
        """All cells at once, with one charge for each subject and certificate."""
        cells = [
            (sanitizer.read(text, self.scope), payer)
            for column in texts
            for text, payer in zip(column, payers, strict=True)
            if text is not None
        ]

        def pay(bills: Sequence[Bill]) -> None:
            count, tokens, twin = Counter[Any](), Counter[Any](), copy.copy(sanitizer)
            for (_, payer), (certificate, n) in zip(cells, bills, strict=True):
                count[payer, certificate] += bool(n)
                tokens[payer, certificate] += n
            for (twin.subject, certificate), number in count.items():
                if certificate.unit == "text":  # a ledger multiplies by itself
                    twin.pay([(certificate, number)])
                elif number:
                    grown = of_texts(certificate, number)
                    twin.pay([(grown, tokens[twin.subject, certificate])])

        released = iter(sanitizer.release_drafts([draft for draft, _ in cells], pay=pay))
        return [[text if text is None else next(released)[0] for text in own] for own in texts]


Named = str | Sequence[str] | Mapping[str, str | None]
"""One column, several, or each with the kind of its cells; ``None``: free text."""


def fields_of(columns: Named) -> dict[str, Any]:
    """Returns the names and kinds of :class:`Columns`."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    named = columns.items() if isinstance(columns, Mapping) else ()
    kinds = {name: kind_of(kind) for name, kind in named if kind is not None}
    return {"names": names, "kinds": kinds}


def _strings(rows: pa.Table, name: str) -> list[str | None]:
    refuse_columns([name], rows.column_names)
    refuse_type(name, rows[name].type)
    with withheld(f"expected UTF-8 in the column {name!r}, got {{}}", UnicodeDecodeError):
        cells: list[str | None] = rows[name].to_pylist()
    return cells


@lru_cache(maxsize=256)
def of_texts(certificate: Certificate, texts: int) -> Certificate:
    """What ``texts`` of one subject cost together: so many times the epsilon of each.

    Basic composition, exact in decimals: as much as one charge for each text.
    """
    if texts == 1 or not certificate.finite:
        return certificate

    def grown(guarantee: G) -> G:
        fields = vars(guarantee).items()
        numbers = {name: _times(x, texts) for name, x in fields if isinstance(x, float | int)}
        return replace(guarantee, **cast(Any, numbers))

    return replace(
        certificate,
        guarantee=grown(certificate.guarantee),
        metric=certificate.metric and grown(certificate.metric),
        epsilon=_times(certificate.epsilon, texts),
        claimed=_times(certificate.claimed, texts),
        assumptions=(*certificate.assumptions, f"{texts} texts of one subject are charged at once"),
        witness=None,
        recovery=None,
        retention=None,
        recovery_in_english=None,
        retention_in_english=None,
    )


def _times(nats: float, times: int) -> float:
    """The product, in decimals never below the exact one: so a ledger reads its numbers."""
    exact = Fraction(repr(float(nats))) * times
    product = float(exact)
    return product if Fraction(repr(product)) >= exact else math.nextafter(product, math.inf)
