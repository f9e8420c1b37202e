"""DPSanitizer: trace-safe alone, refused in the middle of a traced chain, one session in copies."""

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_dp_middleware import DPSanitizer
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls
from support.langchain import IMAGE
from support.ledgers import Charges

import dp_middleware as dp
from dp_middleware.errors import ParameterError

WORDS = [f"w{i}x" for i in range(20)]
SPACE = dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.random.default_rng(0).normal(size=(20, 4)))


def sanitizer(epsilon=4.0, ledger=None):
    mechanism = dp.TokenExponential(epsilon=epsilon)
    return dp.Sanitizer(mechanism, SPACE, ledger=ledger, subject="me" if ledger else None)


class TestTexts(TraceSafeContract):
    output = "released"
    calls = runnable_calls(Probe.new_text)
    fallbacks = fallback_calls(Probe.new_text)
    refusals = {
        "no text": lambda s, p: s.invoke([HumanMessage([IMAGE, p.private_text])], p.config),
    }

    def adapter(self, probe):
        return DPSanitizer(probe.session())


PATHS = runnable_calls(lambda probe: [HumanMessage(probe.new_text(), name=probe.canary)])


class TestMessages(TraceSafeContract):
    output = "released"
    calls = {name: PATHS[name] for name in ("invoke", "abatch", "astream")}
    replays = {
        "by id": lambda s, p: s.invoke([HumanMessage(p.private_text, id="1")], p.config),
        "by transcript": lambda s, p: s.invoke([HumanMessage(p.private_text)], p.config),
        "blocks": lambda s, p: s.invoke([HumanMessage([p.private_text, "x"], id="2")], p.config),
    }
    refusals = {
        "unknown answer": lambda s, p: s.invoke(
            [HumanMessage(p.private_text), AIMessage(p.private_text)], p.config
        ),
    }

    def adapter(self, probe):
        return DPSanitizer(probe.session())


def test_it_refuses_to_run_in_a_chain():
    charges = Charges()
    chain = RunnableLambda(str) | DPSanitizer(sanitizer(ledger=charges))
    with pytest.raises(ParameterError, match=r"DPSanitizer runs inside.*PrivateHead first"):
        chain.invoke("secret")
    assert charges.epsilons == []


def test_a_chain_that_nothing_records_may_be_allowed():
    step = DPSanitizer(sanitizer(), traced="allow", keys=["q"])
    found = (step | RunnableLambda(lambda d: d["q"])).invoke({"q": "private", "lang": "en"})
    assert found in WORDS
