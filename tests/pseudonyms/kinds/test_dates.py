"""Dates: what survives a shift, exact laws, formats."""

import math
import re
from collections import Counter
from datetime import date, timedelta
from fractions import Fraction
from zlib import crc32

import pytest
from hypothesis import given, strategies as st
from scipy import stats
from support.cases import over
from support.session_draws import Names, SeededDraws, law_of, replaced

from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.kinds import Date, dates
from dp_middleware.pseudonyms.kinds.date_formats import MONTHS, read, write

DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))
TEMPLATES = ["%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%B %e, %Y", "%e %B %Y", "%b %e %Y", "%d %b. %Y"]
TEMPLATES += ["%A, %B %e, %Y", "%a, %e %b %Y", "the %o of %B, %Y", "es|%A, %e de %B de %Y"]
TEMPLATES += [f"{language}|%e. %B %Y" for language in MONTHS if language != "en"]


@given(day=DAYS, template=st.sampled_from(TEMPLATES))
def test_dates_are_read_as_they_are_written(day, template):
    reading = read(write(template, day), "mdy", template.rpartition("|")[0] or "en")
    assert reading.day == day
    assert write(reading.template, day) == write(template, day)


@given(days=st.lists(DAYS, min_size=2, max_size=8, unique=True), seed=st.integers(0, 999))
def test_intervals_and_weekdays_survive(days, seed):
    names, moved = Names(Date(), SeededDraws(seed)), []
    for day in days:
        text = names(write("%A, %B %e, %Y", day))
        moved.append(read(text, "mdy").day)
        assert text == write("%A, %B %e, %Y", moved[-1])
    [shift] = {new - old for new, old in zip(moved, days, strict=True)}
    assert shift.days % 7 == 0
    assert abs(shift) < timedelta(days=4 * 366)
    assert (moved[0].year - 1) // 4 == (days[0].year - 1) // 4


def of_leap_year(template, n):
    return write(template, date(2000, 1, 1) + timedelta(days=n % 366))


