"""A text in a language whose names are not known does not go out in silence."""

import re

import pytest
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.errors import UnknownLanguage
from dp_middleware.pseudonyms import default_detector
from dp_middleware.pseudonyms.detectors.words import unknown_language
from dp_middleware.pseudonyms.kinds.date_formats import read
from dp_middleware.pseudonyms.kinds.names import LOCALES, family_names

UNKNOWN = {
    "Chinese": "你好，我叫张伟，住在北京市朝阳区。",
    "Japanese": "私の名前は田中太郎です。東京に住んでいます。",
    "Korean": "안녕하세요, 저는 김민수입니다.",
    "Arabic letters": "اسمي أحمد حسن وأعيش في القاهرة.",
    "Cyrillic letters": "Меня зовут Иван Петров, я живу в Москве.",
    "Greek": "Με λένε Γιώργο Παπαδόπουλο και μένω στην Αθήνα.",
    "Turkish": "Benim adım Ahmet Yılmaz ve bu hafta için çok güzel bir plan yaptım.",
    "Swedish": "Hej, jag heter Anna Svensson och det är inte så långt från dig.",
    "Vietnamese": "Tôi tên là Nguyễn Văn An và tôi sống ở Hà Nội với gia đình.",
    "Indonesian or Malay": "Nama saya Budi dan saya tinggal di Jakarta dengan keluarga saya.",
}
"""One or two sentences each, with a name."""

PASSING = [
    "",
    "😀🎉👍🏽 ❤️ ¯\\_(ツ)_/¯ ಠ_ಠ",
    "Let α, β ∈ ℝ, Δx = 3 μm and σ² = 4, says 𝐀𝐝𝐚; see ①.",
    "for (let i = 0; i < ime.length; i++) { if (bir[i] === vi) return az; }",
    '{"name": "张伟", "city": "北京", "note": "call him"}',
    "Søren Ångström, Håkan Öberg, Antonín Dvořák, Nguyễn Thị Minh Khai, Ayşe Çelik",
    "Our customer 张伟 of 北京市 asked for a refund.",
    "The witness محمد بن عبد الله called her yesterday.",
    "She said hej to me, and that the shop called Jag och du was closed on Monday.",
    "Größere Ärzte über Köln: die Straße wäre schöner, sagt Jörg, als das Dorf.",
    "Où êtes-vous, et pourquoi n'êtes-vous pas déjà à la forêt près d'Orléans ?",
    "Mañana el señor Núñez llegará a Málaga con su hermana y una niña pequeña.",
    "Nie wiemy, co powiedział Łukasz, ale jutro będzie spotkanie w Łodzi.",
]


@pytest.fixture(scope="module")
def ours():
    pytest.importorskip("onnxruntime", reason="the detector is of the extra detect")
    return default_detector()


def notes(text, detector, **terms):
    """What the certificate of a release says of its language."""
    session = dp.Pseudonyms(detector, on_empty="pass", **terms).session()
    assumptions = session.release_once("user", text).certificate.assumptions
    return [each for each in assumptions if each.startswith("this text is in")]


@over("language", UNKNOWN)
def test_a_text_in_another_language_is_told(language):
    text = UNKNOWN[language]
    assert unknown_language(text) == language
    assert unknown_language(f"1) {text} 📞 +49 30 1234567") == language
    if language in ("Chinese", "Japanese", "Cyrillic letters", "Greek"):
        letter = f"Dear Jo,\n\nthis is what she wrote to us:\n\n{text}\n\nPlease answer today.\n"
        assert unknown_language(letter) == language


@over("text", PASSING)
def test_nothing_else_is(text):
    assert unknown_language(text) is None


def test_it_is_refused_by_default_before_anything_is_charged(ours):
    books = Charges()
    session = dp.Pseudonyms(ours, ledger=books, subject="ann").session()
    with pytest.raises(UnknownLanguage, match="got one in Chinese") as refused:
        session.release_once("user", UNKNOWN["Chinese"] + " $120.50")
    for remedy in ("detector=", 'rest="common"', "sanitizer=", 'on_language="pass"'):
        assert remedy in str(refused.value)
    assert not set(UNKNOWN["Chinese"]) & set(str(refused.value))
    assert (session.mapping(), books.rows) == ({}, [])


