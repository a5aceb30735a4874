"""The room House: what the operator of a service sees, and what the admin of a tenant sees."""

from __future__ import annotations

import json

import anyio
import httpx
import pytest
from walks import Walker, play_demo, run_in_thread, serve_studio

from jacquard.remote.bodies import MetricsAnswer, MetricsPoint
from jacquard.service.access.records import using_records
from jacquard.service.history import TenantHistory
from jacquard.service.values import Scope
from jacquard.studio.door import TOKEN_COOKIE
from jacquard.studio.house import draw_plots, read_setting_docs

REASON = "<b onclick=alert(3)>asked to</b>"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*7 }}"
VIEWS = ("", "/archived", "/worlds", "/users", "/erasures", "/health", "/settings", "/metrics", "/tokens")
WORDS = {
    "en": {
        "house": "House",
        "archive": "Archive",
        "restored": "The session is restored.",
        "archived": "The session is archived.",
        "erased": "A search has proved",
        "default": "default",
        "no_tokens": "without tenants",
    },
    "zh": {
        "house": "管理",
        "archive": "归档",
        "restored": "会话已恢复。",
        "archived": "会话已归档。",
        "erased": "没有任何残留",
        "default": "默认值",
        "no_tokens": "租户",
    },
}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The address of a studio with conversations, spare sessions and users."""
    store = tmp_path_factory.mktemp("house") / "store"
    for language in ("en", "zh"):
        play_demo(store, language)
    with serve_studio(store) as address:
        for language in ("en", "zh"):
            for name in ("rest", "gone"):
                send(address, "sessions", session_id=f"{name}-{language}")
            send(
                address,
                f"users/user-{language}/facts",
                facts=[{"text": f"{language} likes tea."}, {"text": f"{HOSTILE} {language}"}],
            )
        yield address


@pytest.fixture(params=["en", "zh"])
def operator(request, browser, house):
    with Walker.enter(browser, house, request.param) as walker:
        yield walker


def send(address, path, **body):
    answer = httpx.post(f"{address}/api/v1/{path}", json=body, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json()


def row(walker, text):
    return walker.page.locator(".rows li", has_text=text).first


def test_an_operator_archives_a_session_and_restores_it(operator):
    page, words = operator.page, WORDS[operator.language]
    name = f"rest-{operator.language}"
    operator.open("/")
    page.click(f"nav.rooms >> text={words['house']}")
    row(operator, name).locator("button[value=archive]").click()
    page.wait_for_selector(".done")
    assert words["archived"] in page.inner_text(".done")
    row(operator, name).locator("button[value=open]").click()
    page.wait_for_url("**done=open*")
    assert words["restored"] in page.inner_text(".done")
    assert row(operator, name).count() == 0


def test_an_operator_sees_what_an_erasure_removes_before_it_is_done_and_then_the_proof(operator):
    page, name = operator.page, f"gone-{operator.language}"
    operator.open(f"/studio/house?query={name}")
    row(operator, name).locator("button[value=erase]").click()
    page.wait_for_url("**/erase?*")
    assert httpx.get(f"{operator.address}/api/v1/sessions/{name}").status_code == 200
    page.fill("#reason", REASON)
    page.click("button[name=sure]")
    page.wait_for_selector("main [role=status].good")
    assert WORDS[operator.language]["erased"] in page.inner_text("main")
    assert httpx.get(f"{operator.address}/api/v1/sessions/{name}").status_code == 404
    page.click(".receipt .address a")
    page.wait_for_url("**/erasures")
    assert REASON in page.inner_text(".rows")
    assert name not in page.inner_text(".rows")


def test_the_facts_of_a_user_are_shown_and_erased(operator):
    page, name = operator.page, f"user-{operator.language}"
    operator.open("/studio/house/users")
    page.click(f"text={name}")
    page.wait_for_url("**user_id=*")
    assert f"{operator.language} likes tea." in page.inner_text(".rows")
    assert HOSTILE in page.inner_text(".rows")
    page.click("main a.more")
    page.wait_for_url("**/erase?*")
    page.click("button[name=sure]")
    page.wait_for_selector("main [role=status].good")
    operator.open("/studio/house/users")
    assert name not in page.inner_text("main")


def test_settings_are_found_by_words_with_their_source(operator):
    page = operator.page
    operator.open("/studio/house/settings")
    assert page.locator("tbody tr").count() == 50
    page.fill("input[name=query]", "budget.max_input_tokens")
    page.keyboard.press("Enter")
    page.wait_for_url("**query=budget*")
    assert page.locator("tbody tr").count() == 1
    assert WORDS[operator.language]["default"] in page.inner_text("tbody tr")
    operator.open("/studio/house/settings?changed=yes")
    shown = page.inner_text("tbody")
    assert "service.store" in shown
    assert "budget.max_input_tokens" not in shown


def test_turns_appear_in_the_plots(operator):
    send(operator.address, f"sessions/{operator.session}/turns", message="Hello.")
    operator.open("/studio/house/metrics")
    page = operator.page
    assert page.locator(".plot svg path").count() > 3
    assert page.locator("table tbody tr").count() > 3
    page.click("nav.chips a >> nth=1")
    page.wait_for_url("**minutes=360*")


def test_a_service_without_tenants_says_why_it_has_no_tokens(operator):
    operator.open("/studio/house/tokens")
    assert WORDS[operator.language]["no_tokens"] in operator.page.inner_text("main")


def test_a_world_is_saved_as_a_pack(operator):
    operator.open("/studio/house/worlds")
    with operator.page.expect_download() as saved:
        row(operator, "whispering_forest").locator("a").click()
    pack = json.loads(saved.value.path().read_text(encoding="utf-8"))
    name = pack["pack"]["world_id"]
    assert saved.value.suggested_filename == f"{name}.json"
    assert httpx.put(f"{operator.address}/api/v1/worlds/{name}", json=pack, timeout=60).status_code == 200


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_house_can_be_used_by_everyone_and_on_a_phone(browser, house, language, scheme):
    with Walker.enter(browser, house, language, viewport={"width": 420, "height": 900}, color_scheme=scheme) as walker:
        for path in (*VIEWS, f"/erase?session_id={walker.session}", f"/user?user_id={HOSTILE}"):
            walker.open(f"/studio/house{path}")
            assert walker.find_faults_of_access() == [], path
            assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420, path
            assert walker.page.locator("main script, main img").count() == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with tenants: its address, and a token of each scope."""
    store, tokens = tmp_path_factory.mktemp("guarded") / "store", {}

    async def create():
        async with using_records(str(store)) as records:
            for scope in Scope:
                tokens[scope.value] = (await records.tokens.create("ana", scope))[0]
            tokens["viewer"] = (await records.tokens.create("ana", Scope.PLAY, viewer="mira"))[0]
            tokens["other"] = (await records.tokens.create("bo", Scope.ADMIN, note="token of bo"))[0]

    run_in_thread(lambda: anyio.run(create))
    with serve_studio(store, tenants=True) as address:
        yield address, tokens