def test_many_dates_stay_apart():
    names = Names(Date(), SeededDraws(7))
    mentions = [(date(2015, 1, 1) + timedelta(days=n)).isoformat() for n in range(4000)]
    mentions += [write("%B %Y", date(2000 + n // 12, n % 12 + 1, 1)) for n in range(240)]
    mentions += [str(1900 + n) for n in range(150)]
    mentions += [of_leap_year("%B %e", n) for n in range(366)]
    drawn = [names(mention) for mention in mentions]
    assert len({*drawn}) == len(drawn)
    assert not any("DATE_" in text for text in drawn)


def first_law(*mentions):
    return law_of(lambda draws: tuple(map(Names(Date(), draws), mentions)))


@over(
    "one, other",
    [
        ("2021-01-07", "2024-12-26"),  # Thursdays of the same four years
        ("February 29, 2024", "March 7, 2024"),
        ("2021", "2024"),
        ("January 2021", "December 2024"),
    ],
)
def test_the_law_of_a_first_date_does_not_tell_which_it_was(one, other):
    assert first_law(one) == first_law(other)


@pytest.mark.slow
def test_the_joint_law_is_that_of_any_dates_with_the_same_intervals():
    one = first_law("2023-05-01", "2023-05-03", "2023-06-12", "August 2024")
    # two years of 365.2425 days are no whole weeks: months are compared by themselves below
    other = first_law("2023-05-08", "2023-05-10", "2023-06-19")
    assert {key[:3]: None for key in one} == dict.fromkeys(other)
    assert {*other.values()} == {Fraction(1, len(other))}
    assert first_law("2021", "2023") == first_law("2022", "2024")
    assert first_law("June 2021", "2021") == first_law("June 2022", "2022")


@over(
    "template, after",
    [("%B %e", ()), ("%A, %B %e", ()), ("the %o of %B", (1, 40)), ("de|%e. %B", (365, 200))],
)
def test_dates_without_a_year_have_one_law_exactly(template, after):
    template = template.replace("%A", "Monday")
    laws = [
        first_law(of_leap_year(template, n), *(of_leap_year("%B %e", n + k) for k in after))
        for n in range(0, 366, 25)
    ]
    assert all(law == laws[0] for law in laws)
    assert [*laws[0].values()] == [Fraction(1, 366)] * 366


@over(
    "one, other",
    [
        (("2023-05-01", "May 4", "2023-05-02"), ("2022-08-15", "August 18", "2022-08-16")),
        (("2024-02-29", "March 1", "April 1"), ("2021-03-04", "March 5", "April 5")),
        (("June 2021", "May 4"), ("June 2022", "May 4")),
        (("2021", "May 4"), ("2024", "May 4")),
        (("May 4", "2023-05-01", "May 6"), ("January 31", "2022-08-15", "February 2")),
        (("May 4", "June 2021", "2021"), ("May 5", "June 2022", "2022")),
    ],
)
def test_dates_with_and_without_a_year_tell_declared_differences_alone(one, other, monkeypatch):
    """Behind a date with a year, days of a leap year to it; before it, nothing at all."""
    every = dates.targets
    monkeypatch.setattr(dates, "targets", lambda grain, place: every(grain, place)[::17])
    assert first_law(*one) == first_law(*other)


def test_a_day_of_the_first_date_is_the_same_day_without_its_year():
    for seed in range(50):
        names = Names(Date(), SeededDraws(seed))
        assert names("May 4, 2024").startswith(names("May 4") + ", ")


def test_a_shift_that_is_never_zero_would_tell():
    class Moving(Date):
        def draw(self, key, shape, free, draws):
            return super().draw(key, shape, lambda text: free(text) and text != key, draws)

    one, other = "2021-01-07", "2024-12-26"
    assert law_of(lambda draws: Names(Moving(), draws)(one)) != law_of(
        lambda draws: Names(Moving(), draws)(other)
    )


def test_a_secret_draw_for_all_of_a_session():
    texts = {replaced(Date(), "2024-03-01", seed) for seed in range(3000)}
    assert len(texts) in (208, 209)


FORMATS = [("2024-03-01 09:20:30.123+02:00", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+02:00")]
FORMATS += [("2024-03-01", r"\d{4}-\d\d-\d\d"), ("01/03/2024", r"\d\d/\d\d/\d{4}")]
FORMATS += [("3/4/24", r"\d\d?/\d\d?/\d\d"), ("MARCH 1, 2024", r"[A-Z]+ \d\d?, \d{4}")]
FORMATS += [("March 1st, 2024", r"[A-Z][a-z]+ \d\d?(st|nd|rd|th), \d{4}")]
FORMATS += [("Mar 2024", r"[A-Z][a-z]{2} \d{4}"), ("Monday", r"[A-Z][a-z]+day")]
FORMATS += [("from March 1 to April 15, 2024", r"from [A-Z]\w+ \d\d? to [A-Z]\w+ \d\d?, \d{4}")]
FORMATS += [("since 2019-2021", r"since \d{4}-\d{4}"), ("3 p.m.", r"\d\d? [ap]\.m\.")]
FORMATS += [("10:30 on March 1, 2024", r"\d\d?:\d\d on [A-Z]\w+ \d\d?, \d{4}")]
FORMATS += [("3:15 PM", r"\d\d?:\d\d [AP]M"), ("18h30", r"\d\d?h\d\d")]
FORMATS += [("10:30-11:30", r"\d\d?:\d\d-\d\d?:\d\d"), ("two weeks ago", r"DATE_\d\d")]
FORMATS += [("the 1980s", r"(the )?DATE_\d\d"), ("February 30, 2024", r"DATE_\d\d")]


@over("mention, pattern", FORMATS)
@over("law", ["shift", "near", "uniform"])
def test_formats_stay(mention, pattern, law):
    for seed in range(10):
        assert re.fullmatch(pattern, replaced(Date(law=law), mention, seed))


ORDERS = [("01/03/2024", "mdy", 1), ("01/03/2024", "dmy", 3), ("13/03/2024", "mdy", 3)]


@over("text, order, month", ORDERS)
def test_the_order_of_day_and_month(text, order, month):
    assert read(text, order).day.month == month
    assert Date()._read("01.03.2024").day.month == 3
    assert Date(language="fr")._read("01/03/2024").day.month == 3
    assert read("5 Auguſt 2024", "mdy") is None  # a long s is no s


FOREIGN = [("3. März 2024", "de"), ("12. Okt. 1990", "de"), ("1er juin 2023", "fr")]
FOREIGN += [("1° ottobre 2021", "it"), ("lunes 7 de octubre de 2019", "es")]
FOREIGN += [("9 de setembro", "pt"), ("12 maart 2024", "nl"), ("12 sierpnia 1990", "pl")]
FOREIGN += [("sierpień 1990", "pl alone")]


@over("mention, language", FOREIGN)
@over("law", ["shift", "near", "uniform"])
def test_a_date_stays_in_its_language(mention, language, law):
    for seed in range(10):
        text = replaced(Date(law=law), mention, seed)
        template, was = read(text, "mdy", language).template, read(mention, "mdy").template
        assert template.lower() == was.lower()  # May is short and long
        assert template.startswith(f"{language}|")


def test_the_ends_of_the_calendar():
    for mention in ("0001-01-01", "9999-12-31", "9999", "December 9999", "January 0001"):
        for seed in range(20):
            assert replaced(Date(), mention, seed)


def test_a_shifted_date_in_use_moves_further():
    free = Names(Date(), SeededDraws(5))("2024-03-01")
    names = Names(Date(), SeededDraws(5), public={free})
    gap = date.fromisoformat(names("2024-03-01")) - date.fromisoformat(free)
    assert abs(gap.days) == 7


def test_times_are_uniform_or_kept():
    drawn = Counter(replaced(Date(), "14:30", seed).split(":")[0] for seed in range(4800))
    assert len(drawn) == 24
    assert stats.chisquare([*drawn.values()]).pvalue > 1e-4
    assert replaced(Date(times="kept"), "2024-03-01 14:30:05").endswith(" 14:30:05")


def test_months_and_weekdays_alone_are_uniform_without_replacement():
    names = Names(Date(), SeededDraws())
    months = [write("%B", date(2000, n, 1)) for n in range(1, 13)]
    assert {names(month) for month in months} == {*months}
    assert names("Mon") != names("Tue")
    assert {*first_law("Monday").values()} == {Fraction(1, 7)}
    assert names("Monday").endswith("day")


@over(
    "mentions",
    [
        [(date(2023, 1, 1) + timedelta(days=5 * n)).isoformat() for n in range(146)],
        [write("%B %Y", date(1951 + n // 12, n % 12 + 1, 1)) for n in range(600)],
        [str(n) for n in range(1901, 2001)],
        [of_leap_year("%B %e", n) for n in range(366)],
    ],
)
@over("taken", [1, 5])
def test_the_loss_of_near_dates_by_enumeration(mentions, taken):
    kind = Date(law="near", epsilon=1.5)
    [shape] = {kind.parts(mention)[0].shape for mention in mentions}
    points = kind.points(shape, lambda text: taken == 1 or crc32(text.encode()) % taken)
    rows = [kind.weights(mention.lower(), shape, points) for mention in mentions[::7]]
    assert len({sum(row) for row in rows}) == 1
    loss = max(math.log(max(column) / min(column)) for column in zip(*rows, strict=True))
    assert loss == pytest.approx(kind.loss)
    assert kind.loss <= 1.5


def test_uniform_dates():
    kind = Date(law="uniform", years=(2000, 2001))
    years = Counter(replaced(kind, "March 1, 1990", seed)[-4:] for seed in range(400))
    assert {*years} == {"2000", "2001"}
    assert kind.loss == Date().loss == 0


WRONG = [{"law": "x"}, {"order": "ymd"}, {"times": "x"}, {"years": (2000, 1999)}]
WRONG += [{"epsilon": value} for value in (0, -1.0, math.inf)]


@over("parameters", WRONG)
def test_bad_parameters(parameters):
    with pytest.raises(ParameterError):
        Date(**parameters)
