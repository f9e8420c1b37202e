"""The Python blocks of the pages in docs/ run, one after the other, as they are printed."""

import ast
import asyncio
import importlib
import inspect
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from support.cases import over
from support.contract import Probe, ToolCall

import dp_middleware as dp

DOCS = Path(__file__).parents[2] / "docs"
WORDS = ("my", "left", "leg", "has", "hurts", "hurt", "since", "march", "a", "surgery", "in", "it")
PRIVATE = "knee"  # in every private text of the pages, in no vocabulary
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
TRACING = ("langchain.md", "| Shape | A tracer is told |")
SHOWN = {"console"}  # where the blocks themselves print answers to the user

pydantic_deprecations = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"  # LlamaIndex reads all attributes
)


def page_of(name):
    return (DOCS / name).read_text("utf-8")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page_of(page), flags=re.DOTALL)


def run(page, names, close=None):
    """As in a notebook: a block may await, and so may what closes it."""
    with asyncio.Runner() as runner:
        for block in blocks(page):
            code = compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                runner.run(waiting)
        if close is not None:
            runner.run(close(names))


def rows(page, head):
    table = page_of(page).split(f"{head}\n|---|---|\n")[1].split("\n\n")[0]
    cells = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in table.splitlines()]
    return [(first.strip().replace("\\|", "|"), second.strip()) for first, second in cells]


def code_of(cell):
    return compile(cell.strip("`"), cell, "eval")


