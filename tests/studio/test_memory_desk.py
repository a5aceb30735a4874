"""The memory desk: a person sees what a conversation knows, and corrects it."""

from __future__ import annotations

import re

import anyio
import httpx
import pytest
from walks import SAID, Walker, play_demo, run_in_thread, serve_studio

from jacquard import MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.config.sections import MemoryConfig
from mnemosyne import Chain, MemoryEntry
from mnemosyne.chains.story_facts import end_former_facts
from mnemosyne.schema.memory import session_scope

FACTS = {
    "en": ("The boat key hangs behind the blue clock.", "The ferry leaves at noon.", "Reed owes the miller two sacks."),
    "zh": ("船钥匙挂在蓝钟后面。", "渡船中午开。", "阿苇欠磨坊主两袋面粉。"),
}
CROWD = {
    "en": ("Anna sells pears.", "Bert keeps bees.", "Cora paints doors."),
    "zh": ("安娜卖梨。", "老白养蜂。", "柯拉漆门。"),
}
CORRECTED = {"en": "The boat key hangs under the red bench.", "zh": "船钥匙挂在红长凳下面。"}
ASKED = {"en": "Where does the boat key hang?", "zh": "船钥匙挂在哪里？"}
SECRET = "sk-proj-Zx81mQp0Ls27Ty94Rk35Wd60Vb18Nc72Hf49Jg53"
HOMES = {
    "en": ("Ilse lives at the mill.", "Ilse lives at the harbour."),
    "zh": ("伊尔莎住在磨坊。", "伊尔莎住在港口。"),
}
WORDS = {
    "en": {
        "open": "Open and correct",
        "done": "Corrected.",
        "undo": "Undo",
        "undone": "Undone.",
        "why": "has the words",
    },
    "zh": {"open": "查看与更正", "done": "已更正。", "undo": "撤销", "undone": "已撤销。", "why": "含有词语"},
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The address of a studio whose conversations have remembered facts."""
    store = tmp_path_factory.mktemp("desk") / "store"
    for language in ("en", "zh"):
        play_demo(store, language)
        run_in_thread(
            lambda session=f"demo-{language}", homes=HOMES[language]: anyio.run(tell_homes, store, session, homes)
        )
    with serve_studio(store) as address:
        for language, facts in FACTS.items():
            for each in facts:
                api(address, f"demo-{language}/memory", text=each)
        yield address


async def tell_homes(store, session, homes):
    """Store two facts of one subject, as consolidation makes them; the later turn ends the earlier fact."""
    async with open_runtime(str(store), embedder="none") as runtime:
        turns = await runtime.store.turns(session, limit=2)
        facts = [
            MemoryEntry(
                entry_id=f"{session}-{turn.turn_id}-home",
                scope=session_scope(session),
                chain=Chain.EVENT,
                kind="travelled",
                text=text,
                turn_id=turn.turn_id,
                branch_id=turn.branch_id,
                depth=turn.depth,
                metadata={"subject": "Ilse", "attribute": "home", "value": text},
            )
            for turn, text in zip(turns, homes, strict=True)
        ]
        await runtime.store.append_entries(session, [*facts, *end_former_facts(facts[:1], facts[1:])])


@pytest.fixture(params=["en", "zh"])
def reader(request, browser, desk):
    with Walker.enter(browser, desk, request.param) as walker:
        yield walker


def api(address, path, **body):
    answer = httpx.post(f"{address}/api/v1/sessions/{path}", json=body, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer.json()


def row(walker, text):
    return walker.page.locator(".memories li", has_text=text).first


def test_a_player_corrects_a_memory_and_finds_it_corrected_in_the_next_prompt(reader):
    page, words = reader.page, WORDS[reader.language]
    reader.open(f"/s/{reader.session}")
    page.click(f"nav.rooms >> text={ {'en': 'Memory', 'zh': '记忆'}[reader.language] }")
    row(reader, FACTS[reader.language][0]).get_by_text(words["open"]).click()
    page.fill("#detail #text", CORRECTED[reader.language])
    page.click("#detail button[value=edit]")
    page.wait_for_selector(".done")
    assert words["done"] in page.inner_text(".done")
    assert "gone" in row(reader, FACTS[reader.language][0]).get_attribute("class")
    api(reader.address, f"{reader.session}/turns", message=ASKED[reader.language])
    api(reader.address, f"{reader.session}/reply", message="Mm.")
    reader.open(f"/s/{reader.session}")
    prompt = page.inner_text("article")
    assert CORRECTED[reader.language] in prompt
    assert FACTS[reader.language][0] not in prompt
    reader.open(f"/s/{reader.session}/memory")
    row(reader, CORRECTED[reader.language]).get_by_text(words["open"]).click()
    page.wait_for_selector("#detail .uses a")
    reader.open(f"/s/{reader.session}/memory/log")
    page.locator(".edits li", has_text=CORRECTED[reader.language]).get_by_text(words["undo"]).click()
    page.wait_for_selector(".done")
    assert words["undone"] in page.inner_text(".done")
    reader.open(f"/s/{reader.session}/memory")
    assert row(reader, CORRECTED[reader.language]).count() == 0
    assert row(reader, FACTS[reader.language][0]).get_attribute("class") is None


@pytest.mark.parametrize("narrowed", ["", "&state=superseded"])
def test_a_fact_that_a_turn_ended_shows_the_turn_and_the_newer_fact(reader, narrowed):
    old, new = HOMES[reader.language]
    reader.open(f"/s/{reader.session}/memory?chain=event{narrowed}")
    ended = row(reader, old)
    assert ended.get_attribute("class") == "gone"
    assert re.search({"en": r"true until turn \d+", "zh": r"有效到第 \d+ 回合"}[reader.language], ended.inner_text())
    ended.get_by_text(new).click()
    reader.page.wait_for_selector("h1")
    assert reader.page.input_value("#text") == new


def test_several_memories_are_forgotten_after_they_were_shown(reader):
    page, texts = reader.page, CROWD[reader.language]
    for each in texts:
        api(reader.address, f"{reader.session}/memory", text=each, title="crowd")
    reader.open(f"/s/{reader.session}/memory?kind=remembered&words=crowd")
    for each in texts[:2]:
        row(reader, each).locator("input").check()
    page.click("button[value=forget]")
    page.wait_for_url("**/memory/many")
    shown = page.inner_text("main")
    assert [each in shown for each in texts] == [True, True, False]
    reader.open(f"/s/{reader.session}/memory?kind=remembered&words=crowd")
    assert page.locator(".memories li").count() == 3
    for each in texts[:2]:
        row(reader, each).locator("input").check()
    page.click("button[value=forget]")
    page.click("button[name=sure]")
    page.wait_for_selector(".done")
    assert page.locator(".memories li").count() == 1
    assert "words=crowd" in page.url


def test_messages_can_be_marked_as_no_longer_true_but_not_forgotten(reader):
    page, said = reader.page, SAID[reader.language][0][1]
    reader.open(f"/s/{reader.session}/memory?chain=history")
    row(reader, said).locator("input").check()
    page.click(".bulk button[value=forget]")
    page.wait_for_url("**/memory/many")
    assert page.locator("[role=alert]").count() == 1
    assert page.locator("button[name=sure]").count() == 0
    reader.open(f"/s/{reader.session}/memory?chain=history")
    row(reader, said).locator("input").check()
    page.click(".bulk button[value=supersede]")
    page.click("button[name=sure]")
    page.wait_for_selector(".done")
    assert row(reader, said).get_attribute("class") == "gone"


def test_a_question_shows_what_is_recalled_and_why(reader):
    reader.open(f"/s/{reader.session}/memory")
    reader.page.fill("#ask", ASKED[reader.language])
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url("**ask=*")
    assert WORDS[reader.language]["why"] in row(reader, FACTS[reader.language][0]).inner_text()


def test_a_secret_is_shown_masked_before_it_is_saved(reader):
    page = reader.page
    reader.open(f"/s/{reader.session}/memory")
    page.fill("#new-text", f"KEY {SECRET}")
    page.click("#detail form button")
    page.wait_for_selector(".quote")
    assert SECRET not in page.inner_text("main")
    assert "KEY" not in httpx.get(f"{reader.address}/api/v1/sessions/{reader.session}/memory-log").text
    page.click("button[name=sure]")
    page.wait_for_selector(".done")
    assert row(reader, "KEY").count() == 1
    assert SECRET not in page.inner_text("main")


def test_what_a_character_knows_is_shown_to_the_one_who_asks_for_it(reader):
    page = reader.page
    reader.open(f"/s/{reader.session}/memory")
    page.fill("#new-text", "MIRA-ONLY")
    page.fill("#new-viewer", "mira")
    page.click("#detail form button")
    page.wait_for_selector(".done")
    for viewer, is_known in (("mira", True), ("tom", False), ("", True)):
        reader.open(f"/s/{reader.session}/memory?viewer={viewer}")
        assert (row(reader, "MIRA-ONLY").count() == 1) == is_known
    reader.open(f"/s/{reader.session}/memory?viewer=mira")
    assert "mira" in page.inner_text("h1")


def test_an_old_conversation_goes_on_in_a_new_one_with_chosen_memories(reader):
    page = reader.page
    reader.open(f"/s/{reader.session}/memory?kind=remembered")
    row(reader, FACTS[reader.language][2]).locator("input").check()
    page.click("button[value=continue]")
    page.fill("#new", f"next-{reader.language}")
    page.click("main form button")
    page.wait_for_url(f"**/s/next-{reader.language}/memory*")
    texts = page.locator(".memories li").all_inner_texts()
    # The story so far goes along by itself.
    assert [FACTS[reader.language][2] in each for each in texts] == [False, True]


def test_proposals_are_accepted_with_a_change_or_rejected(browser, tmp_path):
    play_demo(tmp_path / "store", "en")

    async def propose():
        config = RuntimeConfig(memory=MemoryConfig(review=True))
        async with open_runtime(str(tmp_path / "store"), config=config, embedder="none") as runtime:
            for each in FACTS["en"][:2]:
                await MemoryVerbs(runtime, author="a model", is_model=True).remember("demo-en", each)

    run_in_thread(lambda: anyio.run(propose))
    with serve_studio(tmp_path / "store") as address, Walker.enter(browser, address) as walker:
        page = walker.page
        walker.open("/s/demo-en/memory/inbox")
        page.locator(".edits li").first.locator("textarea").fill(CORRECTED["en"])
        page.locator(".edits li").first.get_by_text("Accept").click()
        page.wait_for_selector(".done")
        page.locator(".edits li").first.get_by_text("Reject").click()
        page.wait_for_url("**done=reject*")
        walker.open("/s/demo-en/memory?kind=remembered")
        assert CORRECTED["en"] in page.inner_text(".memories")
        assert page.locator(".memories li").count() == 1


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_desk_can_be_used_by_everyone_and_on_a_phone(browser, desk, language, scheme):
    with Walker.enter(browser, desk, language, viewport={"width": 420, "height": 900}, color_scheme=scheme) as walker:
        for path in ("", "?kind=remembered&viewer=mira", "?ask=key", "/log", "/inbox"):
            walker.open(f"/s/{walker.session}/memory{path}")
            assert walker.find_faults_of_access() == []
            assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420


def test_hostile_memories_stay_text(browser, desk):
    hostile = "</textarea></pre><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*7 }}"
    play = api(desk, "demo-en/memory", text=hostile, title="<b>x</b>")
    with Walker.enter(browser, desk) as walker:
        for path in ("", f"/one/{play['edit_id']}", "/log", "?ask=alert"):
            walker.open(f"/s/demo-en/memory{path}")
            assert walker.page.locator("main script, main img, main b b").count() == 0
            assert "<script>alert(1)</script>" in walker.page.content().replace("&lt;", "<").replace("&gt;", ">")
