"""What a text with pseudonyms guarantees, alone, beside a sanitizer, and of public words alone."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256
from operator import itemgetter

from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Adjacency, Certificate, NoGuarantee, PureDP
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.detection import View, covered, unmarked
from dp_middleware.pseudonyms.kinds import Kind, Label
from dp_middleware.pseudonyms.rewriting import Mention, PseudonymDraft, settled
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import PART
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.classes import listed

_PUBLIC = (
    "what the detector does not find is public and goes out as it is",
    "that entities are there, where, of which kind, in capitals or small letters, between which "
    "signs, and which of their parts are equal (numbers: in value), is public",
)
KEYED = (
    "pseudonyms follow from a key: equal values are equal everywhere, for ever; who has no key and "
    "may not ask learns no more than that, as long as AES and HMAC-SHA-256 are not broken; who may "
    "ask tells a value that can be guessed, so that no epsilon is finite"
)
LISTED = 20_000  # most frequent words of English that may leave, but for given names
SHORT = 1000  # words of two letters are among so many: rarer ones are syllables, and spell names
_TYPESET = "’“”„«»—…€£¥₹§°•·¡¿\u2018\u2010\u2011\u2013\u00a0\u202f"
# signs that may leave; any other is a part of the word that it stands in
SIGNS = frozenset(" \t\n\r" + string.punctuation + _TYPESET + PART)
_ESCAPED = "\ufffd"  # stands for what is spelled by a number, as \u0041 is
_SHORT, _NONE = re.compile(r"[^\\]+|\\+[nrt\"'/]?"), re.compile(r"[^\\]+")
_OTHER = f"[^{re.escape(''.join(sorted(SIGNS)))}]"
_WORD = re.compile(  # with a backslash before it, which a reader may take for an escape
    rf"\\?{_OTHER}+(?:(?:['’]|(?<=\d)[.,:/-](?=\d)){_OTHER}+)*"
)
_CASES = re.compile(r"[a-z'’]+|[A-Z][a-z'’]*|[A-Z'’]+")


@lru_cache(maxsize=256)
def certificate_of(
    kinds: frozenset[Kind],
    laws: tuple[tuple[str, Kind], ...],
    beside: Certificate | None,
    *,
    common: bool,
    allows: bool,
    keyed: bool = False,
) -> Certificate:
    """Returns that of a release with these kinds, of all these laws, beside that of the rest."""
    if beside is not None and not isinstance(beside.guarantee, PureDP):
        kind = type(beside.guarantee).__name__
        raise ParameterError(f"expected a sanitizer with a finite pure guarantee, got {kind}")
    occurring = sorted(kinds, key=repr)
    losses = [beside.epsilon if beside else 0.0, *(kind.loss for kind in occurring)]
    epsilon = math.inf if keyed else max(losses)
    digest = sha256(repr(sorted(laws)).encode()).hexdigest()
    everything = sha256(f"{digest}{beside and beside.mechanism!r}".encode()).hexdigest()
    return Certificate(
        guarantee=NoGuarantee(reason=KEYED) if keyed else PureDP(epsilon=epsilon),
        adjacency=Adjacency.entities(
            tuple(name for name, _ in laws), None if beside is None else beside.adjacency
        ),
        method="none" if keyed else "exact" if beside is None else beside.method,
        assumptions=(
            *((KEYED,) if keyed else ()),
            *((promise(),) if common else ()),
            *_PUBLIC[common or beside is not None :],
            *(("what allow= names is public",) if allows else ()),
            *dict.fromkeys(f"kept of each {kind.name}: {kind.keeps}" for kind in occurring),
            *(() if beside is None else beside.assumptions),
        ),
        claimed=epsilon,
        epsilon=epsilon,
        mechanism=f"Pseudonyms({everything[:16]})",
        space="public lists" if beside is None else beside.space,
    )


def released_beside(
    sanitizer: Sanitizer,
    rest: Draft,
    draft: PseudonymDraft,
    written: list[str],
    certificate: Certificate,
) -> tuple[Release, Draft]:
    """Draws for the rest, and writes all of the text; also returns what was drawn."""
    ends = [0, *(end for _, end in draft.rest)]
    starts = [*(start for start, _ in draft.rest), len(draft.text)]
    frame = [draft.filled(written, *gap, spelled=False) for gap in zip(ends, starts, strict=True)]
    # with blanks: no drawn word touches a pseudonym
    parted = [f" {p}" if n and p[:1].strip() else p for n, p in enumerate(frame)]
    frame = [f"{p} " if p[-1:].strip() else p for p in parted[:-1]] + parted[-1:]
    framed = replace(rest, public=tuple(frame))
    ((release, drawn),) = sanitizer.release_drafts([framed], lambda _: certificate)
    total = len(rest.ids) + sum(map(sanitizer.count, frame))
    verbatim = framed.tokens_verbatim - framed.public_tokens
    free = total - verbatim - len(rest.fresh)
    release = replace(release, tokens_total=total, tokens_verbatim=verbatim, tokens_free=free)
    return release, drawn


@dataclass(frozen=True, kw_only=True)
class Word(Label):
    """A label such as "WORD_47", one for each spelling of a word or number that is not listed."""

    name = "word"
    cased = True

    of: str = "WORD"


@cache
def common_words() -> frozenset[str]:
    """The public list: lower case, some with an apostrophe."""
    names = listed("name")
    ranked = enumerate(frequencies._words()[0][:LISTED])
    long = {
        word
        for rank, word in ranked
        if (len(word) > 2 or (len(word) == 2 and rank < SHORT))
        and word.removesuffix("'s") not in names
    }
    return frozenset(long | {"a", "i", "s", "null", "true", "false"})


@cache
def promise() -> str:
    """What is guaranteed of a text, for a certificate."""
    words = sorted(common_words())
    digest = sha256(" ".join(words).encode()).hexdigest()[:16]
    return (
        f"nothing leaves but {len(words)} words of a public list ({digest}), signs, and values "
        "drawn without looking at yours but for what is kept of each kind; which of these words, "
        "in small letters, capitals or with one first, and which signs stand where is public, and "
        "which of the other words are equal"
    )


def only_common(draft: PseudonymDraft) -> PseudonymDraft:
    """Returns a draft in which a place is whatever is in no public list."""
    labelled = _labelled(draft, _SHORT)
    if draft.view.is_plain:
        return labelled
    # escapes of JSON are still read as such where labels stand, else they are letters
    sample = labelled.filled(["a"] * len(labelled.places), 0, len(draft.text), spelled=True)
    is_alike = all(_is_common(match.group()) for match in _WORD.finditer(view_of(sample).text))
    return labelled if is_alike else _labelled(draft, _NONE)


def _labelled(draft: PseudonymDraft, escapes: re.Pattern[str]) -> PseudonymDraft:
    """A draft with labels, also for what is spelled by other escapes than these."""
    places = [
        place
        if SIGNS.issuperset(re.sub("[A-Za-z0-9]", "", place.shape))
        else place._replace(kind=Word(), shape="")
        for place in draft.places
    ]
    text = _spelled(draft.view, escapes)
    while True:  # a place that grows may leave a part of a listed word
        places += [Mention(start, end, Word(), "") for start, end in _uncommon(draft, text)]
        places.sort(key=itemgetter(0))
        draft = replace(draft, places=tuple(settled(draft.text, places)))
        if list(draft.places) == places:
            return draft
        places = list(draft.places)


def _uncommon(draft: PseudonymDraft, text: str) -> Iterator[tuple[int, int]]:
    """Yields what is in no public list, of what would go out as it is."""
    size, places = len(text), covered(len(text), draft.places)
    taken = covered(size, [*draft.places, *draft.kept])
    for a, b, bare, _ in draft.view.values:
        around = {*text[max(0, a - 1) : a], *text[b : b + 1]}
        if bare and around <= SIGNS and 1 not in places[a:b]:
            if 1 not in taken[a:b]:
                yield a, b
            taken[a:b] = b"\1" * (b - a)
    for a, b in unmarked(taken, 0, size):
        for match in _WORD.finditer(text, a, b):
            first, behind = match.span()
            behind -= 2 * (match.group()[-2:].lower() in ("'s", "’s"))
            if not (_is_common(match.group()) or _is_common(text[first:behind])):
                yield first, behind


def _is_common(word: str) -> bool:
    plain = word.replace("’", "'").lower()
    return _CASES.fullmatch(word) is not None and plain in common_words()


def _spelled(view: View, escapes: re.Pattern[str]) -> str:
    """The text, with a sign that is in no list for each that another escape spells."""
    if view.is_plain:
        return view.text
    ends = zip(view.starts, view.starts[1:], strict=False)
    return "".join(
        sign if b - a < 2 or escapes.fullmatch(view.raw, a, b) else _ESCAPED
        for sign, (a, b) in zip(view.text, ends, strict=True)
    )
