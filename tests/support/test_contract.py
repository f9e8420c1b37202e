"""The trace-safe contract: it catches every leaky adapter here, and lets clean ones pass."""

import logging
import os
import sys
import warnings

import llama_index.core
import pytest
from langchain_core import globals as settings
from langchain_core.tracers import context as hooks
from llama_index_instrumentation import root_dispatcher
from support import leaky_adapters as adapters
from support.cases import over
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls

from dp_middleware.errors import DPMiddlewareError

pytest_plugins = ["pytester"]

CALLS = {"ask": lambda adapter, probe: adapter.ask(probe.new_text(), probe.config)}
SAME = {"ask": lambda adapter, probe: adapter.ask(probe.private_text, probe.config, "event-1")}
NO_TEXT = {"image": lambda adapter, probe: adapter.ask(probe.canary.encode(), probe.config)}
LANGCHAIN = {"LangSmith"} | {
    f"LangChain {name}" for name in ("callbacks", "async callbacks", "global handler")
}
LLAMA_INDEX = {"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"}


class TestClean(TraceSafeContract):
    calls = {**CALLS, "aask": lambda adapter, probe: adapter.aask(probe.new_text(), probe.config)}
    replays = SAME
    refusals = NO_TEXT
    requires = frozenset({*LANGCHAIN, *LLAMA_INDEX, "LLM cache"})
    hears = frozenset({*LANGCHAIN, "LLM cache", "logs", "console"})

    def adapter(self, probe):
        return adapters.Clean(probe)


@pytest.mark.slow
class TestExtracting(TestClean):
    output = "private"

    def adapter(self, probe):
        return adapters.Extracting(probe)


GOOD = "test_nothing_private_is_recorded_or_sent"
REMOTE = "test_a_failing_remote"
EXTRACTOR = "test_a_failing_extractor"
REDIRECTED = "test_a_redirected_extractor"
BUDGET = "test_an_exhausted_budget"
RELEASE = "test_a_failing_release"
REFUSAL = "test_what_cannot_be_released"
SHOWN = "test_components_show_no_secret"
THREADS = "test_threads_draw_apart"

FAILED = (AssertionError, AttributeError, DPMiddlewareError, pytest.fail.Exception)
CAUGHT = [
    (adapters.Logging, GOOD, "logs: (.|\n)*asked about zxq"),
    (adapters.Warned, GOOD, "warnings: .*a long text"),
    (adapters.Printing, GOOD, "console: "),
    (adapters.Tagging, GOOD, "LangChain callbacks: (.|\n)*LangSmith: "),
    (adapters.SendingName, GOOD, 'remote: .*"name": ?"zxq'),
    (adapters.Silent, GOOD, "no released text left"),
    (adapters.Unpaid, GOOD, "nothing was charged"),
    (adapters.Extracting, GOOD, "output: .*zxq"),
    (adapters.QuotingErrors, REMOTE, "exception: .*no answer to"),
    (adapters.FailingOpen, BUDGET, "DID NOT RAISE"),
    (adapters.CallingFirst, BUDGET, "the remote model was called"),
    (adapters.HidingErrors, RELEASE, "exception: .*"),
    (adapters.ChargingFirst, REFUSAL, "charged for before the refusal"),
    (adapters.ExtractingUnguarded, EXTRACTOR, "exception: .*cannot extract from"),
    (adapters.ExtractingElsewhere, REDIRECTED, "DID NOT RAISE"),
    (adapters.Forgetful, "test_the_same_event_again", "something else left"),
    (adapters.RetryingAll, "test_a_retry", "the retry sent something else"),
    (adapters.Seeded, THREADS, "two draws were equal"),
    (adapters.ChargingOnce, THREADS, "charges are missing"),
    (adapters.Remembering, SHOWN, "pickle of Remembering"),
    (adapters.PicklingKey, SHOWN, "pickle of PicklingKey"),
    (adapters.ShowingApiKey, SHOWN, "model_dump of ShowingApiKey"),
]


def contract(make, **attributes):
    methods = {"calls": CALLS, "adapter": lambda self, probe: make(probe)}
    return type("Contract", (TraceSafeContract,), {**methods, **attributes})()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "test", "message"), CAUGHT, ids=[f"{k.__name__}-{t}" for k, t, _ in CAUGHT]
)
def test_a_leaky_adapter_is_caught(kind, test, message, tmp_path):
    table = {"test_the_same_event_again": SAME, REFUSAL: NO_TEXT}.get(test, CALLS)
    faults = {REMOTE: ["error"]}.get(test, [])
    given = [] if test in (SHOWN, THREADS) else [*table.values(), *faults]
    with Probe(tmp_path) as probe, pytest.raises(FAILED, match=message):
        getattr(contract(kind), test)(*given, probe)


def leaks_of(make, calls, probe):
    ((_, call),) = calls.items()
    with pytest.raises(AssertionError, match="private text was recorded") as caught:
        contract(make).test_nothing_private_is_recorded_or_sent(call, probe)
    return {line.partition(":")[0] for line in str(caught.value).splitlines()}


RUNNABLE = runnable_calls(lambda probe: probe.new_text())
FEW = ("invoke", "abatch", "astream_abandoned", "astream_events", "batch_as_completed")


