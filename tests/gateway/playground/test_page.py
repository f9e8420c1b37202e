"""The page in a real browser: by keyboard, on small screens, in both colour schemes, alone."""

from itertools import pairwise

import pytest
from support.browser import chromium, show
from support.cases import over
from support.gateway import serving
from support.playground import CHOICES, TEXT, playground, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

CONTRASTS = """
const number = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map(
    (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = number(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [20, 24, 29] : [255, 255, 255];
};
const written = [...document.querySelectorAll("body *")].filter((element) =>
  element.checkVisibility() && ([...element.childNodes].some(
    (node) => node.nodeType === 3 && node.data.trim()) || element.value));
return written.map((element) => {
  const ink = light(number(getComputedStyle(element).color).slice(0, 3));
  const paper = light(behind(element));
  const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  return [element.tagName + "." + element.className + " " + element.id, ratio];
});
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def address():
    with serving(served(playground())) as port:
        yield f"http://127.0.0.1:{port}"


def opened(browser, address, width=1280, scheme="light"):
    show(browser, width, scheme)
    browser.get(f"{address}/")
    waited(browser, "return document.querySelectorAll('input[name=choice]').length")
    return browser


def waited(browser, script):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 20).until(lambda running: running.execute_script(script))


def waited_for(browser, name, words):
    waited(browser, f"return document.getElementById('{name}').textContent.startsWith('{words}')")


def released(browser, choice="both", text=TEXT):
    browser.find_element("id", "text").send_keys(text)
    browser.find_element("id", f"choice-{choice}").click()
    sent(browser)


def sent(browser):
    browser.find_element("id", "send").click()
    waited_for(browser, "status", "A release")
    assert not browser.find_element("id", "result").is_displayed()
    browser.find_element("id", "send").click()
    waited_for(browser, "status", "Released.")


def text_of(browser, name):
    return browser.execute_script(f"return document.getElementById('{name}').textContent")


@over("choice", CHOICES)
def test_a_release_is_shown(browser, address, choice):
    opened(browser, address)
    released(browser, choice)
    assert text_of(browser, "original") == TEXT
    assert "times as likely" in text_of(browser, "certificate") or choice == "pseudonyms"
    assert text_of(browser, "answer") == f"You wrote: {text_of(browser, 'released')}"
    names = browser.find_element("id", "restored-part").is_displayed()
    assert names == (choice in ("pseudonyms", "both"))
    if names:
        assert "Mirela Tamburi" in text_of(browser, "restored")
        assert "Tamburi" in text_of(browser, "pseudonyms")
    assert browser.find_element("id", "words-part").is_displayed() == (choice in ("words", "both"))
    assert browser.get_log("browser") == []


@over("width, scheme", SCREENS)
def test_it_fits_every_screen_and_can_be_read(browser, address, width, scheme):
    opened(browser, address, width, scheme)
    released(browser)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    widest = browser.execute_script("return document.documentElement.scrollWidth")
    assert widest <= width
    ratios = browser.execute_script(CONTRASTS)
    assert len(ratios) > 60
    assert [(name, ratio) for name, ratio in ratios if ratio < 4.5] == []
    small = browser.execute_script(
        "return [...document.querySelectorAll('button, summary, textarea, input[type=number]')]"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 24).length"
    )
    assert small == 0


def test_the_keyboard_alone_is_enough(browser, address):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys, on=None):
        ActionChains(browser).send_keys(*keys).perform()
        assert on is None or focused() == on

    def focused():
        return browser.execute_script("return document.activeElement.id")

    opened(browser, address, 390)
    order = []
    for _ in range(5):
        press(Keys.TAB)
        order.append(focused())
        outline = "return getComputedStyle(document.activeElement).outlineWidth"
        assert browser.execute_script(outline) == "3px"
    assert order == ["text", "example", "choice-pseudonyms", "ask", "send"]
    browser.find_element("id", "text").send_keys(TEXT)
    press(Keys.TAB, Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_DOWN, on="choice-words")
    assert browser.find_element("id", "epsilon").is_displayed()
    press(Keys.ARROW_UP, Keys.ARROW_UP, on="choice-pseudonyms")
    assert not browser.find_element("id", "epsilon").is_displayed()
    press(Keys.TAB, Keys.TAB, on="send")
    press(Keys.ENTER)
    waited_for(browser, "send", "Release")
    assert "nothing is charged" in text_of(browser, "status")
    assert focused() == "send"
    press(Keys.ENTER)
    waited_for(browser, "status", "Released.")
    assert focused() == "result-title"
    press(Keys.TAB)
    pair = "return getComputedStyle(document.activeElement, '::after').content"
    assert browser.execute_script("return document.activeElement.textContent") == "Mirela"
    assert browser.execute_script(pair).startswith('" = ')
    while browser.execute_script("return document.activeElement.tagName") != "SUMMARY":
        press(Keys.TAB)
    press(Keys.ENTER)
    assert browser.find_element("id", "pseudonyms").is_displayed()


def test_what_was_changed_since_its_cost_was_shown_is_not_released(browser, address):
    opened(browser, address)
    browser.find_element("id", "example").click()
    browser.find_element("id", "send").click()
    waited_for(browser, "send", "Release")
    browser.find_element("id", "text").send_keys(" Berlin")
    assert text_of(browser, "send") == "Preview the cost"
    browser.execute_script("document.getElementById('text').value += ' unseen'")  # fires no event
    browser.find_element("id", "send").click()
    waited_for(browser, "send", "Release")
    browser.execute_script("document.getElementById('text').value += ' unseen'")
    browser.find_element("id", "send").click()
    waited_for(browser, "status", "A release")
    assert not browser.find_element("id", "result").is_displayed()


def test_a_screen_reader_is_told_names_roles_and_changes(browser, address):
    opened(browser, address)
    browser.find_element("id", "choice-words").click()
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    said = {(n["role"]["value"], n.get("name", {}).get("value")) for n in tree if "role" in n}
    assert said >= {
        ("textbox", "Your text (private)"),
        ("spinbutton", "Epsilon (nats per token)"),
        ("radio", "Every word"),
        ("radio", "Pseudonyms"),
        ("button", "Preview the cost"),
        ("checkbox", "Answer with an echo in this process"),
    }
    assert {("group", "Setting"), ("radiogroup", "Setting")} & said
    assert {role for role, _ in said} >= {"main", "banner", "heading"}
    live = browser.execute_script(
        "return [...document.querySelectorAll('[role=status], [role=alert]')].map(e => e.id)"
    )
    assert live == ["status", "error"]
    levels = "return [...document.querySelectorAll('h1,h2,h3,h4')].map(e => Number(e.tagName[1]))"
    order = browser.execute_script(levels)
    assert all(after - before <= 1 for before, after in pairwise(order))
    assert browser.execute_script("return document.documentElement.lang") == "en"


def test_colour_is_never_the_only_sign_and_nothing_is_fetched_elsewhere_or_kept(browser, address):
    opened(browser, address)
    released(browser, "words")
    widths = browser.execute_script(
        "return [...document.querySelectorAll('#legend [class^=heat]')].map("
        " e => getComputedStyle(e).borderBottomWidth)"
    )
    assert len({*widths}) == len(widths) == 4
    names = browser.execute_script("return performance.getEntries().map(e => e.name)")
    asked = [name for name in names if ":" in name and not name.startswith("data:")]
    assert len(asked) >= 4
    assert all(name.startswith(f"{address}/") and "?" not in name for name in asked)
    assert browser.get_cookies() == []
    assert browser.execute_script("return localStorage.length + sessionStorage.length") == 0


def test_markup_in_a_text_stays_text_and_no_other_script_runs(browser, address):
    opened(browser, address)
    evil = "<img src=x onerror=alert(1)> <script>window.hit=1</script> has <b>sister</b>"
    released(browser, "pseudonyms", evil + " Berlin")
    assert text_of(browser, "original") == evil + " Berlin"
    assert browser.execute_script("return document.querySelectorAll('#original *').length") > 0
    assert browser.execute_script("return document.images.length + (window.hit ?? 0)") == 0
    browser.execute_script(
        "const s = document.createElement('script');"
        "try { s.textContent = 'window.hit = 1'; document.body.append(s) } catch { }"
    )
    assert browser.execute_script("return window.hit ?? 0") == 0
    assert [entry["message"] for entry in browser.get_log("browser")] != []  # the policy's word


def test_an_error_is_said_and_the_text_stays(browser, address):
    opened(browser, address)
    browser.find_element("id", "choice-words").click()
    browser.find_element("id", "text").send_keys(TEXT)
    browser.execute_script("document.getElementById('epsilon').max = '1e9'")
    epsilon = browser.find_element("id", "epsilon")
    epsilon.clear()
    epsilon.send_keys("100000")
    browser.find_element("id", "send").click()
    waited(browser, "return document.getElementById('error').textContent")
    assert "epsilon: expected a number in 0.1 .. 1000" in text_of(browser, "error")
    assert browser.execute_script("return document.getElementById('text').value") == TEXT
    assert not browser.find_element("id", "result").is_displayed()
    browser.get_log("browser")  # Chromium itself logs the status 400
