"""Libraries of the extra ``detect``, loaded where they are used, and Faker's public lists."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from dp_middleware.errors import MissingExtra
from dp_middleware.pseudonyms.kinds.laws import words


def library(module: str, package: str) -> Any:
    """An optional library.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(package, "detect") from None


@cache
def names(attribute: str, locale: str = "en_US") -> tuple[str, ...]:
    """Faker's names of people whose list's name starts so: every name once, in Faker's order."""
    provider = library(f"faker.providers.person.{locale}", "faker").Provider
    lists = [getattr(provider, name) for name in dir(provider) if name.startswith(attribute)]
    every = (word for each in lists for word in each if isinstance(word, str))
    return tuple(dict.fromkeys(word for word in every if word and " " not in word))


def given_names(locale: str = "en_US") -> tuple[str, ...]:
    """Of all genders."""
    return names("first_names", locale)


def family_names(locale: str = "en_US") -> tuple[str, ...]:
    """Of all genders."""
    return names("last_names", locale)


@cache
def gendered_names(gender: str) -> frozenset[str]:
    """American given names of one gender alone, in lower case."""
    other = "male" if gender == "female" else "female"
    lists = [{name.casefold() for name in names(f"first_names_{each}")} for each in (gender, other)]
    return frozenset(lists[0] - lists[1])


@cache
def town_endings() -> tuple[str, ...]:
    """With which Faker makes towns of names, such as "ville"."""
    provider = library("faker.providers.address.en_US", "faker").Provider
    return tuple(dict.fromkeys(provider.city_suffixes))


@cache
def street_words() -> frozenset[str]:
    """Kinds of street in lower case, such as "avenue", and short forms of the usual ones."""
    provider = library("faker.providers.address.en_US", "faker").Provider
    short = words("st ave rd blvd dr ln ct pl sq hwy pkwy ter cir")
    return frozenset(word.casefold() for word in provider.street_suffixes) | short
