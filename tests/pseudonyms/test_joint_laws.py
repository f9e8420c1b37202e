"""The law of all pseudonyms of a conversation, by every way that its draws can go."""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from support.cases import over
from support.entities import detector
from support.ledgers import Charges
from support.session_draws import law_of

import dp_middleware as dp
from dp_middleware.pseudonyms import releasing
from dp_middleware.pseudonyms.draws import Part
from dp_middleware.pseudonyms.guarantee import certificate_of
from dp_middleware.pseudonyms.kinds import Amount
from dp_middleware.pseudonyms.kinds.numbers import Staircase
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
    staircase = Steep(1.0)


class OfPath(Mapping):
    """A mapping whose draws go one way."""

    def __init__(self, path):
        super().__init__()
        self.below = path.below


class RefusesPrivate(OfPath):
    def pair(self, kind, text, shape, public):
        public = {text, *(pair.original for pair in self.pairs)}
        return super().pair(kind, text, shape, public)


def law(kind, texts, mapping_of=OfPath):
    pseudonyms = dp.Pseudonyms(detector(dict.fromkeys(VALUES, "few")), kinds=[kind])

    def outcome(path):
        mapping = mapping_of(path)
        return tuple(pseudonyms.release_draft(pseudonyms.read(t), mapping)[0].text for t in texts)

    return law_of(outcome)


def distance(laws):
    """In nats, the largest over pairs of laws and outcomes."""
    if any(law.keys() != laws[0].keys() for law in laws):
        return math.inf
    masses = [[law[outcome] for law in laws] for outcome in laws[0]]
    return max(math.log(max(each) / min(each)) for each in masses)


def conversation(first, second):
    return [f"{first} met {second}.", f"Then {second} left, and {first} too."]


def is_safe(kind, mapping_of=OfPath):
    """Whether a swap of two values, or a third one instead, has just the same law."""
    pairs = (("ana", "bea"), ("bea", "ana"), ("cleo", "bea"), ("dora", "cleo"))
    return distance([law(kind, conversation(*pair), mapping_of) for pair in pairs]) == 0


def test_two_values_have_one_law_of_pairs_whichever_is_first():
    assert is_safe(Few())
    found = law(Few(), conversation("ana", "bea"))
    assert len(found) == 12
    assert {*found.values()} == {Fraction(1, 12)}
    assert ("ana met bea.", "Then bea left, and ana too.") in found  # the originals are drawn, too


def test_known_bad_laws_are_rejected():
    assert not is_safe(NeverItself())
    assert not is_safe(Few(), RefusesPrivate)


@over("kind", [Near(), NearUntruthful()])
def test_the_loss_of_near_values_is_what_the_certificate_says(kind):
    loss = distance([law(kind, [f"{value} met dora."]) for value in VALUES[:3]])
    pseudonyms = dp.Pseudonyms(detector(dict.fromkeys(VALUES, "few")), kinds=[kind])
    release = pseudonyms.session().release("1", "user", "ana met dora.")
    assert math.isclose(loss, release.certificate.epsilon, rel_tol=1e-9) == (type(kind) is Near)


AMOUNTS = [(1, "${0}, {0} USD, {0}.00 dollars"), (2, "${0}, ${1} and {0}.0 USD")]


@over("values, text", [*AMOUNTS, (3, "${0}, ${1}, ${2}")])
def test_the_exact_loss_of_amounts_in_any_spelling_is_what_is_charged(values, text, monkeypatch):
    monkeypatch.setattr(Staircase, "weights", Small.weights)
    monkeypatch.setattr(releasing, "certificate_of", certificate_of.__wrapped__)
    formats = ("${}", "{} USD", "{}.0 USD", "{}.00 dollars")
    spelled = dict.fromkeys((each.format(n) for n in range(10) for each in formats), "amount")
    books = Charges()
    pseudonyms = dp.Pseudonyms(detector(spelled), [Amount()], ledger=books, subject="ann")
    alone = copy.copy(pseudonyms)
    alone.ledger = None
    drafts = [alone.read(text.format(*each)) for each in ("123", "987", "456", "714")]

    def law(draft):
        return law_of(lambda path: alone.release_draft(draft, OfPath(path))[0].text)

    loss = distance([law(draft) for draft in drafts])
    pseudonyms.release_draft(drafts[0], Mapping())
    assert [n for _, _, n in books.rows] == [values]
    assert math.isclose(loss, values * books.epsilons[0], rel_tol=1e-12)


def test_what_a_sanitizer_perturbs_does_not_change_the_law_of_pseudonyms():
    """Words of the rest are private, so no draw may avoid them: it would tell which are there."""
    space = dp.EmbeddingSpace(dp.Vocabulary([*VALUES, "red"]), [[1.0, k] for k in range(5)])
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
    pseudonyms = dp.Pseudonyms(lambda _: [(0, 3, "few")], kinds=[Few()], sanitizer=sanitizer)

    def law(*texts):
        def outcome(path):
            mapping = OfPath(path)
            for text in texts:
                pseudonyms.release_draft(pseudonyms.read(text), mapping)
            return tuple(pair.pseudonym for pair in mapping.pairs)

        return law_of(outcome)

    assert law("ana saw cleo") == law("ana saw red")
    assert law("ana", "bea saw cleo") == law("ana", "bea saw red")
