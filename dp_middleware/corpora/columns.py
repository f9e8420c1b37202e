"""Releases for columns of a table: one charge a subject, then one draw for all rows."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, cast

import pyarrow as pa

from dp_middleware.corpora.chunks import Seed, named_by
from dp_middleware.corpora.rows import refuse_columns, refuse_type
from dp_middleware.errors import ParameterError, withheld
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Bill, Release
from dp_middleware.pseudonyms.detection import Entity, plain_view
from dp_middleware.pseudonyms.labels import KNOWN, kind_of
from dp_middleware.pseudonyms.mapping import Mapping as Pairs
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.releasing import PseudonymSession
from dp_middleware.pseudonyms.rewriting import Mention, PseudonymDraft, places_of
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import PART

Cells = Sequence[str | None]
Found = tuple[tuple[Mention, ...], tuple[tuple[int, int], ...]] | None
"""The places of a cell that are replaced, and those that stay; ``None``: it is to be read here."""

Founds = Sequence[Sequence[Found]] | None  # by column, as the next two
Drafts = Sequence[Sequence[PseudonymDraft | None]]
Releases = list[list[Release | None]]

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
        kinds: Of pseudonyms, by column: each cell is one value of it, and nothing is detected.
        session: Of the pseudonyms: all rows share its mapping, which turns them back.

    Raises:
        ParameterError: No columns or one twice, a subject without a ledger, or a kind that is
            unknown or for a sanitizer.
    """

    releaser: Sanitizer | Pseudonyms
    names: tuple[str, ...]
    subject: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    session: PseudonymSession | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names: object = self.names
        if not isinstance(names, tuple) or not names or len({*names}) < len(names):
            raise ParameterError("expected names of columns, one or more, none twice")
        if self.subject in self.names:
            raise ParameterError("expected a column of subjects that is not itself released")
        if self.subject is not None and self.releaser.ledger is None:
            raise ParameterError("expected a ledger to charge with a column of subjects, got none")
        if self.kinds and not isinstance(self.releaser, Pseudonyms):
            raise ParameterError("expected kinds of columns with pseudonyms alone")
        for name, kind in self.kinds.items():
            if kind not in KNOWN:
                raise ParameterError(
                    f"expected a kind of {name!r} out of {', '.join(KNOWN)}, got another"
                )

    @cached_property
    def fingerprint(self) -> str:
        """Tells apart all that decides a release and who pays for it."""
        releaser = self.releaser
        own: list[Any] = [releaser.subject, [*self.names], self.subject, releaser.ledger is None]
        if isinstance(releaser, Sanitizer):
            own += [sorted(releaser.policy.kept), repr(releaser.context), repr(releaser.encoder)]
        else:
            own += [releaser.fingerprint, sorted(self.kinds.items())]
        told = json.dumps([releaser.certificate.fingerprint, *own])
        return hashlib.sha256(told.encode()).hexdigest()[:32]

    @property
    def schema(self) -> pa.Schema:
        """Types what :meth:`release` returns."""
        texts = dict.fromkeys(self.names, pa.large_string())
        return pa.schema({**texts, TOKENS: pa.int64(), EPSILON: pa.float64()})

    def release(self, rows: pa.Table, seed: Seed | None = None, found: Founds = None) -> pa.Table:
        """Charges, then draws.

        Args:
            rows: Private; the columns, of strings, and that of subjects.
            seed: With an equal one for equal rows a ``dp.PrivacyLedger`` is charged once, and the
                draw is the same; ``None``: both are anew.
            found: What :meth:`find` found in these rows; ``None``: they are read here.

        Returns:
            Public, (n,) rows of :attr:`schema`; ``null`` where the text is.

        Raises:
            BudgetExhausted: Nothing was drawn; other subjects may have been charged.
            ParameterError: A cell that is no text, or a row without a subject.
        """
        texts = [_strings(rows, name) for name in self.names]
        payers = self.payers(rows)
        releaser = named_by(self.releaser, seed, [self.fingerprint, texts, payers])
        if isinstance(releaser, Pseudonyms):
            releases = self._replaced(releaser, self._read(texts, found), payers)
        else:
            releases = self._drawn(releaser, texts, payers)
        by_row = [[one for one in row if one is not None] for row in zip(*releases, strict=True)]
        cells: list[Any] = [[one and one.text for one in column] for column in releases]
        cells.append([sum(r.tokens_total for r in row) for row in by_row])
        cells.append([math.fsum(r.charged for r in row) for row in by_row])
        return pa.table(dict(zip(self.schema.names, cells, strict=True)), schema=self.schema)

    def find(self, rows: pa.Table) -> list[list[Found]]:
        """Finds what is in some rows, for their release in another process; only of pseudonyms."""
        texts = [_strings(rows, name) for name in self.names]
        bare = [[None if PART in (text or "") else text for text in cells] for cells in texts]
        drafts = self._read(bare)
        return [
            [None if draft is None else (draft.places, draft.kept) for draft in column]
            for column in drafts
        ]

    def payers(self, rows: pa.Table) -> list[str | None]:
        """Returns whose budget each row is charged to."""
        if self.subject is None:
            return [self.releaser.subject] * len(rows)
        subjects = _strings(rows, self.subject)
        if not all(name and name.strip() for name in subjects):
            raise ParameterError("expected a subject in each row, got a row without one")
        return subjects

    def _read(self, texts: Sequence[Cells], found: Founds = None) -> Drafts:
        """What is replaced in all cells, as it was found or is found here."""
        pseudonyms = cast(Pseudonyms, self.releaser)
        known = found or [[None] * len(texts[0])] * len(texts)

        def draft(kind: str | None, text: str | None, found: Found) -> PseudonymDraft | None:
            if text is None:
                return None
            if found is None and kind is None:
                return pseudonyms.read(text)
            view = view_of(text) if kind is None else plain_view(text)
            if found is None:
                entities = [Entity(0, len(text), str(kind))] if text.strip() else []
                found = tuple(places_of(view, entities, pseudonyms.kinds)), ()
            return PseudonymDraft(view=view, places=found[0], kept=found[1])

        return [
            [draft(self.kinds.get(name), *cell) for cell in zip(*column, strict=True)]
            for name, *column in zip(self.names, texts, known, strict=True)
        ]

    def _replaced(self, pseudonyms: Pseudonyms, drafts: Drafts, payers: Cells) -> Releases:
        """Row by row; without a session the columns of a row share a mapping that nobody keeps."""
        releases: Releases = [[] for _ in drafts]
        payer, session = copy.copy(pseudonyms), self.session
        with nullcontext() if session is None else session.opened() as shared:
            for payer.subject, *row in zip(payers, *drafts, strict=True):
                with (Pairs() if shared is None else shared).drawn_with(payer.entropy) as mapping:
                    for column, draft in zip(releases, row, strict=True):
                        column.append(draft and payer.release_draft(draft, mapping)[0])
        return releases

    def _drawn(self, sanitizer: Sanitizer, texts: Sequence[Cells], payers: Cells) -> Releases:
        """All cells at once, with one charge for each subject and certificate."""
        cells = [
            (sanitizer.read(text), payer)
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
    """Makes the certificate of ``texts`` of one subject: so many times the epsilon of each.

    Basic composition, exact in decimals: as much as one charge for each text.
    """
    if texts == 1 or not certificate.finite:
        return certificate

    def grown(guarantee: Any) -> Any:
        fields = vars(guarantee).items()
        numbers = {name: _times(x, texts) for name, x in fields if isinstance(x, float | int)}
        return replace(guarantee, **numbers)

    return certificate.revised(
        guarantee=grown(certificate.guarantee),
        metric=certificate.metric and grown(certificate.metric),
        epsilon=_times(certificate.epsilon, texts),
        claimed=_times(certificate.claimed, texts),
        assumptions=(*certificate.assumptions, f"{texts} texts of one subject are charged at once"),
        witness=None,
    )


def _times(nats: float, times: int) -> float:
    """The product, in decimals never below the exact one: so a ledger reads its numbers."""
    exact = Fraction(repr(float(nats))) * times
    product = float(exact)
    return product if Fraction(repr(product)) >= exact else math.nextafter(product, math.inf)