def space_of(words):
    vectors = np.random.default_rng(1).normal(size=(len(words), 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary(words), vectors)


def hearing(probe, word):
    return {source for source, text in probe.records().items() if word in text} - SHOWN


@pytest.fixture
def sanitizer():
    return dp.Sanitizer(dp.TokenExponential(epsilon=4.0), space_of(WORDS))


@pytest.fixture
def probe(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        probe.remote.reply = "a left leg"
        yield probe


def test_rewrites_conversations_and_budgets(sanitizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"dp": dp, "sanitizer": sanitizer, "model": lambda messages: "a leg since march"}
    run("budgets.md", names)
    ledger = names["ledger"]
    assert names["release"].text == "a leg since march"
    total = sanitizer.certificate.epsilon + 1.0
    assert names["release"].certificate.epsilon == pytest.approx(total, abs=1e-6)
    spent = sanitizer.certificate.epsilon
    assert ledger.spent("ana") == pytest.approx(spent, abs=1e-9)
    assert ledger.remaining("ana") == pytest.approx(100.0 - spent, abs=1e-9)


def test_files(sanitizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("id,text\n1,my left knee\n")
    tickets = "id,name,mail,phone,notes\n1,Mirela Tamburi,m@acme.test,,Mirela called\n"
    Path("tickets.csv").write_text(tickets)
    names = {"sanitizer": sanitizer, "dp": dp, "key": b"k" * 32}
    for block in blocks("corpora.md"):  # the first starts workers, for which no test waits
        exec(block.replace("workers=2", "workers=1"), names)
    assert names["report"].tokens == 3
    assert "Mirela" not in Path("safe_tickets.csv").read_text()
    assert Path("back.csv").read_text() == tickets


@over("page", PAGES)
def test_links_lead_somewhere(page):
    """To pages and headings ``make docs`` looks; here to tests, and to what is not a page."""
    text = page_of(page)
    for target in re.findall(r"\]\(([\w./]+)\)", text):
        target = re.sub(r"^notebooks/(\w+)\.md$", r"../notebooks/\1.ipynb", target)
        assert (DOCS / page).parent.joinpath(target).is_file(), target
    headings = {re.sub(r"\W+", "-", h.lower()) for h in re.findall(r"^#+ (.*)", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= headings
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {name}(" in (DOCS.parent / path).read_text("utf-8")


def test_production_keeps_one_memo_for_each_user(sanitizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"sanitizer": sanitizer}
    run("production.md", names)
    sessions = [names["session_of"]("ana", b"k" * 32) for _ in range(2)]  # after a restart
    first, again = (each.release("message-1", "user", "my left leg") for each in sessions)
    assert first.text == again.text
    assert names["ledger"].spent("ana") == pytest.approx(sanitizer.certificate.epsilon, abs=1e-9)
    assert names["ledger"].spent("bea") == 0.0


def listed(page, module):
    return {*re.findall(rf"^::: {re.escape(module)}\.(\w+)$", page_of(page), re.MULTILINE)}


def test_the_reference_is_complete():
    from dp_middleware import pseudonyms
    from dp_middleware.pseudonyms import kinds

    own = listed("api/dp_middleware.md", "dp_middleware")
    assert {*own, "MECHANISMS", "attacks", "metrics"} == set(dp.__all__)
    page, name = "api/parts.md", "dp_middleware.pseudonyms"
    assert {*listed(page, name), "Pseudonyms"} == set(pseudonyms.__all__)
    assert listed(page, f"{name}.kinds") == set(kinds.__all__)


def test_pseudonyms(probe, sanitizer, capsys):
    from langchain_core.tools import tool

    asked = []

    @tool
    def look_up(name: str) -> str:
        """Look a customer up by name."""
        asked.append(name)
        return f"{name} lives in Berlin."

    def reply(request):
        last = request["messages"][-1]
        name = re.search(r"customer (\S+ \S+) live", str(request["messages"]))[1]
        if last["role"] == "tool":
            return last["content"]
        return [ToolCall(name="look_up", arguments={"name": name})]

    probe.remote.reply = reply
    names = {"sanitizer": sanitizer, "look_up": look_up, "key": b"k" * 32}
    names["model"] = probe.chat_openai()
    run("pseudonyms.md", names)
    printed = capsys.readouterr().out
    assert "In short: Maria Lopez pays $12,500.00 by March 1, 2024.\n" in printed
    assert asked == ["Maria Lopez"]
    assert names["state"]["messages"][-1].text == "Maria Lopez lives in Berlin."
    assert not [value for value in ("Maria Lopez", "Berlin") if probe.remote.saw(value)]
    assert re.fullmatch(r"Where is [A-Z]{3}-\d{5}\?", names["release"].text)
    assert "ORD-77812" not in names["release"].text


def test_a_question_is_asked_with_its_release():
    names = {}
    run("questions.md", names)
    assert names["asked"].text != names["question"]
    assert len(names["found"]) == 5
    assert names["best"] in ", ".join(names["found"])
    assert names["with_model"].certificate.epsilon <= 50
    dp.certify(dp.WeightedResponse(epsilon=50, code=names["mixed"]), names["with_model"].space)


def test_scopes_and_classes(sanitizer):
    months = ("January", "March", "May", "June", "July")
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    people = ("Anna", "Maria", "James", "John", "Peter")
    numbers = ("450", "431", "120", "300", "999", "2019", "2020", "2021", "2022", "2024")
    space = space_of((*people, *months, *days, *numbers, "paid", "on", "in", "left", "pain"))
    names = {"sanitizer": sanitizer, "space": space}
    run("scopes.md", names)
    labels = dict(zip(space.vocabulary.tokens, dp.token_classes(space.vocabulary), strict=False))
    released = [labels[word] for word in names["release"].text.split()]
    private = ["Maria", "paid", "450", "on", "Monday", "in", "May", "2024"]
    assert released == [labels[word] for word in private]
    assert len(set(labels.values())) == 6


@pytest.fixture
def langchain(probe, sanitizer):
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.tools import tool
    from langchain_core.vectorstores import InMemoryVectorStore

    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word} of the {PRIVATE}"

    notes = InMemoryVectorStore(DeterministicFakeEmbedding(size=6))
    notes.add_texts([f"the left {PRIVATE}", "a leg"], ids=["a", "b"], metadatas=[{"year": 1}] * 2)
    return {
        "sanitizer": sanitizer,
        "model": probe.chat_openai(),
        "local": probe.chat_openai(probe.local),
        "prompt": ChatPromptTemplate.from_template("{style}: {question}"),
        "look_up": look_up,
        "retriever": notes.as_retriever(),
        "embeddings": probe.openai_embeddings(),
    }


def looking_up(request):
    if request.get("tools") and request["messages"][-1]["role"] == "user":
        return [ToolCall(name="look_up", arguments={"word": "leg"})]
    return "a left leg"


def test_langchain(langchain, probe):
    probe.remote.reply = looking_up
    run("langchain.md", langchain)
    assert len(probe.remote.requests) > 15
    assert probe.remote.saw('"role":"tool"')
    assert not probe.remote.saw(PRIVATE)
    assert not hearing(probe, PRIVATE)
    assert PRIVATE in probe.local.prompts[0]


def call(part, word, config):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.retrievers import BaseRetriever
    from langgraph.pregel import Pregel

    keys = getattr(part, "keys", None)
    if isinstance(part, Pregel) or keys == ("messages",):
        return part.invoke({"messages": [("user", word)]}, config)
    if isinstance(part, BaseChatModel | BaseRetriever) or hasattr(part, "rewriter"):
        return part.invoke(word, config)
    return part.invoke({"question": word, "style": "short"}, config)


def shaped(langchain):
    import langchain_dp_middleware as adapters
    from langchain.agents import create_agent

    sanitizer, model = langchain["sanitizer"], langchain["model"]
    return {
        **{name: getattr(adapters, name) for name in adapters.__all__},
        **langchain,
        "create_agent": create_agent,
        "session": dp.Session(sanitizer),
        "agent": create_agent(model, [langchain["look_up"]]),
        "rewriter": dp.PrivRewrite(sanitizer, generator=model, k=1, epsilon_select=1.0),
    }


def test_what_tracers_of_langchain_are_told(langchain, probe):
    names = shaped(langchain)
    told = rows(*TRACING)
    assert len(told) == 10
    for number, (shape, claim) in enumerate(told):
        word, before = f"{PRIVATE}{number}", len(probe.remote.requests)
        refused = pytest.raises(dp.ParameterError) if "refuses" in claim else nullcontext()
        if shape == "the same agent inside `with untraced():`":
            with names["untraced"]():
                call(names["last"], word, None)
        else:
            names["last"] = eval(code_of(shape), names)
            with refused:
                call(names["last"], word, probe.config)
        assert bool(hearing(probe, word)) == claim.startswith("raw"), shape
        called = "refuses" not in claim and "DPRetriever" not in shape
        assert (len(probe.remote.requests) > before) == called, shape
    assert not probe.remote.saw(PRIVATE)


def test_a_head_does_not_see_what_an_agent_s_tools_return(langchain, probe):
    names = shaped(langchain)
    [shape] = [cell for cell, claim in rows(*TRACING) if claim.endswith("raw results of tools")]
    probe.remote.reply = looking_up
    call(eval(code_of(shape), names), "private", probe.config)
    assert not probe.remote.saw("private")
    assert probe.remote.saw(PRIVATE)
    assert hearing(probe, PRIVATE)


def test_the_reference_of_langchain_is_complete():
    import langchain_dp_middleware as adapters

    names = set()
    for module, cell in rows("langchain.md", "| Module | Names |"):
        names |= {*re.findall(r"`(\w+)`", cell)}
        part = importlib.import_module(module.strip("`"))
        assert all(hasattr(part, name) for name in re.findall(r"`(\w+)`", cell))
    assert names == set(adapters.__all__)


@pytest.fixture
def llama_index(probe, sanitizer):
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import MockEmbedding
    from llama_index.core.schema import TextNode

    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word} of the {PRIVATE}"

    def index_of(text):
        nodes = [TextNode(id_=text, text=text, metadata={"page": 1})]
        return VectorStoreIndex(nodes, embed_model=MockEmbedding(4))

    return {
        "sanitizer": sanitizer,
        "remote": probe.llama_openai(),
        "local": probe.llama_openai(probe.local),
        "index": index_of("a left leg"),
        "raw_index": index_of(f"the left {PRIVATE}"),
        "embedding": MockEmbedding(4),
        "look_up": look_up,
    }


async def forget(names):
    """LlamaIndex leaves the connection of an agent's memory open."""
    await names["memory"].sql_store._async_engine.dispose()


@pydantic_deprecations
def test_llama_index(llama_index, probe):
    run("llama_index.md", llama_index, forget)
    assert len(probe.remote.requests) > 8
    assert not probe.remote.saw(PRIVATE)
    assert PRIVATE in str(llama_index["response"])


@pydantic_deprecations
def test_what_spans_of_llama_index_hold(llama_index, probe):
    run("llama_index.md", llama_index, forget)
    told = rows("llama_index.md", "| Call | Spans and events hold |")
    assert len(told) == 7
    sources = {source for source in probe.sources if source.startswith("LlamaIndex")}
    for number, (shape, claim) in enumerate(told):
        word = f"{PRIVATE}{number}"
        before = probe.records()
        eval(code_of(shape), {**llama_index, "question": word})
        now = probe.records()
        assert bool(hearing(probe, word)) == claim.startswith("raw"), shape
        assert any(before[s] != now[s] for s in sources) == (claim != "nothing"), shape
    assert not probe.remote.saw(PRIVATE)
