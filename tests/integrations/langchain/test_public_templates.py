"""DPChatModel under prompts that were declared public: their fixed parts are sent as they are."""

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_dp_middleware import DPChatModel
from support.contract import TraceSafeContract, runnable_calls

from dp_middleware.errors import ParameterError

ASK = ChatPromptTemplate.from_messages(
    [
        ("system", "Be {style}."),
        MessagesPlaceholder("history", optional=True),
        ("human", "By {{these}} notes: {notes}\nAnswer: {question}"),
        ("human", "{free}"),
    ]
)


def made(probe, **values):
    values = {"notes": probe.new_text(), "question": probe.new_text(), "free": "w1x", **values}
    return ASK.format_messages(style="brief", **values)


def model_of(probe, **options):
    options = {"public_templates": [ASK], **options}
    return DPChatModel(probe.session(), probe.chat_openai(), **options)


def sent_by(probe):
    return [message["content"] for message in probe.remote.requests[-1]["messages"]]


def assert_cut(probe, text):
    head, answer = text.split("\nAnswer: ")
    assert head.startswith("By {these} notes: ")
    assert probe.released([head.removeprefix("By {these} notes: "), answer])


PATHS = runnable_calls(lambda p: f"By these: {p.new_text()}\nAnswer: {p.new_text()}")


class TestContract(TraceSafeContract):
    calls = {name: PATHS[name] for name in ("invoke", "astream", "abatch")}

    def adapter(self, probe):
        return model_of(probe, public_templates=["By these: {notes}\nAnswer: {question}"])


def test_only_the_values_are_released(probe):
    model_of(probe).invoke(made(probe))
    system, asked, free = sent_by(probe)
    assert system == "Be brief."
    assert_cut(probe, asked)
    assert probe.released(free)
    assert len(probe.charges) == 2  # one a message


def test_system_messages_that_are_released_are_cut_too(probe):
    model_of(probe, system="release").invoke(made(probe))
    system = sent_by(probe)[0]
    assert system.startswith("Be ")
    assert system.endswith(".")
    assert probe.released(system[3:-1])


def test_blocks_texts_and_ids(probe):
    model = model_of(probe)
    text = str(made(probe)[1].content)
    message = HumanMessage([{"type": "text", "text": text}, text], id="m")
    for _ in range(2):
        model.invoke([message])
    assert len(probe.charges) == 1
    first, second = (request["messages"][0]["content"] for request in probe.remote.requests)
    assert first == second
    for block in first:
        assert_cut(probe, block if isinstance(block, str) else block["text"])
    model.invoke(text)
    assert_cut(probe, sent_by(probe)[0])
    assert not probe.leaks()


def test_what_is_not_to_the_letter_is_private(probe):
    model = model_of(probe)
    for text in ("By {{these}} notes: {}\nAnswer: {}", " By {these} notes: \nAnswer: x"):
        model.invoke([HumanMessage(text)])
        assert probe.released(sent_by(probe)[0])
    plain = model_of(probe, public_templates=[])
    plain.invoke([HumanMessage("By {these} notes: \nAnswer: x")])
    assert probe.released(sent_by(probe)[0])


@pytest.mark.parametrize(
    "wrong",
    [
        "one",
        [3],
        ["no values"],
        [PromptTemplate.from_template("{{a}} b", template_format="mustache")],
    ],
)
def test_what_is_no_template_is_refused(wrong, probe):
    with pytest.raises((ParameterError, ValueError), match="template"):
        model_of(probe, public_templates=wrong)
