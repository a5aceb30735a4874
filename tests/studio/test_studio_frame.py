"""The frame of the studio: who gets in, what a page may load, what hostile texts become, and both languages."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zlib
from urllib.parse import quote

import httpx
import pytest
from generators import mixture
from walks import Walker, play_demo, run_in_thread, serve_studio

from jacquard.service.access.records import using_records
from jacquard.service.values import Scope
from jacquard.studio.app import ROOMS
from jacquard.studio.door import FILES, POLICY, TOKEN_COOKIE
from jacquard.studio.visit import FOLDER, LANGUAGE_COOKIE, TEXTS

PAGE = {"accept": "text/html,*/*;q=0.8"}
HTMX_SHA256 = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""htmx.org 2.0.11, dist/htmx.min.js."""
EDITOR_SHA256 = "491952ba31b94c94081c9bb62151184da54d803d9da933a280c6f3777c05f25c"
"""CodeMirror 6 with `editor/editor.js`, made by `editor/make.sh`."""
HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a> {{ 7*7 }} \u202e"
)


def open_page(address, path="/", **headers):
    return httpx.get(f"{address}{path}", headers=PAGE | headers)


def test_a_browser_finds_the_conversations_at_the_root_and_a_program_finds_nothing(studio):
    page = open_page(studio)
    assert page.status_code == 200
    assert "demo-en" in page.text
    assert httpx.get(f"{studio}/").status_code == 404
    assert httpx.get(f"{studio}/", headers={"accept": "application/json"}).json()["error"]["code"] == "not_found"


def test_every_answer_has_the_content_policy(studio):
    for path in (
        "/",
        "/s/demo-en",
        "/s/nobody",
        "/studio/nowhere",
        "/studio/static/studio.js",
        "/studio/static/none.js",
    ):
        answer = open_page(studio, path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" not in httpx.get(f"{studio}/api/v1/sessions").headers


def test_no_template_has_script_or_style_of_its_own_or_marks_a_text_as_safe():
    for file in (FOLDER / "templates").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(
            r"\|\s*safe|Markup|autoescape|<style|\sstyle=|\son\w+=|javascript:|hx-on|hx-vals=.js", text
        ), file
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), file


def test_files_of_others_are_as_they_were_published():
    assert hashlib.sha256(FILES["htmx.min.js"][0]).hexdigest() == HTMX_SHA256
    assert hashlib.sha256(FILES["codemirror.min.js"][0]).hexdigest() == EDITOR_SHA256
    assert "Permission to use, copy, modify" in FILES["htmx.LICENSE.txt"][0].decode()
    assert "Permission is hereby granted" in FILES["codemirror.LICENSE.txt"][0].decode()


def test_the_files_of_the_studio_are_small_in_a_wheel():
    files = [each for each in FOLDER.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    assert sum(len(zlib.compress(each.read_bytes())) for each in files) < 300_000


def test_every_text_has_both_languages_and_the_same_values():
    for file in (FOLDER / "texts").iterdir():
        for table in tomllib.loads(file.read_text(encoding="utf-8")).values():
            for key, forms in table.items():
                values = [sorted(re.findall(r"\{(\w+)", forms[language])) for language in ("en", "zh")]
                assert values[0] == values[1], (file.name, key)


def test_every_room_has_a_name():
    assert {f"room.{room.name}" for room in ROOMS} <= TEXTS["en"].texts.keys()


def test_the_language_is_that_of_the_address_the_cookie_or_the_browser(studio):
    assert 'lang="en"' in open_page(studio).text
    assert 'lang="zh-CN"' in open_page(studio, **{"accept-language": "fr, zh-CN;q=0.8, en;q=0.5"}).text
    chosen = open_page(studio, "/?lang=zh")
    assert 'lang="zh-CN"' in chosen.text
    assert 'lang="zh-CN"' in open_page(studio, cookie=f"{LANGUAGE_COOKIE}={chosen.cookies[LANGUAGE_COOKIE]}").text


def test_a_page_that_is_not_there_is_named_in_the_readers_language(studio):
    page = open_page(studio, "/s/nobody", **{"accept-language": "zh"})
    assert page.status_code == 404
    assert "没有这个会话" in page.text
    part = open_page(studio, "/s/nobody", **{"hx-request": "true"})
    assert part.status_code == 404
    assert part.text.strip() == '<p class="bad" role="alert">There is no such conversation.</p>'


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "SELF", "sec-fetch-site": "cross-site"},
    ],
)
def test_only_pages_of_the_studio_itself_may_send_forms(studio, headers):
    headers = {name: studio if value == "SELF" else value for name, value in headers.items()}
    answer = httpx.post(f"{studio}/studio/logout", headers=PAGE | headers)
    assert answer.status_code == 403
    assert "foreign_origin" in answer.text
    own = httpx.post(f"{studio}/studio/logout", headers=PAGE | {"origin": studio, "sec-fetch-site": "same-origin"})
    assert own.status_code == 303