@pytest.mark.parametrize(("mode", "logged"), [("warn", 1), ("pass", 0)])
def test_it_goes_out_with_a_note_where_it_may(ours, caplog, mode, logged):
    [note] = notes(UNKNOWN["Japanese"], ours, on_language=mode)
    assert note == "this text is in Japanese: the default detector finds few of its names"
    assert [record.name for record in caplog.records] == ["dp_middleware.pseudonyms"] * logged
    assert not caplog.records or note in caplog.text
    assert notes("Maria Lopez is here.", ours, on_language=mode) == []


def test_a_detector_of_yours_is_trusted_unless_you_say_so():
    assert notes(UNKNOWN["Chinese"], lambda _: []) == []
    with pytest.raises(UnknownLanguage):
        notes(UNKNOWN["Chinese"], lambda _: [], on_language="refuse")
    with pytest.raises(dp.errors.ParameterError, match="on_language"):
        dp.Pseudonyms(lambda _: [], on_language="ignore")


def test_nothing_is_judged_where_the_rest_stays_or_signs_tell(ours, caplog):
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), random_space(tokens=20))
    for terms in ({"rest": "common"}, {"sanitizer": sanitizer}, {"kinds": ["email", "secret"]}):
        assert notes(UNKNOWN["Chinese"], ours, on_language="warn", **terms) == []
    assert caplog.records == []


LETTERS = {
    "de": "Ich wohne nicht mehr bei {}, sondern seit dem {} in der {} in {}.",
    "fr": "Je ne suis plus chez {} depuis le {}, mais à cette adresse : {} à {}.",
    "es": "Ya no estoy con {} desde el {}, pero esta es mi casa: {} en {}.",
    "it": "Non sono più da {} dal {}, ma questa è la casa: {} a {}.",
    "pt": "Eu não estou mais com {} desde {}, mas esta é a minha casa: {} em {}.",
    "nl": "Ik ben niet meer bij {} sinds {}, maar dit is mijn huis: {} in {}.",
    "pl": "Nie jestem już u {} od {}, ale to jest mój dom: {} w {}.",
}
STREETS = {
    "de": ("3. März 2019", "Lindenstraße 14"),
    "fr": ("5 février 2019", "12 rue des Lilas"),
    "es": ("14 de marzo de 2019", "Calle Mayor 15"),
    "it": ("7 gennaio 2019", "via Garibaldi 12"),
    "pt": ("9 de setembro de 2019", "Rua Augusta 103"),
    "nl": ("5 maart 2019", "Kerkstraat 8"),
    "pl": ("12 sierpnia 2019", "ul. Długa 15"),
}


@over("language", LETTERS)
def test_what_is_drawn_is_of_the_language_of_the_text(ours, language):
    day, home = STREETS[language]
    values = ("Maria Lopez", day, home, "Bologna")
    text = LETTERS[language].format(*values)
    session = dp.Pseudonyms(ours).session()
    release = session.release_once("user", text).text
    assert session.restore(release) == text
    assert not any(value in release for value in values)
    drawn = {value: pseudonym for pseudonym, value in session.mapping().items()}
    assert drawn["Lopez"] in family_names(LOCALES[language])
    assert read(drawn[day], "dmy", language).template.startswith(f"{language}|%e")
    street = re.search(r"straße|rue|Calle|via|Rua|straat|ul\.", home).group()
    [address] = [each for value, each in drawn.items() if home in value]
    assert street in address


def test_words_that_do_not_go_out_tell_no_language(ours):
    """The law of a pseudonym is the same for each private value: only public words choose it."""
    private = "Sie ist nicht mehr mit uns auf der Straße"
    for _ in range(5):
        session = dp.Pseudonyms(ours, also={private: "organisation"}).session()
        session.release_once("user", f"Send it to Maria Lopez, please: {private}!")
        [family] = [name for name, value in session.mapping().items() if value == "Lopez"]
        assert family in family_names()
