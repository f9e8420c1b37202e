"""PrivRewriteRunnable: the head of a chain that is given a private rewrite."""

import numpy as np
import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_dp_middleware import PrivateHead, PrivRewriteRunnable
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls

import dp_middleware as dp
from dp_middleware.errors import ParameterError


class Lengths:
    """Sentence vectors without a model."""

    def encode(self, texts):
        rows = np.array([[len(text), 1.0] for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def head_of(probe, generator=None):
    """On a space of vectors of norm 1."""
    probe.remote.mode = "echo" if probe.remote.mode == "ok" else probe.remote.mode
    own = probe.sanitizer()
    vectors = np.asarray(own.space.vectors)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    space = dp.EmbeddingSpace(own.space.vocabulary, vectors)
    sanitizer = dp.Sanitizer(own.mechanism, space, ledger=own.ledger, subject=own.subject)
    generator = generator or probe.chat_openai()
    return PrivRewriteRunnable(
        dp.PrivRewrite(sanitizer, generator=generator, service=Lengths(), k=1)
    )


@pytest.mark.slow
class TestRewrites(TraceSafeContract):
    calls = runnable_calls(Probe.new_text)
    fallbacks = fallback_calls(Probe.new_text)
    refusals = {
        "messages": lambda r, p: r.invoke([("human", p.private_text)], p.config),
        "a dict": lambda r, p: r.invoke({"a": p.private_text}, p.config),
        "no text": lambda r, p: r.invoke(p.private_text.encode(), p.config),
        "an epsilon": lambda r, p: r.invoke(
            p.private_text, {"configurable": {"dp_epsilon": 0.5}, **p.config}
        ),
        "no tokens": lambda r, p: r.invoke("", p.config),
    }
    hears = frozenset({"LangChain callbacks", "LangSmith"})

    def adapter(self, probe):
        return head_of(probe)

    def exposed(self, adapter, probe):
        return [repr(adapter)]


def test_what_follows_stays_behind_the_boundary(probe):
    chain = head_of(probe) | {"text": RunnableLambda(str)}
    chain = chain | ChatPromptTemplate.from_template("{text}") | probe.chat_openai()
    chain.invoke(probe.private_text, probe.config)
    assert not probe.leaks()
    [row] = probe.charges
    assert row.epsilon * 1e-12 == pytest.approx(chain.rewriter.certificate.epsilon)
    names = [node.name for node in chain.get_graph().nodes.values()]
    assert names[1] == "PrivRewriteRunnable"


def test_it_goes_first_and_takes_a_rewriter(probe):
    head = head_of(probe)
    with pytest.raises(ParameterError, match="the head goes first"):
        _ = {"x": str} | head
    with pytest.raises(ParameterError, match="PrivRewriteRunnable runs inside another run"):
        (RunnableLambda(str) | head).invoke("x")
    with pytest.raises(ParameterError, match="one head"):
        _ = PrivateHead(probe.sanitizer()) | head
    with pytest.raises(ParameterError, match=r"expected a dp\.PrivRewrite, got Session"):
        PrivRewriteRunnable(probe.session())
    assert not probe.charges
