"""The law of all pseudonyms of a conversation, by every way that its draws can go."""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest
from support.entities import detector
from support.ledgers import Charges
from support.session_draws import law_of

import dp_middleware as dp
from dp_middleware.pseudonyms import releasing
from dp_middleware.pseudonyms.draws import Part
from dp_middleware.pseudonyms.guarantee import certificate_of
from dp_middleware.pseudonyms.kinds import Amount
from dp_middleware.pseudonyms.kinds.staircase import Staircase
from dp_middleware.pseudonyms.mapping import Kind, Mapping

VALUES = ("ana", "bea", "cleo", "dora")


@dataclass(frozen=True, kw_only=True)
class Few(Kind):
    """One of four names that is not in use."""

    name: ClassVar[str] = "few"
    keeps: ClassVar[str] = "nothing"

    def parts(self, mention):
        return [Part(0, len(mention), "")]

    def draw(self, key, shape, free, draws):
        return draws.left(VALUES, free)


class NeverItself(Few):
    def draw(self, key, shape, free, draws):
        return draws.left([value for value in VALUES if value != key], free)


class Reuses(Few):
    def draw(self, key, shape, free, draws):
        return VALUES[draws.below(len(VALUES))]


class Small(Staircase):
    """With weights that are few enough to be enumerated."""

    weights = (3, 1)


class Steep(Staircase):
    weights = (9, 1)


class Near(Few):
    """Ranks of the names are a grid."""

    loss = Small(1.0).loss
    staircase = Small(1.0)

    def draw(self, key, shape, free, draws):
        points = [value for value in VALUES if free(value)]
        below = sum(value < key for value in points)
        return points[draws.pick(self.staircase.row(below, len(points)))]


class NearUntruthful(Near):
    """Loses more than it says."""

    staircase = Steep(1.0)


class OfPath(Mapping):
    """A mapping whose draws go one way."""

    refuses_private = False

    def __init__(self, path):
        super().__init__()
        self.below = path.below

    def pair(self, kind, text, shape, public):
        if self.refuses_private:
            public = {text, *(pair.original for pair in self.pairs)}
        return super().pair(kind, text, shape, public)


class RefusesPrivate(OfPath):
    refuses_private = True


def law(kind, texts, mapping_of=OfPath):
    """Of the released texts of a conversation."""
    pseudonyms = dp.Pseudonyms(detector(dict.fromkeys(VALUES, "few")), kinds=[kind])

    def outcome(path):
        mapping = mapping_of(path)
        drafts = map(pseudonyms.read, texts)
        return tuple(pseudonyms.release_draft(draft, mapping)[0].text for draft in drafts)

    return law_of(outcome)


def distance(one, other):
    """In nats, the largest over outcomes."""
    if one.keys() != other.keys():
        return math.inf
    return max(abs(math.log(one[key] / other[key])) for key in one)


def conversation(first, second):
    return [f"{first} met {second}.", f"Then {second} left, and {first} too."]


def is_safe(kind, mapping_of=OfPath):
    """Whether a swap of two values, or a third one instead, has just the same law."""
    laws = [
        law(kind, conversation(*pair), mapping_of)
        for pair in (("ana", "bea"), ("bea", "ana"), ("cleo", "bea"), ("dora", "cleo"))
    ]
    return all(distance(laws[0], each) == 0 for each in laws[1:])


def is_restorable(kind):
    """Whether two values have two pseudonyms."""
    return all(
        len({*outcome[0].rstrip(".").split(" met ")}) == 2
        for outcome in law(kind, conversation("ana", "bea"))
    )


def test_two_values_have_one_law_of_pairs_whichever_is_first():
    assert is_safe(Few())
    assert is_restorable(Few())
    found = law(Few(), conversation("ana", "bea"))
    assert len(found) == 12
    assert {*found.values()} == {Fraction(1, 12)}
    assert ("ana met bea.", "Then bea left, and ana too.") in found  # the originals are drawn, too


def test_known_bad_laws_are_rejected():
    assert not is_safe(NeverItself())
    assert not is_restorable(Reuses())
    assert not is_safe(Few(), RefusesPrivate)


@pytest.mark.parametrize("kind", [Near(), NearUntruthful()])
def test_the_loss_of_near_values_is_what_the_certificate_says(kind):
    texts = [[f"{value} met dora."] for value in VALUES[:3]]
    laws = [law(kind, each) for each in texts]
    loss = max(distance(one, other) for one in laws for other in laws)
    pseudonyms = dp.Pseudonyms(detector(dict.fromkeys(VALUES, "few")), kinds=[kind])
    release = pseudonyms.session().release("1", "user", texts[0][0])
    assert math.isclose(loss, release.certificate.epsilon, rel_tol=1e-9) == (type(kind) is Near)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (1, "${0}, {0} USD, {0}.00 dollars"),
        (2, "${0}, ${1} and {0}.0 USD"),
        (3, "${0}, ${1}, ${2}"),
    ],
)
def test_the_exact_loss_of_amounts_in_any_spelling_is_what_is_charged(values, text, monkeypatch):
    monkeypatch.setattr(Staircase, "weights", Small.weights)
    monkeypatch.setattr(releasing, "certificate_of", certificate_of.__wrapped__)
    formats = ("${}", "{} USD", "{}.0 USD", "{}.00 dollars")
    spelled = [each.format(n) for n in range(10) for each in formats]
    books = Charges()
    pseudonyms = dp.Pseudonyms(
        detector(dict.fromkeys(spelled, "amount")), [Amount()], ledger=books, subject="ann"
    )
    alone = copy.copy(pseudonyms)
    alone.ledger = None

    def outcome(path, draft):
        return alone.release_draft(draft, OfPath(path))[0].text

    drafts = [alone.read(text.format(*each)) for each in ("123", "987", "456", "714")]
    laws = [law_of(lambda path, draft=draft: outcome(path, draft)) for draft in drafts]
    loss = max(distance(one, other) for one in laws for other in laws)
    pseudonyms.release_draft(drafts[0], Mapping())
    assert [n for _, _, n in books.rows] == [values]
    assert math.isclose(loss, values * books.epsilons[0], rel_tol=1e-12)


def test_what_a_sanitizer_perturbs_does_not_change_the_law_of_pseudonyms():
    """Words of the rest are private, so no draw may avoid them: it would tell which are there."""
    space = dp.EmbeddingSpace(dp.Vocabulary([*VALUES, "red"]), [[1.0, k] for k in range(5)])
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
    found = lambda text: [(0, 3, "few")]  # noqa: E731
    pseudonyms = dp.Pseudonyms(found, kinds=[Few()], sanitizer=sanitizer)

    def first(texts):
        def outcome(path):
            mapping = OfPath(path)
            for text in texts:
                pseudonyms.release_draft(pseudonyms.read(text), mapping)
            return tuple(pair.pseudonym for pair in mapping.pairs)

        return law_of(outcome)

    assert first(["ana saw cleo"]) == first(["ana saw red"])
    assert first(["ana", "bea saw cleo"]) == first(["ana", "bea saw red"])
