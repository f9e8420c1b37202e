"""English units near a text, named without encoding any."""

import dp_middleware as dp
from dp_middleware.embedding.plain import searcher
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.kernels import units

TEXTS = (
    "a gripping thriller with a superb ending",
    "What are the symptoms of kidney stones ?",
    "The senator resigned on Monday over a bribery scandal.",
    "x",
)


def test_what_is_named_has_units_about_as_near_as_any():
    encoder, size = searcher(), 500
    exact = encoder.encode(units.english()[:size])
    for target in encoder.encode(TEXTS):
        named = units.nearest(target, encoder.pieces, size, 60)
        assert named == sorted(set(named))
        assert (len(named), named[-1] < size) == (60, True)
        assert (exact[named] @ target).max() >= (exact @ target).max() - 0.06
        assert units.nearest(target, encoder.pieces, 50, 60) == list(range(50))


def test_the_default_encoder_finds_about_what_encoding_all_units_finds():
    class Another:
        """The same vectors by an encoder that is not known."""

        encode, space = searcher().encode, searcher().space

    code, another = dp.UnitCode(rounds=2).fitted(13.0), Another()
    assert len(code.units) > codes._NEAR
    for text in TEXTS:
        found = [code.sequence(code.best(text, each)) for each in (dp.EmbeddingService(), another)]
        target, quick, full = searcher().encode([text, *found])
        assert quick @ target >= full @ target - 0.03