def open_as(address, token, path):
    headers = {"accept": "text/html", "cookie": f"{TOKEN_COOKIE}={token}"}
    return httpx.get(f"{address}/studio/house{path}", headers=headers, timeout=60)


def test_a_token_is_shown_once_and_can_be_revoked(browser, guarded):
    address, tokens = guarded
    with Walker.enter(browser, address) as walker:
        page = walker.page
        page.context.add_cookies([{"name": TOKEN_COOKIE, "value": tokens["admin"], "url": address}])
        walker.open("/studio/house/tokens")
        assert "token of bo" not in page.inner_text("main")
        page.fill("input[name=note]", HOSTILE)
        page.select_option("select[name=days]", "30")
        page.click("button[value=make]")
        page.wait_for_selector("#token")
        made = page.inner_text("#token")
        assert open_as(address, made, "").status_code == 200
        assert walker.find_faults_of_access() == []
        walker.open("/studio/house/tokens")
        assert made not in page.content()
        row(walker, HOSTILE).locator("button[value=revoke]").click()
        page.wait_for_selector(".done")
        assert row(walker, HOSTILE).locator("button").count() == 0
        for path in VIEWS:
            walker.open(f"/studio/house{path}")
            assert walker.page.locator("main h1").count() == 1, path


def test_each_token_sees_what_its_scope_allows(guarded):
    address, tokens = guarded
    assert [open_as(address, tokens["admin"], path).status_code for path in VIEWS] == [200] * len(VIEWS)
    play = open_as(address, tokens["play"], "")
    assert play.status_code == 200
    assert "/studio/house/health" not in play.text
    for path in ("/users", "/erasures", "/health", "/settings", "/metrics", "/tokens", "/erase?session_id=s"):
        assert open_as(address, tokens["author"], path).status_code == 403, path
    assert [open_as(address, tokens["viewer"], path).status_code for path in ("", "/health")] == [403, 403]


def test_plots_stay_inside_of_their_frame_and_have_no_more_than_six_times():
    history = TenantHistory(lambda: 0.0)
    empty = history.summarize(60, 1)
    assert [each.name for each in draw_plots(empty)] == ["rates"]
    point = MetricsPoint(
        at=empty.total.at, requests=9, refused=1, turns=3, tokens=10, shared_tokens=5, paths={"llm": 3},
        degradations={f"code{number}": number for number in range(20)}, steps={},
    )  # fmt: skip
    plots = draw_plots(MetricsAnswer(minutes=2, point_minutes=1, processes=1, total=point, points=(point, point)))
    assert [each.name for each in plots] == ["rates", "paths", "degradations", "prefix"]
    assert len(plots[2].lines) == 6
    assert plots[3].lines[0].newest == 50.0
    for plot in plots:
        for line in plot.lines:
            for pair in line.path[1:].split(" "):
                x, y = map(float, pair.split(","))
                assert (0 <= x <= 600, 0 <= y <= 120) == (True, True)


def test_every_setting_has_a_sentence_in_both_languages():
    english, chinese = read_setting_docs("en"), read_setting_docs("zh")
    assert english.keys() == chinese.keys()
    assert [
        path for path, doc in chinese.items() if doc and not any("\u4e00" <= each <= "\u9fff" for each in doc)
    ] == []
