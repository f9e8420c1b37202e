"""What a scope declares public goes out as it is, all else is perturbed, and the frame holds."""

from __future__ import annotations

import ast
import json
import pickle
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt
from pygments.lexers import get_lexer_by_name
from pygments.token import Keyword, Operator, Punctuation
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware import scopes

HOSTILE = (
    *(
        '"',
        "\\",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\x1b[31m",
        "\ud800",
        "\u2028",
        '","x":"',
        "'",
        "{",
        "}",
    ),
    *("${x}", "`", "```", "~~~", "# x", "- y", "+ z", "> q", "](", "![", "[", "|", "*", "**", "_"),
    *("</p>", "<!--", "&lt;", "1.", "2)", "---", "===", "*/", "/*", "--", '"""', "'''", "#", "//"),
    *("def", "class", "match", "type", "SELECT", "if", "0", "12", "007", "null", "w", "é", "://"),
    *("<http://a>", "$", "@", "%s", "a_b", "!", "coding:x"),
)


def sanitizer_of(tokens, *, unknown="uniform"):
    vectors = np.random.default_rng(1).normal(size=(len(tokens), 3))
    space = dp.EmbeddingSpace(dp.Vocabulary(tokens, unknown=unknown), vectors)
    return dp.Sanitizer(dp.TokenExponential(epsilon=0.1), space, accept_infinite=True)


SANITIZERS = {  # with "drop", a release may be empty
    "hostile": sanitizer_of(HOSTILE),
    "empty": sanitizer_of(HOSTILE, unknown="drop"),
}
hostile = pytest.mark.parametrize("sanitizer", SANITIZERS.values(), ids=SANITIZERS)


def public(text, scope):
    """What a scope lets out as it is."""
    left, position = [], 0
    for span in sorted(scope(text), key=lambda each: each.start):
        left.append(text[position : span.start])
        position = span.end
    return "\0".join([*left, text[position:]])


# JSON ---------------------------------------------------------------------------------------------

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def skeleton(value, leaf):
    if isinstance(value, dict):
        return {key: skeleton(each, leaf) for key, each in value.items()}
    if isinstance(value, list):
        return [skeleton(each, leaf) for each in value]
    return leaf(value)


def shape(value):
    """A private value is a string afterwards, whatever it was."""
    return skeleton(value, lambda each: None if each is None else "value")


def as_text(value):
    return skeleton(value, lambda each: each if isinstance(each, str) else json.dumps(each))


@hostile
@settings(max_examples=80)
@given(value=VALUES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_json_keeps_its_skeleton_whatever_is_released(sanitizer, value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    released = sanitizer.release(text, scope=scopes.json_values).text
    assert shape(json.loads(released)) == shape(value)
    released.encode()  # has a UTF-8 form
    assert public(released, scopes.json_values).count("\0") == released.count("\0") + public(
        released, scopes.json_values
    ).count("\0")


@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_json_values_are_read_without_their_escapes(value, indent):
    text = json.dumps(value, indent=indent)
    found = [span.private(text) for span in scopes.json_values(text)]
    leaves = []
    skeleton(as_text(value), leaves.append)
    assert found == [leaf for leaf in leaves if leaf != "null"]


def test_json_only_the_values_under_chosen_keys():
    text = '{"id": 7, "who": {"name": "Ann", "age": [3, true]}, "x": [{"who": "\\u0042ob"}, "y"]}'
    scope = partial(scopes.json_values, keys={"who"})
    found = [span.private(text) for span in scope(text)]
    assert found == ["Ann", "3", "true", "Bob"]
    released = json.loads(SANITIZERS["hostile"].release(text, scope=scope).text)
    assert released["id"] == 7
    assert released["x"][1] == "y"
    assert list(released["who"]) == ["name", "age"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"a": 1}}', "{'a': 1}", f'{{"{CANARY}": NaN}}', "[1,]", '"a\nb"', "01", "+1"),
        *(f"{CANARY}", "[Infinity]", "\ufeff1", "[" * 100_000, '"\\x"', "1 2"),
    ],
)
def test_what_is_no_json_is_refused_without_a_word_of_it(text):
    with pytest.raises(dp.ParameterError, match="expected one JSON document") as caught:
        scopes.json_values(text)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(dp.ParameterError) as caught:
        SANITIZERS["hostile"].release(text, scope=scopes.json_values)
    assert CANARY not in str(caught.value)


def test_json_a_long_number_is_private_as_it_is_written():
    text = "[" + "9" * 5000 + ", 1e400, -0.5E-7]"
    found = [span.private(text) for span in scopes.json_values(text)]
    assert found == ["9" * 5000, "1e400", "-0.5E-7"]


# Markdown -----------------------------------------------------------------------------------------

PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")
INLINE = [
    *("plain words", "**strong**", "*soft* words", "_under_ line", "`code`", "~~gone~~"),
    *("[label](http://x.y/z)", "![alt](a.png)", "<http://x.y>", "(**both**), *after*."),
    *("a **b *c* d** e", "[**b**](c) d", "***all***", "x `a b`, y", "**[b](c)**: d"),
]
BLOCKS = [
    *("# {}", "### {}", "> {}", "- {}", "* {}\n  * {}", "1. {}\n2. {}", "{}\n===", "{}\n\n---"),
    *("| {} | {} |\n|---|:-:|\n| {} | x |", "```python\nx = '{}'\n```", "~~~\n{}\n~~~", "{}\n{}"),
    *("> - {}\n>   {}", "```{}\n{}\n```"),
]


@st.composite
def documents(draw):
    blocks = []
    for block in draw(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4)):
        pieces = [draw(st.sampled_from(INLINE)) for _ in range(block.count("{}"))]
        pieces = [p.replace("`", "") for p in pieces] if "```" in block else pieces
        blocks.append(block.format(*pieces))
    return "\n\n".join(blocks) + "\n"


def frame(text):
    """Types of blocks and of what stands in their lines, without the words."""
    found = []
    for block in PARSER.parse(text):
        found.append(block.type)
        inside = [t for t in block.children or [] if t.type != "text"]
        found += [t.type for t in inside]
        found += [c.type for t in inside for c in t.children or [] if c.type != "text"]
    return found


@hostile
@settings(max_examples=150, deadline=None)
@given(text=documents())
def test_markdown_keeps_its_frame_whatever_is_released(sanitizer, text):
    assert frame(sanitizer.release(text, scope=scopes.markdown).text) == frame(text)


def test_markdown_what_is_public():
    text = (
        '# My **dear**\n\n> 1. one\n> 2. two\n\n1984. A year\n- [x] [a](http://b.c "t") `d`\n\n'
        "| h |\n|---|\n| c |\n\n```python\nx = 'y'\n```\n---\n<b>html</b> [r][s] <mailto:x@y>\n"
    )
    assert re.sub("\0", "", public(text, scopes.markdown)) == (
        "#  ****\n\n> 1. \n> 2. \n\n\n-  []() ``\n\n"
        "|  |\n|---|\n|  |\n\n```python\n = ''\n```\n---\n <>\n"
    )


@given(words=st.lists(st.sampled_from([CANARY, *INLINE, *HOSTILE, "\n", " "]), max_size=12))
def test_markdown_no_word_is_public(words):
    assert CANARY not in public("".join(words), scopes.markdown)


@pytest.mark.parametrize("blanks", ["\xa0" * 6, "\u3000", " \u2003 ", "\x1c\t", "\x85\xa0"])
@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_markdown_what_a_fence_says_is_private_behind_any_blanks(fence, blanks):
    text = f"{fence}{blanks}{CANARY} {CANARY}{blanks}\n{CANARY}\n{fence}\n"
    left = public(text, scopes.markdown)
    assert re.sub(r"\s", "", left) == f"{fence}\0\0{fence}"


def test_markdown_a_long_line_takes_no_long_time():
    for piece in ("*a ", "[a", "`a", "_a", "![a](", "<a@", "~~a", "| "):
        assert CANARY not in public(f"{CANARY} " + piece * 5000, scopes.markdown)


# code ---------------------------------------------------------------------------------------------

SOURCES = {
    "python": (
        '@cached\ndef f(a, b=1, *c):\n    """Doc\n\n    more."""\n    # note: it\n'
        "    if a in b and not c:\n        return f\"x y\" + a['k'] + 'z\\n' + rb'q'\n"
        "    return None if a.b else {1: [2.5, 0x1f]}\n"
    ),
    "javascript": "const a = `x y` + b; /* c\n d */ if (a === 'e') { return; } // f\n",
    "typescript": 'function f(a: string): number { return a.length + 1; } // "c"\n',
    "java": "package a;\n@Override\npublic int f(int x) { return \"y\".a(x) + 'c'; } /* z */\n",
    "c": "int f(int x) {\n  char c = 'x'; // y\n  return g(\"a\\n\", x) + 10;\n}\n",
    "cpp": 'namespace a { class B { public: int c = 1; }; } // "x"\n',
    "csharp": 'using A; class B { string c = "d"; } // e\n',
    "go": 'package a\nfunc f() string { return `raw\n"x` + "s" } // c\n',
    "rust": "fn f<'a>(x: &'a B) -> B { let s = \"q\"; /* c */ g(x, 1) }\n",
    "sql": "SELECT a, 'x''y' FROM b WHERE d = 3 -- hi\nORDER BY a;\n",
}
SNIPPETS = [
    *(CANARY, f"'{CANARY}'", f'"{CANARY}"', f"`{CANARY}`", f"# {CANARY}", f"// {CANARY}\n"),
    *(f"/* {CANARY} */", f"-- {CANARY}", f'"""{CANARY}"""', f"f'{{{CANARY}}}'", f"@{CANARY}"),
    *(
        f"#include <{CANARY}>\n",
        f"${{{CANARY}}}",
        f"0x{CANARY}",
        f"r#'{CANARY}'#",
        "def ",
        "class ",
    ),
    *(
        "'",
        '"',
        "`",
        "{",
        "}",
        "(",
        ")",
        "\\",
        "\n",
        " ",
        "/",
        "*/",
        "import ",
        "goto ",
        f"name: {CANARY}",
        f"a ? b : {CANARY}",
        f"case x: {CANARY}()",
        ":",
        "=",
        "1",
    ),
]


