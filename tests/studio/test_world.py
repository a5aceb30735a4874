"""The room of a world: an author breaks a template, mends it, compares it with a turn, and accepts the golden prompt."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import httpx
import pytest
from walks import WORLDS, Walker, play_demo, serve_studio

NAME = "templates/chat/guidance.j2"
WORLD = {"en": "whispering_forest_en", "zh": "whispering_forest"}
BROKEN = "<directive>\n{% if state.hero %}\n{{ stat.hero }}\n"
MENDED = {"en": "<directive>\nSpeak of the bell.\n</directive>\n", "zh": "<directive>\n说说那口钟。\n</directive>\n"}
WORDS = {
    "en": {"room": "World", "asked": "Where is the temple key?", "key": "by the key", "refused": "Not saved"},
    "zh": {"room": "世界", "asked": "神庙钥匙在哪里？", "key": "命中关键词", "refused": "未保存"},
}
HOSTILE = "</textarea></script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}"


@contextmanager
def author_at(browser, tmp_path, language, **options):
    """An author at the studio of a service that reads a folder; the folder is `walker.folder`."""
    folder = tmp_path / "world"
    shutil.copytree(WORLDS / language, folder)
    play_demo(tmp_path / "store", language)
    with (
        serve_studio(tmp_path / "store", world=str(folder)) as address,
        Walker.enter(browser, address, language, **options) as walker,
    ):
        yield walker, folder


def write(page, text):
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


@pytest.fixture(params=["en", "zh"])
def author(request, browser, tmp_path):
    with author_at(browser, tmp_path, request.param) as (walker, folder):
        yield walker, folder, WORDS[request.param]


def test_an_author_breaks_a_template_mends_it_compares_a_turn_and_accepts_the_golden_prompt(author):
    walker, folder, words = author
    page, session = walker.page, walker.session
    walker.open(f"/s/{session}/t/{newest(walker)}")
    page.click("h1 a")
    page.wait_for_selector(".cm-content")
    base = page.url.replace(walker.address, "").partition("?")[0]
    # The turn as it was becomes a golden case.
    walker.open(f"{base}/golden?s={session}&at=42")
    page.fill("input[name=case]", "third turn")
    page.click("button[value=add]")
    page.wait_for_selector(".done")
    assert (folder / "templates" / "tests" / "third turn.txt").is_file()
    # A broken template is not saved, and the fault is shown with its line while one types.
    walker.open(f"{base}?file={NAME}&s={session}&at=42")
    write(page, BROKEN)
    page.wait_for_selector("#faults [data-own] .bad")
    page.wait_for_selector(".cm-lint-marker-error")
    page.click("button[value=save]")
    page.wait_for_selector("[role=alert]")
    assert words["refused"] in page.inner_text("main")
    assert page.locator("#faults .bad").count() >= 1
    assert "stat.hero" in page.inner_text(".cm-content")
    assert not (folder / NAME).exists()
    # The mended one is compared with what was sent, before it is saved and after.
    write(page, MENDED[walker.language])
    page.wait_for_selector("#faults .good")
    page.click("fieldset button")
    page.wait_for_selector("#detail .change-of ins")
    assert MENDED[walker.language].split("\n")[1] in page.inner_text("#detail .change-of")
    page.click("button[value=save]")
    page.wait_for_selector(".done")
    assert (folder / NAME).read_text(encoding="utf-8") == MENDED[walker.language]
    # The golden case shows the change, until it is accepted.
    walker.open(f"{base}/golden")
    assert MENDED[walker.language].split("\n")[1] in page.inner_text(".rows")
    page.click("button[value=accept]")
    page.wait_for_selector(".done")
    assert page.locator(".rows .bad").count() == 0
    assert MENDED[walker.language].split("\n")[1] in (folder / "templates/tests/third turn.txt").read_text(
        encoding="utf-8"
    )
    # The next turn has it.
    httpx.post(f"{walker.address}/api/v1/sessions/{session}/turns", json={"message": words["asked"]}, timeout=60)
    httpx.post(f"{walker.address}/api/v1/sessions/{session}/reply", json={"message": "…"}, timeout=60)
    walker.open(f"/s/{session}")
    assert MENDED[walker.language].split("\n")[1] in page.inner_text("article")


def newest(walker):
    return httpx.get(f"{walker.address}/api/v1/sessions/{walker.session}").json()["turn_id"]


def test_lore_is_listed_and_matched_with_a_text(author):
    walker, _, words = author
    page = walker.page
    walker.open(f"/s/{walker.session}/world")
    page.click(".tabs a:last-child")
    assert page.locator(".lore li").count() > 5
    page.fill("#wake", words["asked"])
    page.click("form.stack button")
    page.wait_for_url("**text=*")
    assert words["key"] in page.inner_text(".lore")


def test_a_quest_and_the_state_are_changed_in_forms_and_comments_stay(author):
    walker, folder, words = author
    page, base = walker.page, f"/studio/worlds/{WORLD[walker.language]}"
    before = {name: (folder / name).read_text(encoding="utf-8") for name in ("quests.yaml", "world.yaml")}
    walker.open(f"{base}?file=quests.yaml&s={walker.session}")
    page.click(".buttons a")
    page.click(".files li:nth-child(2) a")
    page.wait_for_url("**part=1*")
    page.fill("[name='f/title']", f"A <b>new</b> title: {HOSTILE}")
    page.select_option("[name='f/status']", "inactive")
    page.click("button[value=save]")
    page.wait_for_selector(".done")
    assert page.input_value("[name='f/title']") == f"A <b>new</b> title: {HOSTILE}"
    assert page.locator("main img, main script, main b").count() == 0
    lines, former = (
        ((folder / "quests.yaml").read_text(encoding="utf-8")).split("\n"),
        before["quests.yaml"].split("\n"),
    )
    assert lines[0] == former[0]
    assert len([line for line in lines if line not in former]) == 1
    # A fault is shown, and what was entered stays.
    page.fill("[name='f/id']", "")
    page.click("button[value=save]")
    page.wait_for_selector("#faults .bad")
    assert words["refused"] in page.inner_text("main")
    assert page.input_value("[name='f/id']") == ""
    assert page.input_value("[name='f/title']").startswith("A <b>new</b>")
    # The state: a number of the hero. What was not changed is as before, to the byte.
    walker.open(f"{base}/form?file=world.yaml&part=state")
    page.click("button[value=save]")
    page.wait_for_selector(".done")
    assert (folder / "world.yaml").read_text(encoding="utf-8") == before["world.yaml"]
    page.locator("summary", has_text="hero").first.click()
    page.fill("[name='f/hero/level']", "7")
    page.click("button[value=save]")
    page.wait_for_selector(".done")
    lines, former = ((folder / "world.yaml").read_text(encoding="utf-8")).split("\n"), before["world.yaml"].split("\n")
    assert [line.strip() for line in lines if line not in former] == ["level: 7"]
    assert walker.find_faults_of_access() == []


def test_without_script_a_file_is_edited_in_a_plain_field(browser, tmp_path):
    with author_at(browser, tmp_path, "en", java_script_enabled=False) as (walker, folder):
        page = walker.page
        walker.open(f"/studio/worlds/{WORLD['en']}?file={NAME}&s={walker.session}&at=42")
        page.fill("#text", BROKEN)
        page.click("text=Check")
        assert "endif" in page.inner_text("#faults")
        assert page.input_value("#text") == BROKEN
        page.fill("#text", MENDED["en"])
        page.click("fieldset button")
        assert "Speak of the bell." in page.inner_text("#detail")
        page.click("button[value=save]")
        assert page.locator(".done").count() == 1
        assert (folder / NAME).read_text(encoding="utf-8") == MENDED["en"]
        page.click("button[value=remove]")
        assert not (folder / NAME).exists()


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_room_can_be_used_by_everyone_and_on_a_phone(browser, tmp_path, language, scheme):
    options = {"viewport": {"width": 420, "height": 900}, "color_scheme": scheme}
    with author_at(browser, tmp_path, language, **options) as (walker, _):
        walker.open(f"/s/{walker.session}/world?at=42")
        base = walker.page.url.replace(walker.address, "").partition("?")[0]
        for path in ("", f"?file={NAME}", "/golden", "/lore", f"/lore?s={walker.session}&text=key"):
            walker.open(f"{base}{path}")
            assert walker.find_faults_of_access() == []
            assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420
        walker.open("/studio/worlds")
        assert walker.find_faults_of_access() == []


def test_hostile_texts_stay_text(browser, tmp_path):
    with author_at(browser, tmp_path, "en") as (walker, folder):
        page, base = walker.page, f"/studio/worlds/{WORLD['en']}"
        (folder / "lore" / "hostile.md").write_text(
            f'---\nid: hostile\nname: "<b>x</b>"\ncategory: encyclopedia\nkeys: ["<i>k</i>"]\n---\n{HOSTILE}\n',
            encoding="utf-8",
        )
        walker.open(f"{base}?file=lore/hostile.md&s=%3Cscript%3E&at=%3Cb%3E")
        page.wait_for_selector(".cm-content")
        assert "alert(1)" in page.inner_text(".cm-content")
        write(page, HOSTILE)
        page.wait_for_selector("#faults .bad")
        page.click("fieldset button")
        page.wait_for_selector("#detail [role=alert]")
        assert page.locator("main img, main b b, #faults script").count() == 0
        httpx.put(
            f"{walker.address}/api/v1/worlds/{WORLD['en']}/files",
            json={"files": {"lore/hostile.md": (folder / "lore" / "hostile.md").read_text(encoding="utf-8")}},
            timeout=60,
        ).raise_for_status()
        for path in ("/lore?words=alert", f"/lore?s={walker.session}&text=%3Ci%3Ek%3C/i%3E"):
            walker.open(base + path)
            assert "alert(1)" in page.inner_text("main")
            assert page.locator("main img, main script, main b b, main i").count() == 0
