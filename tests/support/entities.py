"""A detector that knows what is private in advance, for tests of pseudonyms."""

import re

from dp_middleware.pseudonyms.kinds import Label
from dp_middleware.pseudonyms.mapping import Mapping, Pair

ENTITIES = {
    "Mirela Tamburi": "person",
    "Acme Trading Ltd": "organisation",
    "mirela.tamburi@acme.test": "email",
    "+1 415 555 2671": "phone",
    "2024-03-01": "date",
    "2024-03-15": "date",
    "$12,500.00": "amount",
    "Berlin": "place",
    "AB-12345": "id",
}
CONTRACT = (
    "Mirela Tamburi of Acme Trading Ltd (mirela.tamburi@acme.test, +1 415 555 2671) signed "
    "AB-12345 in Berlin on 2024-03-01 for $12,500.00, due 2024-03-15. MIRELA TAMBURI's copy is "
    "kept; Mirela agreed."
)


def detector(entities=ENTITIES):
    """Finds these texts, longest first."""
    ordered = sorted(entities, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, ordered)) or r"(?!)")

    def find(text):
        return [(*match.span(), entities[match.group()]) for match in pattern.finditer(text)]

    return find


HIDDEN = tuple(value for value, kind in ENTITIES.items() if kind != "date")
"""Those that are hardly drawn for themselves; a date may be, by a shift of two weeks."""


def private(server):
    """What a server saw of the entities and their parts."""
    parts = ("Mirela", "Tamburi", "MIRELA", "Acme")
    return [value for value in (*HIDDEN, *parts) if server.saw(value)]


def mapping_of(pairs):
    mapping = Mapping()
    for original, pseudonym in pairs.items():
        mapping.add(Pair(Label(), "", original, original, pseudonym))
    return mapping
