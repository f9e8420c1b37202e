"""What detectors call the kinds of entity, and can find, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dp_middleware.errors import ParameterError

NAMES = frozenset({"person", "organisation", "place"})  # kinds that only a model finds
# kinds whose pattern is checked, by a checksum, a public list or their own signs
VALIDATED = frozenset({"email", "url", "phone", "iban", "card", "ssn", "ip"})
# kinds that words beside a value tell, which a model of names takes for a date or a name
CONTEXTUAL = frozenset({"address", "age", "amount", "id", "username", "zip"})
# kinds by which a number names somebody or something
IDENTIFYING = frozenset({"id", "phone", "card", "ssn", "iban", "zip", "username", "secret"})
_LABELS = {
    "person": "PERSON PER PERS PRS NAME NAM PERSON_NAME FULL_NAME FIRST_NAME LAST_NAME MIDDLE_NAME "
    "GIVEN_NAME SURNAME FAMILY_NAME PRIVATE_PERSON PATIENT PATIENT_NAME STAFF HCW DOCTOR "
    "PERSNAME PERS_NAME PERSON_FIRST_NAME PERSON_LAST_NAME DRIVER_NAME MAIDEN_NAME",
    "organisation": "ORGANISATION ORGANIZATION ORG COMPANY COMPANY_NAME HOSPITAL HOSP "
    "HOSPITAL_NAME PATORG ORGNAME ORGANISATION_NAME ORGANIZATION_NAME "
    "INSURANCE_COMPANY BUSINESS SCHOOL",
    "place": "PLACE LOCATION LOC GPE FAC FACILITY CITY COUNTRY STATE COUNTY PLACENAME PLACE_NAME "
    "GEOGNAME GEOG_NAME REGION TOWN LOCATION_CITY LOCATION_STATE LOCATION_COUNTRY PROVINCE "
    "GPE_LOC GPE_ORG COORDINATE LOCATION_COORDINATE NEARBY_GPS_COORDINATE GPS_COORDINATES",
    "address": "ADDRESS STREET_ADDRESS STREET STREET_NAME BUILDING_NUMBER BUILDING_NUM BUILDING "
    "SECONDARY_ADDRESS PRIVATE_ADDRESS HOME_ADDRESS LOCATION_ADDRESS LOCATION_STREET",
    "email": "EMAIL EMAIL_ADDRESS E_MAIL MAIL PRIVATE_EMAIL",
    "username": "USERNAME USER_NAME USER HANDLE SOCIAL_MEDIA_HANDLE ACCOUNT_NAME LOGIN",
    "url": "URL URI DOMAIN DOMAIN_NAME WEBSITE PRIVATE_URL",
    "phone": "PHONE PHONE_NUMBER PHONE_NUM TELEPHONE TELEPHONE_NUMBER TELEPHONE_NUM TEL MOBILE "
    "MOBILE_PHONE MOBILE_PHONE_NUMBER LANDLINE LANDLINE_PHONE_NUMBER FAX FAX_NUMBER PRIVATE_PHONE",
    "iban": "IBAN IBAN_CODE",
    "card": "CARD CREDIT_CARD CREDIT_CARD_NUMBER CREDIT_DEBIT_CARD CARD_NUMBER",
    "ssn": "SSN US_SSN SOCIAL_SECURITY_NUMBER SOCIAL_NUM SOCIAL_NUMBER",
    "ip": "IP IP_ADDRESS IPV4 IPV6",
    "zip": "ZIP ZIP_CODE POST_CODE POSTAL_CODE UK_POSTCODE LOCATION_ZIP",
    "date": "DATE TIME DATE_TIME DATETIME DATE_OF_BIRTH BIRTHDAY BIRTH_DATE DOB PRIVATE_DATE "
    "CREDIT_CARD_EXPIRATION_DATE PASSPORT_EXPIRATION_DATE EXPIRATION_DATE",
    "amount": "AMOUNT MONEY PRICE",
    "age": "AGE",
    "number": "NUMBER CARDINAL QUANTITY PERCENT PERCENTAGE ORDINAL",
    "secret": "SECRET PASSWORD PASSPHRASE PASSCODE PIN TOKEN API_KEY ACCESS_TOKEN PRIVATE_KEY "
    "CREDENTIAL CREDENTIALS CONNECTION_STRING CVV CVC CREDIT_CARD_CVV",
    "id": "ID CRYPTO MAC MAC_ADDRESS UUID PHONE_IMEI IMEI UK_NHS UK_NINO MEDICAL_LICENSE "
    "MEDICAL_RECORD_NUMBER MRN HEALTH_PLAN BITCOIN_ADDRESS ETHEREUM_ADDRESS LITECOIN_ADDRESS "
    "US_BANK_NUMBER US_DRIVER_LICENSE US_ITIN US_PASSPORT US_NPI US_MBI PASSPORT PASSPORT_NUM "
    "DRIVER_LICENSE DRIVERS_LICENSE BANK_ACCOUNT ROUTING_NUMBER ACCOUNT_NUMBER ACCOUNT_NUM "
    "MASKED_NUMBER GOVERNMENT_ID TAX_ID TAX_NUM ID_CARD ID_CARD_NUM DRIVER_LICENSE_NUM BIC SWIFT "
    "SWIFT_BIC CPF CNPJ VIN VEHICLE_VIN VEHICLE_VRM VEHICLE_IDENTIFIER LICENSE_PLATE "
    "CERTIFICATE_LICENSE_NUMBER UNIQUE_ID UNIQUE_IDENTIFIER DEVICE_IDENTIFIER BIOMETRIC_IDENTIFIER "
    "CUSTOMER_ID EMPLOYEE_ID HEALTH_PLAN_BENEFICIARY_NUMBER HTTP_COOKIE ES_NIF ES_NIE "
    "IT_FISCAL_CODE IT_DRIVER_LICENSE IT_VAT_CODE IT_PASSPORT IT_IDENTITY_CARD PL_PESEL "
    "SG_NRIC_FIN SG_UEN AU_ABN AU_ACN AU_TFN AU_MEDICARE IN_PAN IN_AADHAAR "
    "IN_VEHICLE_REGISTRATION IN_VOTER IN_PASSPORT IN_GSTIN FI_PERSONAL_IDENTITY_CODE KR_RRN "
    "KR_BRN KR_PASSPORT KR_DRIVER_LICENSE KR_FRN TH_TNIN SE_PERSONNUMMER "
    "SE_ORGANISATIONSNUMMER UK_PASSPORT UK_VEHICLE_REGISTRATION "
    "DE_TAX_ID DE_TAX_NUMBER DE_PASSPORT DE_ID_CARD DE_SOCIAL_SECURITY DE_HEALTH_INSURANCE "
    "DE_KFZ DE_HANDELSREGISTER DE_VAT_ID DE_DRIVER_LICENSE",
    "nrp": "NRP NORP DEM DEMONYM",
    "misc": "MISC MISCELLANEOUS",
    "event": "EVENT EVT",
    "language": "LANGUAGE",
    "law": "LAW",
    "product": "PRODUCT PROD",
    "work_of_art": "WORK_OF_ART WORK",
    "job": "JOB JOB_TITLE JOB_AREA JOB_TYPE JOB_DEPARTMENT OCCUPATION PROFESSION TITLE PREFIX",
    "gender": "GENDER SEX SEX_TYPE",
}

# the kind of each known label; any other label is a kind of its own, in lower case
KIND_OF_LABEL: Mapping[str, str] = MappingProxyType(
    {label: kind for kind, labels in _LABELS.items() for label in labels.split()}
)
_JOINED = {label.replace("_", ""): kind for label, kind in KIND_OF_LABEL.items()}
_NUMBERED = re.compile(r"(?:^|_)(?:NUMBER|NUM|NO|ID|CODE|IDENTIFIER)$")
_BIRTH = re.compile(r"(?:^|_)(?:BIRTH|DATE)(?:_|$)")


@lru_cache(maxsize=1024)
def kind_of(label: Hashable) -> str:
    """Returns the kind that a detector means by a label, such as ``"person"`` for ``"B-PER"``."""
    if not isinstance(label, str) or not label.strip():
        raise ParameterError(f"expected a kind as a str, got a {type(label).__name__}")
    names = [re.sub(r"[\W_]+", "_", each.strip()).strip("_") for each in (label, label.strip()[2:])]
    is_part = re.match(r"[BIESLU]-", label.strip()) and names[0].upper() not in KIND_OF_LABEL
    name = (names[1] if is_part else names[0]).upper()
    known = KIND_OF_LABEL.get(name) or _JOINED.get(name.replace("_", ""))
    if known is None and _NUMBERED.search(name):
        return "id"  # "health insurance number" of a model that takes any label
    return known or ("date" if _BIRTH.search(name) else name.lower())


KNOWN = tuple(_LABELS)  # all kinds that have a name of their own


def is_known(kind: str) -> bool:
    """Whether a kind is one that the table has, and so surely no other kind under another name."""
    return kind in _LABELS


def refuse_slips(kinds: Collection[str]) -> None:
    """Refuses a kind that is spelled almost as one of the table: nothing of that would be found."""
    for kind in sorted(kinds):
        near = [] if is_known(kind) else get_close_matches(kind, _LABELS, n=1, cutoff=0.8)
        if near:
            raise ParameterError(f"expected a kind, got {kind!r}; did you mean {near[0]!r}?")


def kinds_of(labels: Collection[str]) -> frozenset[str]:
    """The kinds that are asked for; one str, or none, is refused."""
    kinds = frozenset() if isinstance(labels, str) else frozenset(map(kind_of, labels))
    if not kinds:
        raise ParameterError("expected a collection of kinds, such as {'person', 'email'}")
    return kinds


# fmt: off
# components of spaCy that find no named entities
_NAMELESS = frozenset({
    "tok2vec", "transformer", "curated_transformer", "tagger", "parser", "senter", "sentencizer",
    "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer", "textcat",
    "textcat_multilabel", "spancat", "spancat_singlelabel", "entity_linker", "merge_entities",
    "merge_noun_chunks",
})
# fmt: on


def entities_of_analyzer(analyzer: Any, language: str) -> frozenset[str] | None:
    """Lists what a Presidio analyzer can find; ``None`` where it does not say.

    Its recognizer for names claims to find them whatever its model is: this asks the model.
    """
    if not hasattr(analyzer, "get_recognizers"):
        return None
    able: set[str] = set()
    for recognizer in analyzer.get_recognizers(language):
        entities = set(recognizer.get_supported_entities())
        known = _entities_of_model(analyzer.nlp_engine, language)
        able |= entities & known if _reads_model(recognizer) and known is not None else entities
    return frozenset(able)


def labels_of_pipeline(pipeline: Any) -> set[str] | None:
    """Lists labels of named entities of a spaCy ``Language``; ``None``: a part does not say."""
    labels: set[str] = set()
    for name in pipeline.pipe_names:
        if pipeline.get_pipe_meta(name).factory in _NAMELESS:
            continue
        known = getattr(pipeline.get_pipe(name), "labels", None)
        if known is None:
            return None
        labels.update(known)
    return labels


def _reads_model(recognizer: Any) -> bool:
    return any(base.__name__ == "SpacyRecognizer" for base in type(recognizer).__mro__)


def _entities_of_model(engine: Any, language: str) -> set[str] | None:
    pipeline = (getattr(engine, "nlp", None) or {}).get(language)
    if pipeline is None or not hasattr(pipeline, "pipe_names"):
        return None
    labels = labels_of_pipeline(pipeline)
    if labels is None:
        return None
    renamed = engine.ner_model_configuration.model_to_presidio_entity_mapping
    return {renamed.get(label, label) for label in labels}