def test_a_service_without_the_setting_has_no_pages(tmp_path):
    with serve_studio(tmp_path / "store") as address:
        assert open_page(address).status_code == 200
    from served import serve_app

    from jacquard.config.service import ServiceSettings
    from jacquard.service.running.application import build_app

    with serve_app(build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"))) as port:
        assert open_page(f"http://127.0.0.1:{port}").status_code == 404
        assert open_page(f"http://127.0.0.1:{port}", "/studio/static/studio.js").status_code == 404


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with tenants: its address and a token of each kind."""
    import anyio

    store, tokens = tmp_path_factory.mktemp("guarded") / "store", {}

    async def create():
        async with using_records(str(store)) as records:
            tokens["admin"] = (await records.tokens.create("ana", Scope.ADMIN))[0]
            tokens["play"] = (await records.tokens.create("ana", Scope.PLAY))[0]
            tokens["viewer"] = (await records.tokens.create("ana", Scope.PLAY, viewer="mira"))[0]
            tokens["other"] = (await records.tokens.create("bo", Scope.ADMIN))[0]

    run_in_thread(lambda: anyio.run(create))
    with serve_studio(store, tenants=True) as address:
        ana = {"authorization": f"Bearer {tokens['admin']}"}
        answer = httpx.post(f"{address}/api/v1/sessions", json={"session_id": "anas"}, headers=ana)
        assert answer.status_code in (201, 409, 422), answer.text
        yield address, tokens, answer.status_code


def log_in(address, token, **more):
    own = {"origin": address, "sec-fetch-site": "same-origin"}
    return httpx.post(f"{address}/studio/login", data={"token": token, **more}, headers=PAGE | own)


def test_a_service_with_tenants_asks_for_a_token(guarded):
    address, tokens, _ = guarded
    page = open_page(address, "/s/anas")
    assert page.status_code == 401
    assert 'name="token"' in page.text
    assert 'value="/s/anas"' in page.text
    assert log_in(address, "jq_wrong").status_code == 401
    done = log_in(address, tokens["admin"], next="/s/anas")
    assert (done.status_code, done.headers["location"]) == (303, "/s/anas")
    cookie = done.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nb"]
)
def test_a_log_in_leads_nowhere_else(guarded, wanted):
    address, tokens, _ = guarded
    assert log_in(address, tokens["admin"], next=wanted).headers["location"] == "/"


def test_the_cookie_opens_pages_of_its_tenant_and_nothing_of_the_api(guarded):
    address, tokens, _ = guarded
    cookie = {"cookie": f"{TOKEN_COOKIE}={tokens['admin']}"}
    assert open_page(address, **cookie).status_code == 200
    assert "anas" not in open_page(address, cookie=f"{TOKEN_COOKIE}={tokens['other']}").text
    assert httpx.get(f"{address}/api/v1/sessions", headers=cookie).status_code == 401
    bound = open_page(address, cookie=f"{TOKEN_COOKIE}={tokens['viewer']}")
    assert bound.status_code == 403
    assert "viewer_bound" in bound.text


def test_hostile_texts_stay_text(browser, tmp_path):
    mixed = "".join(
        each for number in range(3) for each in mixture(number)[:2_000] if each.isprintable() or each == "\n"
    )
    play_demo(tmp_path / "store", "en", [(HOSTILE, HOSTILE), (f"{HOSTILE} {mixed}", f"{mixed} {HOSTILE}")])
    views = [f"/s/demo-en?view={each}" for each in ("prompt", "left_out", "diff", "receipt", "messages")]
    with serve_studio(tmp_path / "store") as address, Walker.enter(browser, address) as walker:
        for path in ("/", "/s/demo-en/timeline", f"/s/demo-en/try?message={quote(HOSTILE)}&viewer=x", *views):
            walker.open(path)
            assert walker.page.locator("main script, main img, main a[href^=javascript], main iframe").count() == 0
        walker.open("/s/demo-en")
        assert "<script>alert(1)</script>" in walker.page.inner_text("main")


def test_a_page_can_be_used_by_everyone(walker):
    for path in ("/", f"/s/{walker.session}", "/studio/nowhere"):
        walker.open(path)
        assert walker.find_faults_of_access() == []
        walker.complaints = [each for each in walker.complaints if "404" not in each]
