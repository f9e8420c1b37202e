"""Kinds of entities, and what each is replaced by."""

from __future__ import annotations

from dp_middleware.pseudonyms.draws import Part
from dp_middleware.pseudonyms.kinds.contacts import Email, Ip, Phone, Secret, Url, Username
from dp_middleware.pseudonyms.kinds.dates import Date
from dp_middleware.pseudonyms.kinds.ids import Card, Iban, Id, Label, Ssn, Zip
from dp_middleware.pseudonyms.kinds.names import Address, Organisation, Person, Place
from dp_middleware.pseudonyms.kinds.numbers import Age, Amount, Number
from dp_middleware.pseudonyms.mapping import Kind

# fmt: off
__all__ = [
    "Address", "Age", "Amount", "Card", "Date", "Email", "Iban", "Id", "Ip", "Kind", "Label",
    "Number", "Organisation", "Part", "Person", "Phone", "Place", "Secret", "Ssn", "Url",
    "Username", "Zip", "default_kinds",
]
# fmt: on


class Kinds(dict[str, Kind]):
    """Kinds by their names; one that has no law of its own gets labels."""

    def __missing__(self, name: str) -> Kind:
        return Label(of=name)


LABELS = Kinds()  # for every kind


def default_kinds(language: str | None = None) -> Kinds:
    """Returns every kind with its default law, by its name; what is declared of their language."""
    spoken = [kind(language=language) for kind in (Person, Organisation, Place, Address, Phone)]
    kinds: list[Kind] = [*spoken, Email(), Username(), Url(), Iban(), Card(), Ssn(), Id(), Ip()]
    kinds += [Zip(), Date(language=language), Secret(), Amount(), Age(), Number(), Label()]
    return Kinds((kind.name, kind) for kind in kinds)