def wrapped(probe):
    return adapters.InsideGenerate(session=probe.session(), inner=probe.chat_openai())


@over("path", FEW)
def test_langchains_obvious_wrapper_is_caught_everywhere(path, tmp_path):
    with Probe(tmp_path) as probe:
        leaks = leaks_of(wrapped, {path: RUNNABLE[path]}, probe)
    assert leaks >= {*LANGCHAIN, "LLM cache", "console"}
    assert "remote" not in leaks


@pytest.mark.slow
@over("trouble", ["none", "budget"])
@over("made", fallback_calls(lambda probe: probe.new_text()))
def test_a_fallback_that_is_handed_raw_text_is_caught(made, trouble, tmp_path):
    call = fallback_calls(lambda probe: probe.new_text())[made]
    with Probe(tmp_path) as probe, pytest.raises(AssertionError, match=r"private text|was called"):
        contract(wrapped).test_a_fallback(call, trouble, probe)


@over("held", [lambda x: x, lambda x: ("message", x), lambda x: [x], lambda x: {"pieces": x}])
def test_a_block_that_is_not_quiet_is_caught(held, tmp_path):
    def begun(model, probe):
        return held(model.stream(probe.new_text()))

    with Probe(tmp_path) as probe, pytest.raises(AssertionError, match="LangSmith: "):
        contract(wrapped).test_inside_a_quiet_block(begun, probe)


def test_llama_indexs_obvious_wrapper_is_caught_everywhere(tmp_path):
    def naive(probe):
        return adapters.NaiveLLM(session=probe.session(), inner=probe.llama_openai())

    with Probe(tmp_path) as probe:
        leaks = leaks_of(naive, {"ask": lambda llm, p: llm.ask(p.new_text())}, probe)
    assert leaks >= LLAMA_INDEX
    assert "remote" not in leaks


def test_what_hangs_on_an_error_is_found(tmp_path):
    with Probe(tmp_path) as probe:
        hidden = ExceptionGroup("failed", [ValueError("clean")])
        hidden.exceptions[0].__context__ = RuntimeError(probe.canary)
        noted, carrying = ValueError("clean"), ValueError("clean")
        noted.add_note(probe.canary)
        carrying.response = {"body": [probe.canary.encode()]}
        for error in (hidden, noted, carrying):
            assert probe.leaks(exception=error)
        assert not probe.leaks(exception=ValueError("clean"))


def test_what_lies_deep_and_what_is_cut_is_found(tmp_path):
    with Probe(tmp_path) as probe:
        deep = probe.new_text()
        for _ in range(30):
            deep = [deep]
        half = len(probe.canary) // 2
        for value in (deep, probe.canary.upper(), probe.canary[:half], probe.canary[half:]):
            assert probe.leaks(output=value)
        assert all(probe.leaks(output=word) for word in probe.new_text().split())
        assert not probe.leaks(output="w1x")


def test_everything_is_as_it_was_after_a_probe(tmp_path):
    def state():
        return (
            settings.get_debug(),
            settings.get_llm_cache(),
            list(hooks._configure_hooks),
            llama_index.core.global_handler,
            list(root_dispatcher.span_handlers),
            list(root_dispatcher.event_handlers),
            os.environ.get("LANGSMITH_TRACING"),
            logging.root.level,
            list(logging.root.handlers),
            sys.stdout,
            warnings.filters,
        )

    before = state()
    with Probe(tmp_path):
        assert state() != before
    assert state() == before


SUITE = """
from support.contract import TraceSafeContract
from support.leaky_adapters import Clean, Printing

class TestSuite(TraceSafeContract):
    {attributes}

    def adapter(self, probe):
        return {kind}(probe)
"""
ONE = "calls = {'the path': lambda a, probe: a.ask(probe.new_text())}"
ONLY = ("-k", "recorded_or_sent")


@pytest.mark.parametrize(
    ("attributes", "kind", "options", "outcomes", "lines"),
    [
        (ONE, "Printing", ONLY, {"failed": 1}, ["*_sent?the path?*", "*console: ...*zxq*"]),
        ("", "Clean", (), {"errors": 1}, ["*expected TestSuite.calls, got none*"]),
        (
            f"{ONE}; requires = frozenset({{'Telepathy'}})", "Clean", ONLY, {"errors": 1},
            ["*not recorded, as its package is missing: ?'Telepathy'?*"],
        ),
        (
            f"{ONE}; hears = frozenset({{'warnings'}})", "Clean", ONLY, {"failed": 1},
            ["*no released text was recorded by ?'warnings'?*"],
        ),
    ],
    ids=["a leak", "no calls", "a source that is missing", "a source that hears nothing"],
)  # fmt: skip
def test_a_suite_fails_and_says_why(pytester, attributes, kind, options, outcomes, lines):
    pytester.makepyfile(SUITE.format(attributes=attributes, kind=kind))
    quiet = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
    ended = pytester.runpytest_inprocess(*quiet, *options)
    ended.assert_outcomes(**outcomes, deselected=17 if options else 0)
    ended.stdout.fnmatch_lines(lines)