def words_of_the_language(language, text):
    lexed = get_lexer_by_name(language).get_tokens_unprocessed(text)
    public = (Punctuation, Operator)
    return [
        value
        for _, kind, value in lexed
        if any(kind in each for each in public)
        or (kind in Keyword and kind not in Keyword.Constant)
    ]


def test_a_source_for_every_language():
    assert set(SOURCES) == set(scopes.LANGUAGES)


@hostile
@pytest.mark.parametrize("language", scopes.LANGUAGES)
def test_code_keeps_its_frame_whatever_is_released(language, sanitizer):
    text = SOURCES[language]
    for _ in range(25):
        released = sanitizer.release(text, scope=scopes.code(language)).text
        assert words_of_the_language(language, released) == words_of_the_language(language, text)
        assert released.count("\n") == text.count("\n")


@hostile
def test_released_python_parses(sanitizer):
    for _ in range(100):
        tree = ast.parse(sanitizer.release(SOURCES["python"], scope=scopes.code("python")).text)
        assert [type(each) for each in tree.body] == [ast.FunctionDef]


@pytest.mark.parametrize("language", scopes.LANGUAGES)
@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(st.sampled_from(SNIPPETS), max_size=15))
def test_code_no_name_literal_or_comment_is_public(language, pieces):
    text = "".join(pieces)
    assert CANARY not in public(text, scopes.code(language))


@pytest.mark.parametrize(
    "frame",
    [
        "const p = {{name: {0}, pin: {0}}};",
        "let x: {0} = y as {0};",
        "f(a ? b : {0}, a?{0}:{0})",
        "switch (x) {{ case {0}: {0}(); default: {0} }}",
        "{0}: {0}: {0}",
        "function f(a: {0}, b?: {0}): {0} {{ }}",
        "type A = {0} | {0}; let b: {0}.{0}<{0}>",
    ],
)
@pytest.mark.parametrize("language", scopes.LANGUAGES)
def test_code_a_name_behind_a_colon_is_private(language, frame):
    assert CANARY not in public(frame.format(CANARY), scopes.code(language))


def test_code_types_of_typescript_are_public():
    text = "let a: string, b: unknown, c: Maria"
    assert public(text, scopes.code("typescript")) == "let \0: string, \0: unknown, \0: \0"


@pytest.mark.parametrize("language", scopes.LANGUAGES)
def test_code_public_letters_are_those_of_the_language(language):
    text = SOURCES[language]
    words = set(re.findall(r"\w+", public(text, scopes.code(language)).replace("\0", " ")))
    assert words <= set(words_of_the_language(language, text)) | {
        "f",
        "rb",
        "r",
    }  # before quotes, !r


def test_code_a_column_is_private_also_if_its_name_is_a_keyword_somewhere():
    text = "SELECT password, name, year, C FROM location"
    assert public(text, scopes.code("sql")) == "SELECT \0, \0, \0, \0 FROM \0"


@pytest.mark.parametrize(
    ("language", "text"), [("python", 'f"a {b if c else d!r:>3}"'), ("javascript", "`a ${b in c}`")]
)
def test_code_the_fields_of_a_formatted_string_are_private(language, text):
    assert public(text, scopes.code(language)) in ('f"\0"', "`\0`")


def test_code_a_number_stays_a_number_and_a_keyword_is_no_name():
    numbers, keywords = sanitizer_of(["12", "34"]), sanitizer_of(["class", "if"])
    scope = scopes.code("python")
    assert re.fullmatch(r"_\d\d = \d\d", numbers.release("x = 1", scope=scope).text)
    assert re.fullmatch(r"(class|if)_ = (class|if)_", keywords.release("x = 1", scope=scope).text)


@pytest.mark.parametrize("language", ["yaml", "html", "brainfuck", "", "Python"])
def test_a_language_whose_keywords_are_not_known_is_refused(language):
    with pytest.raises(dp.ParameterError, match="expected language in"):
        scopes.code(language)


