"""How many files of the library and of the adapter a call of a head crosses."""

import re

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_dp_middleware import PrivateHead
from support.ways import Way

import dp_middleware as dp
from dp_middleware.pseudonyms.detection import Entity

OWN = 4
"""Files of the adapter: the head, its calls, the boundary, the messages."""


def plain():
    space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
    return dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space))


def pseudonyms():
    def detect(text):
        return [Entity(m.start(), m.end(), "person") for m in re.finditer("Ann Lee", text)]

    return dp.Pseudonyms(detect).session()


@pytest.mark.parametrize(("make", "most"), [(plain, 18), (pseudonyms, 18)])
def test_a_call_of_a_head_crosses_few_files(make, most):
    chain = PrivateHead(make()) | FakeListChatModel(responses=["red"])
    chain.invoke("Ann Lee is blue and red")
    with Way() as way:
        chain.invoke("Ann Lee is blue")
    files = {file for file in way.files if not file.endswith("tracing.py")}  # of blocks before
    own = [file for file in files if "langchain_dp_middleware" in file]
    assert len(own) <= OWN, own
    assert len(files) <= most, sorted(files)
