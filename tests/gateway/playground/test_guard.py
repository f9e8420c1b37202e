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
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return TestClient(served(made), client=(peer, 50000)).request(method, path, headers=sent)


NAMES = ("127.0.0.1:8080", "127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]")
STRANGE = [
    *("evil.test", "evil.test:8080", "127.0.0.1.evil.test", "localhost.evil.test"),
    *("localhost@evil.test", "evil.test#localhost", "evil.test/localhost", "0.0.0.0", "2130706433"),
    *("[::1", "", " ", "localhost:port]"),
]


@over("host", NAMES)
def test_names_of_this_computer(made, host):
    assert asked(made, host=host).status_code == 200
    twice = [("host", host), ("host", "evil.test")]
    assert client(made).get("/", headers=twice).status_code == 403


@over("host", STRANGE)
@over("path", ["/", "/playground/page.js", "/playground/form"])
def test_a_name_that_leads_here_is_refused(made, host, path):
    answer = asked(made, host=host, path=path)
    assert answer.status_code == 403
    assert "evil" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_another_computer_or_a_proxy_that_asks_for_one_is_refused(made):
    for peer in ("192.0.2.7", "10.0.0.1", "testclient", "", "::ffff:192.0.2.7"):
        assert asked(made, peer=peer, **LOCAL).status_code == 403
    for name in ("forwarded", "via", "x_real_ip", "x_forwarded_for", "x_forwarded_host"):
        assert asked(made, **LOCAL, **{name: "127.0.0.1"}).status_code == 403


def test_another_site_cannot_post(made):
    def status(**headers):
        return asked(made, method="POST", path="/playground/release", **headers).status_code

    json = {"host": LOCAL["host"], "content_type": "application/json"}
    for origin in ("null", "http://evil.test", "http://127.0.0.1", "http://127.0.0.1:8081", ""):
        assert status(**json, origin=origin) == 403
    assert status(**json) == 403
    forms = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
    assert {status(content_type=kind, **LOCAL) for kind in ("", *forms)} == {415}


@over("path", ["/", "/playground/page.css", "/playground/form"])
def test_no_answer_may_run_load_or_keep_anything_else(made, path):
    headers = client(made).get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert not [word for word in ("unsafe", "http") if word in policy]
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith(("access-control-", "set-cookie"))]


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