# all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TORTURE.values(), ids=TORTURE)
@pytest.mark.parametrize("scope", [scopes.markdown, *map(scopes.code, scopes.LANGUAGES)])
def test_no_text_breaks_a_scope(scope, text):
    left = public(text, scope).replace("\0", "")
    assert not any(map(str.isalnum, left))
    SANITIZERS["hostile"].release(text, scope=scope)


def test_a_text_outside_of_a_scope_is_said_to_be_public():
    release = SANITIZERS["hostile"].release('{"a": "b"}', scope=scopes.json_values)
    assert any("outside the given spans is public" in a for a in release.certificate.assumptions)


# matches and analyzers ----------------------------------------------------------------------------


def test_matches_of_several_patterns():
    scope = scopes.matches(r"\d{4,}", re.compile(r"\w+@\w+", re.ASCII))
    assert public("PIN 12345 of a@b, 12", scope) == "PIN \0 of \0, 12"
    release = sanitizer_of(["w"]).release("PIN 12345 of a@b, 12", scope=scope)
    assert release.text == "PIN w of w, 12"


def test_detectors_go_to_other_processes():
    text = "PIN 12345 of Ann"
    for scope in (
        scopes.matches(r"\d{4,}"),
        scopes.presidio(Analyzer(), entities=["PERSON"]),
        scopes.code("sql"),
        scopes.markdown,
    ):
        assert public(text, pickle.loads(pickle.dumps(scope))) == public(text, scope)


@pytest.mark.parametrize("patterns", [(), ("(",), (3,)])
def test_matches_refuses_what_is_no_pattern(patterns):
    with pytest.raises(dp.ParameterError, match="expected"):
        scopes.matches(*patterns)


class Analyzer:
    """As Presidio's engine, with one recogniser."""

    def analyze(self, text, language, entities=None):
        if language != "en":
            raise ValueError(f"no recognizer for {text}")
        if entities is not None and "PERSON" not in entities:
            return []
        return [Result(*m.span()) for m in re.finditer(r"\b[A-Z]\w+", text)]


class Result:
    def __init__(self, start, end):
        self.start, self.end, self.entity_type, self.score = start, end, "PERSON", 0.85


def test_presidio_results_are_private():
    text = "we met Ann Lee at noon"
    assert public(text, scopes.presidio(Analyzer())) == "we met \0 \0 at noon"
    released = sanitizer_of(["w"]).release(text, scope=scopes.presidio(Analyzer())).text
    assert released == "we met w w at noon"
    phones = scopes.presidio(Analyzer(), entities=["PHONE_NUMBER"])
    assert public(text, phones) == text


def test_an_analyzer_that_fails_lets_nothing_out():
    with pytest.raises(dp.ParameterError, match="failed with ValueError") as caught:
        SANITIZERS["hostile"].release(CANARY, scope=scopes.presidio(Analyzer(), language="de"))
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


class Detector:
    def __call__(self, text):
        raise RuntimeError(text)


def outside(text):
    return [(0, len(text) + 1)]


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        (scopes.json_values, "from the scope json_values, it failed with ParameterError"),
        (partial(scopes.json_values, keys={"a"}), "from the scope json_values, it failed with"),
        (scopes.presidio(Analyzer(), language="de"), "from the scope presidio, it failed with"),
        (
            Detector(),
            "from the scope Detector, it failed with RuntimeError.*call it on a public text",
        ),
        (outside, "got one outside from the scope outside; count"),
        ([(0, 99)], "got one outside from the scope, a list; count"),
        ([(0, "b")], "from the scope, a list, it failed with TypeError"),
        (lambda _: [dp.Span(0, 4, text="b"), (2, 6)], "got two that do from the scope .*<lambda>"),
    ],
)
def test_an_error_of_a_scope_names_it_and_says_what_to_do_without_the_text(scope, message):
    with pytest.raises(dp.ParameterError, match=message) as caught:
        SANITIZERS["hostile"].release(CANARY, scope=scope)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_the_real_presidio():
    engine = pytest.importorskip("presidio_analyzer")
    pattern = engine.Pattern("pin", r"\d{5}", 0.9)
    registry = engine.RecognizerRegistry(
        [engine.PatternRecognizer(supported_entity="PIN", patterns=[pattern])]
    )
    nlp = pytest.importorskip("presidio_analyzer.nlp_engine").SpacyNlpEngine()
    nlp.nlp = {"en": pytest.importorskip("spacy").blank("en")}  # it would fetch a model
    analyzer = engine.AnalyzerEngine(registry=registry, nlp_engine=nlp)
    assert public("PIN 12345", scopes.presidio(analyzer, entities=["PIN"])) == "PIN \0"


@pytest.mark.parametrize("wrong", [None, lambda text: [], object()])
def test_what_is_no_analyzer_is_refused(wrong):
    with pytest.raises(dp.ParameterError, match="AnalyzerEngine"):
        scopes.presidio(wrong)
