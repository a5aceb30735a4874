"""The room Evaluation: an evaluator labels turns, runs two selectors over them, and reads the comparison."""

from __future__ import annotations

import json
import zipfile

import anyio
import httpx
import pytest
from served import serve_app
from walks import Walker, play_demo, run_in_thread, serve_studio

from evals.dataset import read_set
from jacquard.config.service import ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope
from jacquard.studio.app import open_studio
from jacquard.studio.door import TOKEN_COOKIE

FACTS = {
    "en": (
        "The boat key hangs behind the blue clock.",
        "The ferry leaves at noon.",
        "Reed owes the miller two sacks.",
        "Anna sells pears at the gate.",
        "Bert keeps nine bees in the tower.",
    ),
    "zh": (
        "船钥匙挂在蓝钟后面。",
        "渡船中午开。",
        "阿苇欠磨坊主两袋面粉。",
        "安娜在门口卖梨。",
        "老白在塔里养了九只蜂。",
    ),
}
ASKED = {
    "en": (
        "Where is the boat key?",
        "When does the ferry leave?",
        "What does Reed owe?",
        "Who sells pears?",
        "Who keeps bees?",
    ),
    "zh": ("船钥匙在哪里?", "渡船什么时候开?", "阿苇欠谁东西?", "谁卖梨?", "谁养蜂?"),
}
WORDS = {
    "en": {"room": "Evaluation", "progress": "{} of 20 turns", "only": "Selected only by A", "worse": "B is worse"},
    "zh": {"room": "评测", "progress": "已标注 {} / 20", "only": "只有 A 选取", "worse": "B 更差"},
}
HOSTILE = "</textarea></pre><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*107 }}"
METRICS = ("recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5", "precision@5")


