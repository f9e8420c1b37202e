"""Names of people, organisations and places, and addresses."""

from collections import Counter

import pytest
from scipy import stats
from support.cases import over
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.pseudonyms.kinds import Address, Organisation, Person, Place
from dp_middleware.pseudonyms.kinds.names import (
    LOCALES,
    family_names,
    gendered_names,
    given_names,
    names,
    titled,
)


def shapes(kind, mention):
    return [(mention[a:b], shape) for a, b, shape in kind.parts(mention)]


@over(
    "mention, expected",
    [
        ("Maria", [("Maria", "given")]),
        ("Maria Lopez", [("Maria", "given"), ("Lopez", "family")]),
        ("Ms. Lopez's", [("Lopez", "family")]),
        ("Ms Lopez’s", [("Lopez", "family")]),
        ("Prof. Dr. Anna-Lena Kurz", [("Anna", "given"), ("Lena", "given"), ("Kurz", "family")]),
        ("Ana Smith-Jones", [("Ana", "given"), ("Smith", "family"), ("Jones", "family")]),
        ("Lopez,Maria", [("Lopez", "family"), ("Maria", "given")]),
        ("J.Lopez", [("J", "A"), ("Lopez", "family")]),
        ("Lopez/Garcia", [("Lopez", "given"), ("Garcia", "family")]),
        ("Dr.Lopez", [("Lopez", "family")]),
        ("Lopez, Maria", [("Lopez", "family"), ("Maria", "given")]),
        ("J. R. R. Tolkien", [("J.", "A."), ("R.", "A."), ("R.", "A."), ("Tolkien", "family")]),
        ("J.R. Smith Jr.", [("J.R.", "A.A."), ("Smith", "family")]),
        ("Vincent van Gogh", [("Vincent", "given"), ("Gogh", "family")]),
        ("van Gogh", [("Gogh", "given")]),
        ("Van Morrison", [("Van", "given"), ("Morrison", "family")]),
        ("Omar al-Rashid", [("Omar", "given"), ("Rashid", "family")]),
        ("Patrick O'Neill", [("Patrick", "given"), ("O'Neill", "family")]),
        ("Dr.", [("Dr", "given")]),
        ("王小明", [("王小明", "given")]),
        ("(Maria)", [("Maria", "given")]),
        ("anna t. maida", [("anna", "given"), ("t.", "A."), ("maida", "family")]),
    ],
)
def test_units_of_a_name(mention, expected):
    assert shapes(Person(), mention) == expected


def test_parts_of_a_name_are_the_same_later():
    person = Names(Person(), SeededDraws())
    first, family = person("Maria Lopez").split()
    assert person("Maria") == first
    assert person("Ms Lopez's") == f"Ms {family}'s"
    assert person("MARIA LOPEZ") == f"{first} {family}".upper()
    assert person("Dr. maria") == f"Dr. {first.lower()}"


def chi_square(draws, expected):
    """How probable a deviation as large as that of the draws is."""
    counts = Counter(draws)
    assert {*counts} <= {*expected}
    total = len(draws) / len(expected)
    return stats.chisquare([counts[each] for each in expected], [total] * len(expected)).pvalue


def test_given_and_family_names_are_uniform():
    draws, person = SeededDraws(1), Person()
    for shape, listed in [("given", given_names()), ("family", family_names())]:
        assert len({*listed}) == len(listed) > 600
        drawn = [person.draw("", shape, lambda _: True, draws) for _ in range(20 * len(listed))]
        assert chi_square(drawn, listed) > 1e-4
        skewed = [min(drawn[n : n + 2]) for n in range(0, len(drawn), 2)] * 2
        assert chi_square(skewed, listed) < 1e-9


@pytest.mark.parametrize("language", LOCALES)
def test_names_are_those_of_the_declared_language_whoever_is_named(language):
    person = Person(language=language)
    listed = {*given_names(LOCALES[language])}
    assert len(listed) > 100
    assert len(family_names(LOCALES[language])) > 90
    for mention in ("Maria", "Yusuf"):
        drawn = {replaced(person, mention, seed) for seed in range(50)}
        assert drawn <= listed


def test_a_title_before_a_name_tells_a_surname():
    text = "Gestern kam Herr Dr. Kranich. Mr Doe"
    assert titled(text, text.index("Kranich"), 0) == text.index("Herr")
    assert titled(text, text.index("Doe"), 0) == text.index("Mr")
    assert titled(text, text.index("Doe"), text.index("Doe") - 1) == text.index("Doe")
    assert titled("Anna Lee", 5, 0) == 5


def test_gender_is_kept_only_where_it_is_asked_for():
    women, men = gendered_names("female"), gendered_names("male")
    assert not women & men
    plain, kept = Person(), Person(keep_gender=True)
    assert shapes(plain, "Maria") == [("Maria", "given")]
    assert shapes(kept, "Maria Lopez") == [("Maria", "female given"), ("Lopez", "family")]
    listed = {name.casefold() for name in names("first_names_female")}
    drawn = {replaced(kept, "Maria", seed).casefold() for seed in range(200)}
    assert drawn <= listed
    assert not {replaced(plain, "Maria", seed).casefold() for seed in range(200)} <= listed


@pytest.mark.parametrize("mention", ["Иван Петров", "王小明", "محمد", "דוד", "김철수"])
def test_a_script_is_kept_only_where_it_is_asked_for(mention):
    kept = replaced(Person(keep_script=True), mention)
    assert not any(character.isascii() for character in kept.replace(" ", "").replace("-", ""))
    assert replaced(Person(), mention).isascii()


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_more_names_than_are_listed(count):
    person = Names(Person(), SeededDraws())
    for n in range(count):
        person.unit(f"name{n}", "given")
    assert len(person.used) == count


@over(
    "mention, core",
    [
        ("Acme Inc.", "Acme"),
        ("The Foo Bar Company, Ltd.", "Foo Bar"),
        ("Siemens AG's", "Siemens"),
        ("Müller & Co. KG", "Müller"),
        ("Inc", "Inc"),
        ("The", "The"),
    ],
)
def test_legal_forms_stay(mention, core):
    assert shapes(Organisation(), mention) == [(core, "")]
    start = mention.index(core)
    text = replaced(Organisation(), mention)
    assert text.startswith(mention[:start])
    assert text.endswith(mention[start + len(core) :])


def test_words_for_streets_stay_behind_a_name_alone():
    assert shapes(Address(), "Harbor") == [("Harbor", "*")]
    assert shapes(Address(), "Park Street 5") == [("Park Street 5", "* =Street 9")]
    assert shapes(Address(), "Suite") == [("Suite", "*")]
    assert shapes(Address(), "12 rue des Lilas") == [("12 rue des Lilas", "99 =rue *")]
    assert shapes(Address(), "Große Lindenstraße 4a") == [("Große Lindenstraße 4a", "*straße 9a")]
    assert shapes(Address(), "C/ Mayor 3, 2º B") == [("C/ Mayor 3", "* 9"), ("2º B", "9º *")]


def test_places_and_addresses():
    assert replaced(Place(), "New York's").endswith("'s")
    assert shapes(Address(), "742 Evergreen Terrace, Apt 5B\nSpringfield") == [
        ("742 Evergreen Terrace", "999 * =Terrace"),
        ("Apt 5B", "=Apt 9A"),
        ("Springfield", "*"),
    ]
    line, flat, town = replaced(Address(), "742 Evergreen Terrace, Apt 5B, Springfield").split(", ")
    assert line.split()[0].isdigit()
    assert line.endswith(" Terrace")
    assert flat.startswith("Apt ")
    assert town in family_names()
