"""DPLLM under LlamaIndex's own prompts: declared public, their fixed parts are sent as they are."""

import pytest
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from llama_index.core.prompts.default_prompt_selectors import DEFAULT_TEXT_QA_PROMPT_SEL
from llama_index_dp_middleware import DPLLM, unrecorded
from support.contract import TraceSafeContract
from support.llama_index import MODEL, index_of, sent_by

import dp_middleware as dp

CHAT_QA = DEFAULT_TEXT_QA_PROMPT_SEL.conditionals[0][1]
SYSTEM, USER = (str(message.content) for message in CHAT_QA.message_templates)
BEFORE, BETWEEN, BEHIND = (
    USER.replace("{context_str}", "\0").replace("{query_str}", "\0").split("\0")
)


def ask(model, probe):
    with unrecorded():
        engine = index_of(probe.new_text()).as_query_engine(llm=model)
        return str(engine.query(probe.new_text()))


class TestContract(TraceSafeContract):
    calls = {"query": ask}

    def adapter(self, probe):
        model = probe.llama_openai()
        return DPLLM(probe.session(), model, public_templates=[DEFAULT_TEXT_QA_PROMPT_SEL])


def test_only_the_values_are_released(probe):
    qa = [DEFAULT_TEXT_QA_PROMPT_SEL]
    ask(DPLLM(probe.session(), probe.llama_openai(), public_templates=qa), probe)
    system, user = sent_by(probe.remote)
    assert system == SYSTEM
    assert user.startswith(BEFORE)
    assert user.endswith(BEHIND)
    values = user.removeprefix(BEFORE).removesuffix(BEHIND).split(BETWEEN)
    assert len(values) == 2
    assert all(probe.released(value) for value in values)
    assert len(probe.charges) == 1
    assert not probe.leaks()


@pytest.mark.parametrize("path", ["complete", "chat"])
def test_a_prompt_that_is_not_to_the_letter_is_private(path, probe):
    model = DPLLM(probe.session(), probe.llama_openai(), public_templates=["Sum up: {text}\nSay: "])

    def sent_for(prompt):
        MODEL[path](model, prompt)
        return sent_by(probe.remote)[-1]

    text = sent_for(f"Sum up: {probe.private_text}\nSay: ")
    assert text.startswith("Sum up: ")
    assert text.endswith("\nSay: ")
    assert probe.released(text[8:-6])
    assert probe.released(sent_for(f"Sum up: {probe.private_text}\nSay:"))
    assert probe.released(sent_for(f"sum up: {probe.private_text}\nSay: "))
    assert not probe.leaks()


@pytest.mark.parametrize("wrong", ["one", [3], ["no values"], ["{a}{b}"], ["{a}"]])
def test_what_is_no_template_is_refused(wrong, desk):
    with pytest.raises(dp.ParameterError, match="template"):
        DPLLM(desk.session(), desk.llama_openai(), public_templates=wrong)
    with pytest.raises(dp.ParameterError, match="RichPromptTemplate"):
        DPLLM(
            desk.session(), desk.llama_openai(), public_templates=[RichPromptTemplate("Q: {{q}}")]
        )
    DPLLM(desk.session(), desk.llama_openai(), public_templates=[PromptTemplate("Q: {q}")])
