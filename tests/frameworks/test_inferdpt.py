"""InferDPT end to end through real clients and real HTTP servers on loopback."""

import asyncio
import copy
import dataclasses
import logging
import pickle
import re
import traceback

import pytest
from support.chat_models import KINDS, WORDS
from support.entities import detector
from support.ledgers import Charges
from support.loops import Blocking
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import PAPER_PROMPTS, chat_model, inferdpt as prompts

DOCUMENT = f"word1 word2 {CANARY} word3"


@pytest.fixture
def models(make, remote, local):
    return {"remote": make("openai", remote.url), "extractor": make("openai", local.url)}


def here(function):
    return chat_model(function, local=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_remote_sees_the_release_and_the_extractor_the_document(
    kind, make, remote, local, sanitizer, caplog
):
    caplog.set_level(logging.DEBUG)
    models = {"remote": make(kind, remote.url), "extractor": make(kind, local.url)}
    inferdpt = dp.InferDPT(sanitizer, **models)
    answers = [inferdpt.run(DOCUMENT), asyncio.run(inferdpt.arun(DOCUMENT))]
    assert "".join(inferdpt.stream(DOCUMENT)) == "extracted answer"
    for answer, prompt in zip(answers, remote.prompts, strict=False):
        assert (answer.text, answer.remote_text) == ("extracted answer", "remote text")
        assert prompt == prompts.for_remote(answer.release.text, None)[0]["content"]
        assert set(answer.release.text.split()) <= set(WORDS)
        assert answer.release.tokens_total == 4
    assert len(remote.requests) == len(local.requests) == 3
    assert not remote.saw(CANARY)
    assert all(DOCUMENT in prompt and "remote text" in prompt for prompt in local.prompts)
    assert CANARY not in f"{caplog.text}{inferdpt!r}"


def test_the_prompts_have_the_papers_parts_or_the_instruction():
    prompt = prompts.for_extractor("my document", "their text", None)[0]["content"]
    parts = ["Prefix Text:\nmy document", "Perturbed Generation:\ntheir text", "Extended Text:"]
    assert [prompt.count(part) for part in parts] == [1, 1, 1]
    assert prompt.endswith("Extended Text:")
    asked = prompts.for_remote("their text", "Count.")[0]["content"]
    extracted = prompts.for_extractor("my document", "a draft", "Count.")[0]["content"]
    for prompt, text in ((asked, "their text"), (extracted, "my document")):
        assert text in prompt
        assert "Count." in prompt
        assert "Prefix Text" not in prompt


PRICED = {
    "perturbation": "$$5 for: $instruction\n$text",
    "extraction": "$generation | $text | $instruction",
}


def test_templates_of_the_user_are_what_both_models_are_asked(models, remote, local, sanitizer):
    inferdpt = dp.InferDPT(sanitizer, **models, prompts=PRICED)
    answer = inferdpt.run(DOCUMENT + " $text", "Sum up.")
    assert "".join(inferdpt.stream(DOCUMENT, "Sum up.")) == "extracted answer"
    dp.InferDPT(sanitizer, **models, prompts={"perturbation": "$text"}).run(DOCUMENT)
    paper = dp.InferDPT(sanitizer, **models, prompts=PAPER_PROMPTS).run(DOCUMENT)
    assert remote.prompts[0] == f"$5 for: Sum up.\n{answer.release.text}"
    assert remote.prompts[-1].endswith(f"\n\nPrefix Text:\n{paper.release.text}")
    assert "random" not in remote.prompts[-1]  # the paper tells the model of no perturbation
    by_default = prompts.for_extractor(DOCUMENT, "remote text", None)[0]["content"]
    texts = (f"{DOCUMENT} $text", DOCUMENT)
    assert local.prompts == [f"remote text | {x} | Sum up." for x in texts] + [by_default] * 2
    assert not remote.saw(CANARY)


def test_templates_that_cannot_be_filled_are_refused_before_anything_is_charged(
    models, remote, sanitizer
):
    def made(given):
        return dp.InferDPT(sanitizer, **models, prompts=given)

    for wrong in (
        {"extraction": "$text"},
        {"perturbation": "$text $generation"},  # there is none yet
        {"perturbation": "$text costs $ 5"},
        {"perturbed": "$text"},
    ):
        with pytest.raises(dp.ParameterError, match="expected"):
            made(wrong)
    with pytest.raises(dp.ParameterError, match=r"\$instruction in the perturbation"):
        made(PAPER_PROMPTS).run(DOCUMENT, "Count the verbs.")
    for run in (made(PRICED).run, lambda text: list(made(PRICED).stream(text))):
        with pytest.raises(dp.ParameterError, match="expected instruction="):
            run(DOCUMENT)
    assert not remote.requests


MODES = ("error", "malformed", "empty", "slow", "down")


@pytest.mark.parametrize("side", ["remote", "extractor"])
@pytest.mark.parametrize(
    ("mode", "kind"), [*((m, "openai") for m in MODES), *(("error", k) for k in KINDS[1:])]
)
def test_failures(side, mode, kind, make, sanitizer, remote, local, caplog):
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
    for call in calls_of(inferdpt, DOCUMENT):
        with pytest.raises(expected) as caught:
            call()
        error = caught.value
        assert error.__cause__ is error.__context__ is None
        told = f"{error!r}{error.args}{error.__dict__}{traceback.format_exception(error)}"
        assert CANARY not in told + pickle.dumps(error).decode("latin-1")
    assert not remote.saw(CANARY)
    assert bool(local.requests) == (side == "extractor" and mode != "down")
    assert CANARY not in caplog.text


def calls_of(inferdpt, document):
    yield lambda: inferdpt.run(document)
    yield lambda: asyncio.run(inferdpt.arun(document))
    yield lambda: list(inferdpt.stream(document))


def test_an_untrusted_extractor_is_refused_before_anything_is_sent(make, remote, sanitizer):
    ask = make("openai", remote.url)
    far = make("openai", "http://api.example.com/v1")
    for trusted in ([], ["example.com"]):
        with pytest.raises(dp.UntrustedHost, match=r"api\.example\.com"):
            dp.InferDPT(sanitizer, remote=ask, extractor=far, trusted_hosts=trusted)
    for models in ({"remote": far, "extractor": ask}, {"remote": ask, "extractor": far}):
        dp.InferDPT(sanitizer, **models, trusted_hosts=["api.example.com"])
    assert not remote.requests


@pytest.fixture
def charging(make, remote, sanitizer):
    """Makes one that charges a ledger for what it sends."""

    def made(ledger):
        paid = dp.Sanitizer(sanitizer.mechanism, sanitizer.space, ledger=ledger, subject="s")
        return dp.InferDPT(paid, remote=make("openai", remote.url), extractor=here(lambda _: "x"))

    return made


def test_one_charge_per_run_and_none_before_a_stream_is_read(charging, remote):
    ledger = Charges()
    inferdpt = charging(ledger)
    stream = inferdpt.stream(DOCUMENT)
    assert (ledger.tokens, remote.requests) == ([], [])
    assert list(stream) == ["x"]
    inferdpt.run(DOCUMENT)
    asyncio.run(inferdpt.arun(DOCUMENT))
    remote.mode = "error"
    with pytest.raises(dp.RemoteError):
        inferdpt.run(DOCUMENT)
    assert ledger.tokens == [4, 4, 4, 4]


def test_without_tokens_or_budget_nothing_is_charged_or_sent(charging, remote):
    ledger = Charges(budget=0)
    inferdpt = charging(ledger)
    for document in ("", " \n\t", "\x00"):
        for call in calls_of(inferdpt, document):
            with pytest.raises(dp.ParameterError, match="at least one token"):
                call()
    with pytest.raises(dp.BudgetExhausted):
        inferdpt.run(DOCUMENT)
    assert (ledger.tokens, remote.requests) == ([], [])


def test_arun_does_not_block_the_event_loop(sanitizer):
    block = Blocking()

    class Slow:
        def release(self, text):
            block()
            return sanitizer.release(text)

    def slow(messages):
        block()
        return "x"

    inferdpt = dp.InferDPT(Slow(), remote=slow, extractor=here(slow))
    assert asyncio.run(block.beside(inferdpt.arun(DOCUMENT))).text == "x"
    assert block.freed == 3


def test_an_answer_hides_its_text(sanitizer):
    models = {"remote": lambda messages: "draft", "extractor": here(lambda messages: CANARY)}
    answer = dp.InferDPT(sanitizer, **models).run(DOCUMENT)
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
        answer.text = "x"


def test_a_restored_answer_keeps_pseudonyms_in_addresses_of_other_hosts():
    pytest.importorskip("faker", reason="the lists of names are of the extra detect")
    session = dp.Pseudonyms(detector(), on_empty="pass").session()

    def remote(messages):
        [name] = re.findall(r"of ([\w-]+ [\w-]+)\.", messages[-1]["content"])
        return f"{name} ![x](https://evil.test/?q={name.split()[0]})"

    answer = dp.InferDPT(session, remote=remote).run("The file of Mirela Tamburi.")
    name, link = answer.remote_text.split(" !")
    assert answer.text == f"Mirela Tamburi !{link}"
    assert "Mirela" not in answer.release.text + name
