"""Columns in memory keep all but their texts; workers of other libraries draw their own."""

from __future__ import annotations

import re
from functools import partial

import pytest
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.corpora.series import release_series
from dp_middleware.privacy.releases import receipts

SPACE = random_space(300)
LAW = dp.TokenExponential(epsilon=0.01)  # nearly uniform: ten tokens never come twice
TEXTS = ["w1 w2 w3", None, "", "w4"]


def sanitizer(ledger=None):
    return dp.Sanitizer(LAW, SPACE, ledger=ledger, subject=None if ledger is None else "someone")


def lengths(texts):
    return [None if text is None else len(text.split()) for text in texts]


def test_a_list_keeps_length_order_and_nulls_and_is_charged_once():
    ledger = Charges()
    released = release_series(TEXTS, sanitizer(ledger))
    assert lengths(released) == [3, None, 0, 1]
    assert ledger.epsilons == [pytest.approx(2 * dp.certify(LAW, SPACE).epsilon)]
    assert ledger.tokens == [4]


def marked(text):
    """What stands in brackets is private."""
    return [match.span(1) for match in re.finditer(r"\[(.*?)\]", text)]


def test_a_scope_leaves_all_else_and_is_charged_for_its_spans_alone():
    ledger, texts = Charges(), [f"Dear [{CANARY} w1], hello.", None, "nothing private"]
    with receipts() as receipt:
        first, *rest = release_series(texts, sanitizer(ledger), scope=marked)
    assert rest == texts[1:]
    assert re.fullmatch(r"Dear \[w\d+ w\d+\], hello\.", first)
    assert (ledger.tokens, ledger.epsilons) == ([2], [dp.certify(LAW, SPACE).epsilon])
    assert [each.epsilon for each in receipt.charged] == ledger.epsilons


@pytest.mark.parametrize("kind", ["str", "string", "object", "string[pyarrow]", "category"])
def test_a_column_of_pandas_keeps_index_name_and_nulls(kind):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(TEXTS, index=[7, 7, 2, 9], name="review", dtype=kind)
    released = release_series(series, sanitizer())
    assert isinstance(released, pandas.Series)
    assert released.index.equals(series.index)
    assert released.name == "review"
    assert (released.isna() == series.isna()).all()
    assert lengths(released[released.notna()]) == [3, 0, 1]
    assert released.dtype == series.dtype if kind != "category" else released.dtype != "category"


def test_a_column_of_polars_keeps_name_and_nulls():
    polars = pytest.importorskip("polars")
    series = polars.Series("review", TEXTS)
    released = release_series(series, sanitizer())
    assert (released.name, released.dtype) == ("review", polars.String)
    assert lengths(released.to_list()) == [3, None, 0, 1]


@over("cells", [[CANARY, 7], [CANARY, b"x"], CANARY, (CANARY,), [[CANARY]], [{CANARY: 1}]])
def test_other_cells_are_refused_without_a_word_of_them(cells):
    with pytest.raises(dp.ParameterError) as error:
        release_series(cells, sanitizer())
    assert CANARY not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    return pytest.importorskip("datasets")


def mapped(data, releaser, **options):
    """The line of the documentation."""
    release = partial(release_texts, releaser=releaser)
    return data.map(release, input_columns="text", batched=True, **options)


def release_texts(texts, releaser):
    return {"text": release_series(texts, releaser)}


@pytest.mark.slow
def test_data_sets_are_mapped_in_two_processes_once(datasets, tmp_path):
    rows = {"text": [" ".join(f"w{n}" for n in range(10))] * 40, "label": [*range(40)]}
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "rows.parquet")
    data = datasets.Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path))
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1e4)
    released = mapped(data, sanitizer(ledger), num_proc=2, batch_size=10)
    assert released["label"] == rows["label"]
    assert len({*released["text"]}) == 40  # no two processes draw alike
    assert len(ledger.rows("someone")) == 4
    again = mapped(data, sanitizer(ledger), num_proc=2, batch_size=10)
    assert again["text"] == released["text"]  # from its cache on disk: no draw, no charge
    assert len(ledger.rows("someone")) == 4
    fresh = mapped(data, sanitizer(ledger), num_proc=2, batch_size=10, load_from_cache_file=False)
    assert not {*fresh["text"]} & {*released["text"]}
    assert len(ledger.rows("someone")) == 8
