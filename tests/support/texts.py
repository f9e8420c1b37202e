"""Texts that break careless code, and a word that must be nowhere."""

CANARY = "zxqvcanary"
"""Stands in private texts, and in no vocabulary, list or message of the library."""

TORTURE = {
    "empty": "",
    "blanks": " \t\n\r \u00a0\u3000 ",
    "one token": "cat",
    "emoji": "I 😀 you 👩‍👩‍👧‍👦 ok 🏳️‍🌈",
    "cjk": "我喜欢猫。日本語のテキスト。한국어 문장",
    "right to left": "مرحبا بالعالم שלום עולם",
    "control": "a\x00b\x07c\x1b[31md\x7fe\u0085f",
    "surrogate": "a \ud800 b",
    "combining": "Z̷̢̛a̸l̶g̵o e\u0301 \u0915\u094d\u0937",
    "special": "[MASK] [CLS] <|endoftext|> </s> ##ing [unused1]",
    "long word": "x" * 250,
    "rare script": "𓀀𓀁 ᚠᚢᚦ 𐍈",
    "zero width": "a\u200bb\u2060c\ufeffd",
}
