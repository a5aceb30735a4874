"""Pages in Chinese: every reason, verdict, degradation and error is in Chinese too, not only the labels."""

from __future__ import annotations

import re
from html import unescape

import anyio
import httpx
import pytest
from walks import WORLDS, run_in_thread, serve_studio

from jacquard import open_runtime
from jacquard.config.settings import config_from_mapping

SESSION = "demo-zh"
ENGLISH = re.compile(r"[A-Za-z][A-Za-z'’]*(?: +[A-Za-z][A-Za-z'’]*){2,}")
"""Three words of Latin letters in a row. Commands between backticks are not counted."""
TALK = (
    ("你好，你是谁？", "我是守林人阿苇。", {}),
    ("我喝一口水。", '<content>你喝水。</content><state_update>[["SUB","hero.health",3]]</state_update>', {}),
    (
        "我打开门。",
        '<content>门开了。</content><state_update>[["SET","nowhere.at.all",1],["SET","hero.health","很多"]]</state_update>',
        {},
    ),
    ("那把钥匙是不是开启神庙的？", "是的，它开启神庙的门。", {}),
    ("到现在为止发生了什么？", "你遇见了阿苇。", {}),
    ("（退出角色）这个界面怎么用？", "输入就行。", {}),
    ("我们去神庙吧。", "好，跟着溪流走。", {"budget": {"max_input_tokens": 2600, "reserved_reply_tokens": 400}}),
)
"""Input, reply, and the settings of the turn."""


def _shown(page: str) -> str:
    """Return the text of a page without what a user, a world or a program has written."""
    for tag in ("pre", "code", "script", "style", "textarea"):
        page = re.sub(rf"<{tag}\b.*?</{tag}>", " ", page, flags=re.DOTALL)
    page = re.sub(r'<(p|span) class="(?:quote|address)".*?</\1>', " ", page, flags=re.DOTALL)
    return re.sub(r"`[^`]*`", "", unescape(re.sub(r"<[^>]+>", "\n", page)))


def _find_english(page: str) -> list[str]:
    return [each.group() for line in _shown(page).splitlines() for each in ENGLISH.finditer(line)]


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """A Chinese reader at the pages of a conversation whose turns have many kinds of reasons."""
    store = tmp_path_factory.mktemp("chinese") / "store"

    async def play() -> None:
        async with open_runtime(str(store), world=WORLDS / "zh", embedder="none") as runtime:
            await runtime.ensure_session(SESSION)
            for message, reply, settings in TALK:
                config = config_from_mapping(settings)
                turn = await runtime.engine.prepare_turn(SESSION, message, config)
                if turn.reply is None:
                    await runtime.engine.commit_assistant_message(SESSION, reply, turn_id=turn.turn_id)

    run_in_thread(lambda: anyio.run(play))
    with serve_studio(store) as address:
        headers = {"accept": "text/html", "accept-language": "zh-CN"}
        with httpx.Client(base_url=address, headers=headers, follow_redirects=True, timeout=60) as client:
            yield client


def _turns(visitor: httpx.Client) -> list[str]:
    page = visitor.get(f"/s/{SESSION}").text
    # The turns before these were imported with the example world, without prompts.
    return sorted(set(re.findall(rf'href="(/s/{SESSION}/t/t0[^"?]+)', page)))


@pytest.mark.parametrize("view", ["prompt", "left_out", "diff", "receipt", "messages"])
def test_no_view_of_a_turn_has_an_english_sentence(visitor, view):
    turns = _turns(visitor)
    assert len(turns) >= 5
    for turn in turns:
        page = visitor.get(turn, params={"view": view})
        assert page.status_code == 200
        assert _find_english(page.text) == []


def test_no_detail_of_a_turn_has_an_english_sentence(visitor):
    opened = 0
    for turn in _turns(visitor):
        places = set(re.findall(r'data-at="(\d+)"', visitor.get(turn).text))
        entries = set(re.findall(r"entry=([^\"&]+)", visitor.get(turn, params={"view": "left_out"}).text))
        for query in (*(f"at={place}" for place in places), *(f"entry={entry}" for entry in entries)):
            page = visitor.get(f"{turn}?{query}", headers={"hx-request": "true"})
            assert page.status_code == 200
            assert _find_english(page.text) == [], query
            opened += 1
    assert opened > 40


def test_the_timeline_names_refused_ops_in_chinese(visitor):
    depths = [int(re.match(r".*/t0*([0-9]+)", turn)[1]) for turn in _turns(visitor)]
    pages = [visitor.get(f"/s/{SESSION}/timeline", params={"depth": depth}).text for depth in depths]
    assert any("既不是 id 或 _anchor，也不是状态的顶层字段" in page for page in pages)
    assert [found for page in pages for found in _find_english(page)] == []


@pytest.mark.parametrize("path", ["/s/nobody", "/s/demo-zh/t/none", "/s/demo-zh/memory/none"])
def test_an_error_is_worded_in_chinese(visitor, path):
    page = visitor.get(path)
    assert page.status_code == 404
    assert _find_english(page.text) == []
