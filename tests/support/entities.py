"""A detector that knows what is private in advance, for tests of pseudonyms."""

from __future__ import annotations

import re
from collections.abc import Callable

ENTITIES = {
    "Maria Lopez": "person",
    "Acme Trading Ltd": "organisation",
    "maria.lopez@acme.test": "email",
    "+1 415 555 2671": "phone",
    "2024-03-01": "date",
    "2024-03-15": "date",
    "$12,500.00": "amount",
    "Berlin": "place",
    "AB-12345": "id",
}
CONTRACT = (
    "Maria Lopez of Acme Trading Ltd (maria.lopez@acme.test, +1 415 555 2671) signed AB-12345 in "
    "Berlin on 2024-03-01 for $12,500.00, due 2024-03-15. MARIA LOPEZ's copy is kept; Maria agreed."
)


def detector(entities: dict[str, str] = ENTITIES) -> Callable[[str], list[tuple[int, int, str]]]:
    """Finds these texts, longest first."""
    ordered = sorted(entities, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, ordered)) or r"(?!)")

    def find(text: str) -> list[tuple[int, int, str]]:
        return [(*match.span(), entities[match.group()]) for match in pattern.finditer(text)]

    return find
