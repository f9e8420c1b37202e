"""Texts from files, folders and lists, and that errors quote none of them."""

import json

import pytest
from support.cases import over
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.lab.evaluation import Texts, load


@over(
    "name, content",
    [
        ("a.jsonl", '{"text": "one two", "label": 1}\n\n{"text": "three", "label": 0}\n'),
        ("a.json", '[{"text": "one two", "label": 1}, {"text": "three", "label": 0}]'),
        ("a.csv", "text,other\none two,x\nthree,y\n"),
        ("a.tsv", "other\ttext\nx\tone two\ny\tthree\n"),
        ("a.txt", "one two\n\nthree\n"),
        ("a.jsonl", '{"text": "one\u2028two", "label": 1}\r\n{"text": "three", "label": 0}\n'),
    ],
)
def test_kinds_of_files(tmp_path, name, content):
    """Separators of Unicode stay within a line."""
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    found = load(tmp_path / name)
    assert (found.name, found.texts[1]) == ("a", "three")
    assert found.texts[0].split() == ["one", "two"]
    assert found.labels == ((1, 0) if "json" in name else ())
    assert load(tmp_path / name, limit=1).texts == found.texts[:1]


def test_columns_are_guessed_in_order_or_named(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"answer": "here", "question": "where", "number": 3}))
    assert (load(file).texts, load(file, column="answer").texts) == (("where",), ("here",))
    with pytest.raises(dp.ParameterError, match="column of texts"):
        load(file, column="number")


def test_references_are_taken_along_where_every_row_has_one(tmp_path):
    file = tmp_path / "answers.jsonl"
    rows = [{"text": "one", "reference": "a"}, {"text": "two", "reference": "b"}]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = load(file)
    assert (found.texts, found.references) == (("one", "two"), ("a", "b"))
    assert found.pick([1]).references == found.pick([1, 0]).references[:1] == ("b",)
    assert found.digest != Texts(name="answers", texts=found.texts).digest
    file.write_text("\n".join(map(json.dumps, [rows[0], {"text": "two"}])))
    assert load(file).references == ()
    with pytest.raises(dp.ParameterError, match="reference for each text"):
        Texts(name="answers", texts=("one", "two"), references=("a",))


def test_a_folder_is_its_dev_file_or_its_only_one(tmp_path):
    with pytest.raises(dp.ParameterError, match="one file of data, got 0"):
        load(tmp_path)
    for name, text in (("train", "train"), ("dev", "dev")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": text}))
        assert load(tmp_path).texts == (text,)
    assert load(tmp_path).name == tmp_path.name


def test_samples_of_the_package_have_labels_to_train_on():
    found = load("dp_middleware/lab/evaluation/samples/reviews.jsonl").head(15)
    assert len(found) == len(found.labels) == len(found.training) == 15
    assert not set(found.texts) & {text for text, _ in found.training}


@over(
    "name, content, said",
    [
        ("a.jsonl", f'{{"text": "x"}}\n{{"text": "{CANARY}"'.encode(), "."),
        ("a.json", f'{{"text": "{CANARY}"}}'.encode(), "."),
        ("a.csv", f"{CANARY}\n{CANARY}\n".encode(), "."),
        ("a.txt", b"\n \n", "."),
        ("a.txt", CANARY.encode() + b"\xff", "UnicodeDecodeError"),
    ],
)
def test_errors_quote_no_text(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(dp.ParameterError, match=said) as caught:
        load(tmp_path / name)
    assert CANARY not in str(caught.value)
    with pytest.raises(dp.ParameterError, match="nothing there"):
        load(tmp_path / "no such file.txt")


def test_a_digest_is_of_texts_and_labels_and_a_repr_of_neither():
    one = Texts(name="a", texts=("x", "y"), labels=(0, 1))
    assert one.digest == Texts(name="b", texts=("x", "y"), labels=(0, 1)).digest
    assert Texts(name="a", texts=("x", "y")).digest != Texts(name="a", texts=("xy",)).digest
    assert one.digest != Texts(name="a", texts=("x", "y"), labels=(1, 0)).digest
    assert CANARY not in repr(Texts(name="a", texts=(CANARY,)))


@over("name", ["../../evil", "=1+1", "", ".hidden", "a b"])
def test_a_name_is_no_path_and_no_formula(name):
    with pytest.raises(dp.ParameterError, match="name"):
        Texts(name=name, texts=("x",))