def api(address, path, *, method="POST", **body):
    answer = httpx.request(method, f"{address}/api/v1/{path}", json=body, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json()


def prepare(address, language, turns):
    """Remember the facts, then ask about them in turn."""
    session = f"sessions/demo-{language}"
    ids = [api(address, f"{session}/memory", text=each)["edit_id"] for each in FACTS[language]]
    for number in range(turns):
        api(address, f"{session}/turns", message=ASKED[language][number % 5], turn_id=f"q{number}")
        api(address, f"{session}/reply", message="Mm.", turn_id=f"q{number}")
    return ids


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a studio whose conversations ask about remembered facts, and the ids of the facts."""
    folder = tmp_path_factory.mktemp("lab")
    for language in ("en", "zh"):
        play_demo(folder / "store", language, [("Hm.", "Mm.")])
    with serve_studio(folder / "store") as address:
        yield address, {language: prepare(address, language, 20) for language in ("en", "zh")}, folder / "store"


@pytest.fixture(params=["en", "zh"])
def evaluator(request, browser, lab):
    with Walker.enter(browser, lab[0], request.param, accept_downloads=True) as walker:
        yield walker


def label_turn(page, fact, other):
    """Mark one memory as wanted and another one as unwanted."""
    for text, button in ((fact, ".want"), (other, ".unwant")):
        row = page.locator(".labels li", has_text=text)
        if not row.count():
            page.fill("#find", text)
            page.keyboard.press("Enter")
            page.wait_for_url("**find=*")
            row = page.locator(".labels li", has_text=text)
        row.first.locator(button).click()
        row.first.locator(f"{button}[aria-pressed=true]").wait_for()


def test_twenty_turns_are_labelled_and_two_selectors_compared(evaluator, tmp_path):
    page, words, language = evaluator.page, WORDS[evaluator.language], evaluator.language
    evaluator.open(f"/s/{evaluator.session}")
    page.click(f"nav.rooms >> text={words['room']}")
    assert words["progress"].format(0) in page.inner_text("#label-progress")
    page.click("a[href*='view=label']")
    for number in range(20):
        page.wait_for_selector(".labels")
        asked = page.inner_text(".said >> nth=0")
        place = next(place for place, text in enumerate(ASKED[language]) if text in asked)
        label_turn(page, FACTS[language][place], FACTS[language][place - 1])
        assert words["progress"].format(number + 1) in page.inner_text("#label-progress")
        before = page.url
        page.locator("h1").click()
        page.keyboard.press("n")
        page.wait_for_url(lambda url, before=before: url != before)
    evaluator.open(f"/s/{evaluator.session}/evaluation")
    for floor, name in (("", "rules"), ("1", "strict")):
        page.fill("[name=floor]", floor)
        page.fill("[name=name]", name)
        page.click("form[hx-post] button")
        page.wait_for_url(f"**/runs/*.{name}", timeout=60_000)
        assert page.locator(".scores svg").count() == len(METRICS) + 1
        page.click("main a >> nth=0")
    page.select_option("[name=a]", f"{evaluator.session}.rules")
    page.select_option("[name=b]", f"{evaluator.session}.strict")
    page.click(".compare button")
    page.wait_for_url("**/compare*")
    assert words["worse"] in page.inner_text(".scores")
    assert words["only"] in page.inner_text(".questions")
    page.click(".questions a >> nth=0")
    page.wait_for_url(f"**/s/{evaluator.session}/t/q*")
    evaluator.open(f"/s/{evaluator.session}/evaluation")
    page.click("details summary")
    with page.expect_download() as download:
        page.click("a[download]")
    zipfile.ZipFile(download.value.path()).extractall(tmp_path)
    assert len(read_set(tmp_path).queries) == 20


def test_failures_are_shown_question_by_question(evaluator, lab):
    page, language = evaluator.page, evaluator.language
    for number, memory_id in enumerate(lab[1][language]):
        api(lab[0], f"sessions/demo-{language}/turns/q{number}/marks/{memory_id}", method="PUT", wanted=True)
    api(lab[0], f"sessions/demo-{language}/evaluations", name="strict", floor=1)
    evaluator.open(f"/s/{evaluator.session}/evaluation/runs/{evaluator.session}.strict")
    assert page.locator(".questions > li").count() >= 5
    assert evaluator.find_faults_of_access() == []
    first = page.locator(".questions > li", has_text=ASKED[language][0]).first
    assert FACTS[language][0] in first.inner_text()
    page.click(".chips a >> nth=1")
    page.wait_for_url("**show=all*")
    page.locator(".questions a").first.click()
    page.wait_for_url("**/t/q*")


def test_a_mark_is_made_beside_a_candidate_and_taken_back(evaluator):
    page = evaluator.page
    evaluator.open(f"/s/{evaluator.session}/t/q1?view=prompt")
    page.locator(".block.g-memories .head a").first.click()
    page.wait_for_selector("#detail .marks")
    page.click("#detail .unwant")
    page.wait_for_selector("#detail .unwant[aria-pressed=true]")
    page.click("#detail .want")
    page.wait_for_selector("#detail .want[aria-pressed=true]")
    page.click("#detail .want")
    page.wait_for_selector("#detail .want[aria-pressed=false]")
    assert page.locator("#detail [aria-pressed=true]").count() == 0


def write_report(store, name, rows):
    folder = store / "reports"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")


def hostile_run(value):
    row = {
        "id": HOSTILE,
        "session": HOSTILE,
        "category": HOSTILE,
        "metrics": dict.fromkeys(METRICS, value),
        "relevant": {HOSTILE: 1},
        "retrieved": [HOSTILE],
        "selected": [f"{HOSTILE}{value}"],
        "evidence": {HOSTILE: HOSTILE},
        "error": HOSTILE,
    }
    parts = {"retriever": HOSTILE, "selector": HOSTILE, "embedder": HOSTILE, "data": {"name": HOSTILE}}
    return {"queries": [row], "metrics": row["metrics"], "config": parts, "evidence": {HOSTILE: 1, "not recalled": 1}}


def hostile_play():
    turn = {
        "turn": 1,
        "input": HOSTILE,
        "error": HOSTILE,
        "missing": [HOSTILE],
        "wrong": [{"fact": HOSTILE, "text": HOSTILE}],
        "lost": [HOSTILE],
        "answered": False,
    }
    return {"plays": [{"name": HOSTILE, "figures": {"turns": 1, "facts": HOSTILE}, "turns": [turn]}]}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The address of a studio with reports of hostile words, and one that cannot be read."""
    store = tmp_path_factory.mktemp("reports") / "store"
    play_demo(store, "en", [("Hm.", "Mm.")])
    write_report(store, "<img src=x onerror=alert(1)>", hostile_run(0.2))
    write_report(store, "second", hostile_run(0.9))
    write_report(store, "plays", hostile_play())
    (store / "reports" / "bad.json").write_text("[" * 100, encoding="utf-8")
    with serve_studio(store) as address:
        yield address


PAGES = ("", "/runs/second?show=all", "/runs/plays", "/compare?a=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&b=second")


def test_hostile_reports_stay_text(browser, reports):
    with Walker.enter(browser, reports) as walker:
        for path in PAGES:
            for base in ("/studio/evaluation", "/s/demo-en/evaluation"):
                walker.open(f"{base}{path}")
                assert walker.page.locator("main script, main img").count() == 0
                assert "<img src=x onerror=alert" in walker.page.inner_text("main")
                # No time of day and no date has this number.
                assert "749" not in walker.page.inner_text("main")


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_pages_can_be_used_by_everyone_and_on_a_phone(browser, reports, lab, language, scheme):
    options = {"viewport": {"width": 420, "height": 900}, "color_scheme": scheme}
    with Walker.enter(browser, reports, language, **options) as walker:
        for path in PAGES:
            walker.open(f"/studio/evaluation{path}")
            assert walker.find_faults_of_access() == []
            assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420
    with Walker.enter(browser, lab[0], language, **options) as walker:
        for path in ("evaluation", "t/q3?view=label&find=key"):
            walker.open(f"/s/{walker.session}/{path}")
            assert walker.find_faults_of_access() == []
            assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_player_has_no_buttons_for_labels(browser, tmp_path):
    play_demo(tmp_path / "store", "en")

    async def make_token():
        async with using_records(str(tmp_path / "store")) as records:
            return [(await records.tokens.create("default", scope))[0] for scope in (Scope.PLAY, Scope.AUTHOR)]

    tokens = []
    run_in_thread(lambda: tokens.extend(anyio.run(make_token)))
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), embedder="none", studio=True, tenants=True),
        open_pages=open_studio,
    )
    with serve_app(app) as port:
        for token, count in zip(tokens, (0, 1), strict=True):
            with Walker.enter(browser, f"http://127.0.0.1:{port}") as walker:
                walker.page.context.add_cookies([{"name": TOKEN_COOKIE, "value": token, "url": walker.address}])
                walker.open("/s/demo-en")
                assert walker.page.locator("a[href*='view=label']").count() == count
                assert (httpx.get(walker.page.url).status_code, walker.page.locator("article").count()) == (401, 1)
