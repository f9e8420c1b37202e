"""Names of people, organisations and places, and addresses."""

from collections import Counter

from scipy import stats
from support.cases import over
from support.session_draws import Names, SeededDraws, replaced

from dp_middleware.pseudonyms.kinds import Address, Organisation, Person, Place
from dp_middleware.pseudonyms.kinds.names import LOCALES, family_names, given_names, names


def shapes(kind, mention):
    return [(mention[a:b], shape) for a, b, shape in kind.parts(mention)]


NAMES = [("Maria Lopez", [("Maria", "given"), ("Lopez", "family")])]
NAMES += [("Ms Lopez’s", [("Lopez", "family")])]
NAMES += [("Prof. Dr. Anna-Lena Kurz", [("Anna", "given"), ("Lena", "given"), ("Kurz", "family")])]
NAMES += [("Ana Smith-Jones", [("Ana", "given"), ("Smith", "family"), ("Jones", "family")])]
NAMES += [("J.Lopez", [("J", "A"), ("Lopez", "family")]), ("Dr.Lopez", [("Lopez", "family")])]
NAMES += [("Lopez, Maria", [("Lopez", "family"), ("Maria", "given")])]
NAMES += [("J. R. R. Tolkien", [("J.", "A."), ("R.", "A."), ("R.", "A."), ("Tolkien", "family")])]
NAMES += [("Vincent van Gogh", [("Vincent", "given"), ("Gogh", "family")])]
NAMES += [("van Gogh", [("Gogh", "given")])]
NAMES += [("Van Morrison", [("Van", "given"), ("Morrison", "family")])]
NAMES += [("Omar al-Rashid", [("Omar", "given"), ("Rashid", "family")]), ("Dr.", [("Dr", "given")])]
NAMES += [("王小明", [("王小明", "given")])]
HOMES = [("Harbor", [("Harbor", "*")]), ("Park Street 5", [("Park Street 5", "* =Street 9")])]
HOMES += [("Suite", [("Suite", "*")]), ("12 rue des Lilas", [("12 rue des Lilas", "99 =rue *")])]
HOMES += [("Große Lindenstraße 4a", [("Große Lindenstraße 4a", "*straße 9a")])]
HOMES += [("C/ Mayor 3, 2º B", [("C/ Mayor 3", "* 9"), ("2º B", "9º *")])]
HOMES += [
    (
        "7 Elm Terrace, Apt 5B\nOslo",
        [("7 Elm Terrace", "9 * =Terrace"), ("Apt 5B", "=Apt 9A"), ("Oslo", "*")],
    )
]


@over("kind, units", [(Person(), NAMES), (Address(), HOMES)])
def test_units_of_names_and_addresses(kind, units):
    for mention, expected in units:
        assert shapes(kind, mention) == expected


def test_parts_of_a_name_are_the_same_later():
    person = Names(Person(), SeededDraws())
    first, family = person("Maria Lopez").split()
    assert person("Maria") == first
    assert person("Ms Lopez's") == f"Ms {family}'s"
    assert person("MARIA LOPEZ") == f"{first} {family}".upper()
    assert person("Dr. maria") == f"Dr. {first.lower()}"


def chi_square(draws, expected):
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


@over("language", LOCALES)
def test_names_are_those_of_the_declared_language_whoever_is_named(language):
    listed = {*given_names(LOCALES[language])}
    assert min(len(listed), len(family_names(LOCALES[language]))) > 90
    for mention in ("Maria", "Yusuf"):
        assert {replaced(Person(language=language), mention, n) for n in range(50)} <= listed


def test_gender_is_kept_only_where_it_is_asked_for():
    listed = {name.casefold() for name in names("first_names_female")}
    for kind in (Person(), Person(keep_gender=True)):
        drawn = {replaced(kind, "Maria", seed).casefold() for seed in range(200)}
        assert (drawn <= listed) == kind.keep_gender


@over("mention", ["Иван Петров", "王小明", "محمد", "דוד", "김철수"])
def test_a_script_is_kept_only_where_it_is_asked_for(mention):
    kept = replaced(Person(keep_script=True), mention)
    assert not any(character.isascii() for character in kept.replace(" ", "").replace("-", ""))
    assert replaced(Person(), mention).isascii()


def test_more_names_than_are_listed():
    person = Names(Person(), SeededDraws())
    for n in range(5_000):
        person.unit(f"name{n}", "given")
    assert len(person.used) == 5_000


FIRMS = [("Acme Inc.", "Acme"), ("The Foo Bar Company, Ltd.", "Foo Bar")]
FIRMS += [("Siemens AG's", "Siemens"), ("Müller & Co. KG", "Müller"), ("Inc", "Inc")]
FIRMS += [("The", "The")]


@over("mention, core", FIRMS)
def test_legal_forms_stay(mention, core):
    assert shapes(Organisation(), mention) == [(core, "")]
    before, behind = mention.split(core)
    text = replaced(Organisation(), mention)
    assert text.startswith(before)
    assert text.endswith(behind)


def test_places_and_addresses():
    assert replaced(Place(), "New York's").endswith("'s")
    line, flat, town = replaced(Address(), "742 Evergreen Terrace, Apt 5B, Springfield").split(", ")
    assert line.split()[0].isdigit()
    assert line.endswith(" Terrace")
    assert flat.startswith("Apt ")
    assert town in family_names()
