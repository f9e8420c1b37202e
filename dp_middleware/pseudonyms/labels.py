"""What detectors call the kinds of entity, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dp_middleware.errors import ParameterError

NAMES = frozenset({"person", "organisation", "place"})
"""Kinds that only a model finds: no pattern tells a name from another word."""

VALIDATED = frozenset({"email", "url", "phone", "iban", "card", "ssn", "ip"})
"""Kinds whose pattern is checked, by a checksum, a public list or their own signs."""

CONTEXTUAL = frozenset({"address", "age", "amount", "id", "username", "zip"})
"""Kinds that words beside a value tell, which a model of names takes for a date or a name."""

IDENTIFYING = frozenset({"id", "phone", "card", "ssn", "iban", "zip", "username", "secret"})
"""Kinds by which a number names somebody or something."""

_LABELS = {
    "person": "PERSON PER PERS NAME PERSON_NAME FULL_NAME FIRST_NAME LAST_NAME PATIENT STAFF HCW",
    "organisation": "ORGANISATION ORGANIZATION ORG COMPANY COMPANY_NAME HOSPITAL HOSP PATORG",
    "place": "PLACE LOCATION LOC GPE FAC FACILITY CITY COUNTRY STATE",
    "address": "ADDRESS STREET_ADDRESS STREET",
    "email": "EMAIL EMAIL_ADDRESS E_MAIL",
    "username": "USERNAME USER_NAME USER HANDLE",
    "url": "URL URI DOMAIN DOMAIN_NAME WEBSITE",
    "phone": "PHONE PHONE_NUMBER TELEPHONE TELEPHONE_NUMBER MOBILE_PHONE_NUMBER FAX FAX_NUMBER",
    "iban": "IBAN IBAN_CODE",
    "card": "CARD CREDIT_CARD CREDIT_CARD_NUMBER CARD_NUMBER",
    "ssn": "SSN US_SSN SOCIAL_SECURITY_NUMBER",
    "ip": "IP IP_ADDRESS",
    "zip": "ZIP ZIP_CODE ZIPCODE POSTCODE POSTAL_CODE UK_POSTCODE",
    "date": "DATE TIME DATE_TIME DATETIME DATE_OF_BIRTH BIRTHDAY",
    "amount": "AMOUNT MONEY PRICE",
    "age": "AGE",
    "number": "NUMBER CARDINAL QUANTITY PERCENT PERCENTAGE",
    "id": "ID CRYPTO MAC_ADDRESS UUID UK_NHS UK_NINO MEDICAL_LICENSE MEDICAL_RECORD_NUMBER MRN "
    "US_BANK_NUMBER US_DRIVER_LICENSE US_ITIN US_PASSPORT PASSPORT PASSPORT_NUMBER "
    "DRIVER_LICENSE BANK_ACCOUNT ACCOUNT_NUMBER",
    "secret": "SECRET PASSWORD PASSPHRASE PASSCODE PIN TOKEN API_KEY ACCESS_TOKEN PRIVATE_KEY "
    "CREDENTIAL CREDENTIALS CONNECTION_STRING",
    "nrp": "NRP NORP",
}

KIND_OF_LABEL: Mapping[str, str] = MappingProxyType(
    {label: kind for kind, labels in _LABELS.items() for label in labels.split()}
)
"""The kind of each known label; any other label is a kind of its own, in lower case."""


def kind_of(label: Any) -> str:
    """The kind that a detector means by a label, such as ``"person"`` for ``"B-PER"``."""
    if not isinstance(label, str) or not label.strip():
        raise ParameterError(f"expected a kind as a str, got a {type(label).__name__}")
    return _kind_of(label)


@lru_cache(maxsize=1024)
def _kind_of(label: str) -> str:
    names = [re.sub(r"[\W_]+", "_", each.strip()).strip("_") for each in (label, label.strip()[2:])]
    is_part = re.match(r"[BIESLU]-", label.strip()) and names[0].upper() not in KIND_OF_LABEL
    name = names[1] if is_part else names[0]
    return KIND_OF_LABEL.get(name.upper(), name.lower())


def kinds_of(labels: Collection[str]) -> frozenset[str]:
    """The kinds that are asked for.

    Raises:
        ParameterError: One str, or none.
    """
    kinds = frozenset() if isinstance(labels, str) else frozenset(map(kind_of, labels))
    if not kinds:
        raise ParameterError("expected a collection of kinds, such as {'person', 'email'}")
    return kinds
