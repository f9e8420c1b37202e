"""A browser on this computer that shows our own page is let in; no other caller is."""

import re
from importlib.resources import files

import pytest
from starlette.testclient import TestClient
from support.cases import over
from support.playground import client, playground, served

LOCAL = {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"}


@pytest.fixture(scope="module")
def made():
    return playground()


def asked(made, peer="127.0.0.1", method="GET", path="/", **headers):
    browser = TestClient(served(made), client=(peer, 50000))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return browser.request(method, path, headers=sent)


@over("host", ["127.0.0.1:8080", "127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_names_of_this_computer(made, host):
    assert asked(made, host=host).status_code == 200


@over(
    "host",
    [
        "evil.test",
        "evil.test:8080",
        "127.0.0.1.evil.test",
        "localhost.evil.test",
        "localhost@evil.test",
        "evil.test#localhost",
        "evil.test/localhost",
        "0.0.0.0",
        "2130706433",
        "[::1",
        "",
        " ",
        "localhost:port]",
    ],
)
@over("path", ["/", "/playground/page.js", "/playground/form"])
def test_a_name_that_leads_here_is_refused(made, host, path):
    answer = asked(made, host=host, path=path)
    assert answer.status_code == 403
    assert "evil" not in answer.text


@pytest.mark.parametrize("peer", ["192.0.2.7", "10.0.0.1", "testclient", "", "::ffff:192.0.2.7"])
def test_another_computer_is_refused(made, peer):
    assert asked(made, peer=peer, **LOCAL).status_code == 403


@over(
    "name",
    ["forwarded", "via", "x_real_ip", "x_forwarded_for", "x_forwarded_host", "x_forwarded_proto"],
)
def test_a_proxy_that_asks_for_another_is_refused(made, name):
    assert asked(made, **LOCAL, **{name: "127.0.0.1"}).status_code == 403


@over("origin", [None, "null", "http://evil.test", "http://127.0.0.1", "http://127.0.0.1:8081", ""])
def test_another_site_cannot_post(made, origin):
    headers = {"host": "127.0.0.1:8080", "content_type": "application/json"}
    if origin is not None:
        headers["origin"] = origin
    answer = asked(made, method="POST", path="/playground/release", **headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "not_local"


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_form_of_another_site_has_another_content_type(made, kind):
    answer = asked(made, method="POST", path="/playground/release", content_type=kind, **LOCAL)
    assert answer.status_code == 415


@pytest.mark.parametrize("path", ["/", "/playground/page.css", "/playground/form", "/playground/x"])
def test_no_answer_may_run_load_or_keep_anything_else(made, path):
    answer = client(made).get(path)
    if path.endswith("/x"):
        assert answer.status_code == 404
        return
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_headers_come_with_refusals_too(made):
    assert "default-src 'none'" in asked(made, host="evil.test").headers["content-security-policy"]


def test_two_hosts_are_none(made):
    browser = TestClient(served(made), client=("127.0.0.1", 50000))
    twice = [("host", "127.0.0.1"), ("host", "evil.test")]
    assert browser.get("/", headers=twice).status_code == 403


def test_every_element_that_the_script_asks_for_is_on_the_page():
    static = files("dp_middleware.gateway.playground") / "static"
    page, script = ((static / name).read_text("utf-8") for name in ("index.html", "page.js"))
    asked = {*re.findall(r'get\("([\w-]+)"\)', script)} | {"certificate", "attackers"}
    ids = re.findall(r'id="([\w-]+)"', page)
    assert asked <= {*ids}
    assert len(ids) == len({*ids})
    pointed = re.findall(r'(?:for|aria-labelledby|aria-describedby)="([\w-]+)"', page)
    assert {*pointed} <= {*ids}
    assert not re.search(r"https?://|style=|\son\w+=|<style|<script>", page)
    assert not re.search(r"innerHTML|insertAdjacent|\beval\b|document\.write|https?://", script)
    assert not re.search(r"url\(|@import", (static / "page.css").read_text("utf-8"))
