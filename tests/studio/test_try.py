"""The room Try: a prompt before it is sent, under other settings, edited by hand, and answered by the model server."""

from __future__ import annotations

import httpx
import pytest
from walks import Walker, play_demo, serve_studio

from jacquard.testing.server import ScriptedServer

ASKED = {
    "en": "Which key opens the temple? <script>alert(1)</script>",
    "zh": "哪把钥匙开神庙？<script>alert(1)</script>",
}
REPLY = {"en": "The bronze one. <img src=x onerror=alert(2)>", "zh": "铜的那把。<img src=x onerror=alert(2)>"}
WORDS = {
    "en": {
        "show": "Show the prompt",
        "send": "Send",
        "nothing": "Nothing was written",
        "edit": "Edit the prompt by hand",
        "ask": "Send the edited prompt",
        "by_hand": "edited the prompt",
        "again": "Another reply",
        "keep": "Keep these settings",
        "copy": "Copy",
    },
    "zh": {
        "show": "查看提示词",
        "send": "发送",
        "nothing": "没有写入任何东西",
        "edit": "手工修改提示词",
        "ask": "发送修改后的提示词",
        "by_hand": "手工修改",
        "again": "换一个回复",
        "keep": "保留这些设置",
        "copy": "复制",
    },
}


@pytest.fixture
def server():
    with ScriptedServer("text:<content>Yes.</content>") as server:
        yield server


@pytest.fixture(params=["en", "zh"])
def player(request, browser, tmp_path, server):
    """A person at a conversation of their own, in a service with a model server."""
    language = request.param
    play_demo(tmp_path / "store", language)
    with (
        serve_studio(tmp_path / "store", upstream=server.base_url) as address,
        Walker.enter(browser, address, language) as walker,
    ):
        walker.open(f"/s/{walker.session}/try")
        yield walker


def read_turns(walker):
    path = f"{walker.address}/api/v1/sessions/{walker.session}/turns"
    return httpx.get(path, timeout=60).json()["items"]


def show(walker, **settings):
    page, words = walker.page, WORDS[walker.language]
    page.fill("#message", ASKED[walker.language])
    for name, value in settings.items():
        field = page.locator(f"#trial [name='{name}']")
        if field.evaluate("each => each.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    page.click(f"text={words['show']}")
    page.wait_for_selector(f"#result >> text={words['nothing']}")


def forget_statuses(walker, status):
    """Drop the lines that the browser writes about answers with an error status."""
    walker.complaints[:] = [each for each in walker.complaints if f"status of {status}" not in each]


def test_a_prompt_is_shown_and_nothing_is_written(player):
    before = read_turns(player)
    show(player)
    page = player.page
    assert ASKED[player.language].partition("<")[0] in page.inner_text("#result")
    assert page.locator("#result script, #result img").count() == 0
    assert read_turns(player) == before
    assert player.find_faults_of_access() == []
    page.reload()
    assert page.input_value("#message") == ASKED[player.language]
    assert page.locator("#result .message").count() > 0


def test_other_settings_stand_next_to_those_of_now_and_can_be_kept(player):
    page, words = player.page, WORDS[player.language]
    show(player, **{"layout": "cache_append", "budget.max_input_tokens": "3500", "curation.relevance_floor": "1"})
    assert page.locator("#result .budget").count() == 2
    assert page.locator("#result .change").count() > 0
    page.click(f"text={words['keep']}")
    lines = page.inner_text("#lines")
    assert "max_input_tokens: 3500" in lines
    assert "layout: cache_append" in lines
    assert "8192" in page.inner_text(".apply")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(f".apply >> text={words['copy']}")
    page.wait_for_selector("#notice p")
    assert page.evaluate("navigator.clipboard.readText()").strip() == lines.strip()
    assert player.find_faults_of_access() == []


def test_a_wrong_setting_is_named(player):
    page = player.page
    page.fill("#message", ASKED[player.language])
    page.fill("#more", "layuot: x")
    page.click(f"text={WORDS[player.language]['show']}")
    page.wait_for_selector("#notice [role=alert] >> text=layout")
    forget_statuses(player, 422)


def test_an_input_is_sent_answered_and_answered_once_more(player, server):
    page, words, language = player.page, WORDS[player.language], player.language
    server.set_script(f"text:<thought>Hm.</thought><content>{REPLY[language]}</content>")
    page.fill("#message", ASKED[language])
    page.click(f"#trial button:text-is('{words['send']}')")
    page.wait_for_selector(f"#chat .r-assistant >> text={REPLY[language].partition('<')[0]}")
    page.wait_for_selector("#reply", state="hidden")
    assert page.input_value("#message") == ""
    assert page.locator("main script, main img").count() == 0
    newest = read_turns(player)[-1]
    assert REPLY[language] in newest["messages"][-1]["content"]
    server.set_script("text:<content>42</content>")
    page.click(f"text={words['again']}")
    page.wait_for_selector("#chat .r-assistant >> text=42")
    assert read_turns(player)[-1]["depth"] == newest["depth"]


def test_a_stopped_reply_keeps_what_came(player, server):
    page, words = player.page, WORDS[player.language]
    server.set_script("pause:0.8 text:<content>one two three four five six seven eight nine ten</content>")
    page.fill("#message", ASKED[player.language])
    page.click(f"#trial button:text-is('{words['send']}')")
    page.wait_for_selector("#reply >> text=two")
    page.click("[data-stop]")
    page.wait_for_selector("#chat .r-assistant >> text=one two")
    assert "ten" not in read_turns(player)[-1]["messages"][-1]["content"]


def test_a_prompt_edited_by_hand_is_sent_and_recorded_as_such(player, server):
    page, words = player.page, WORDS[player.language]
    show(player)
    page.click(f"text={words['edit']}")
    last = page.locator("#edit textarea").last
    last.fill(last.input_value() + "\n\nIn one word. <b>Now</b>")
    assert player.find_faults_of_access() == []
    page.click(f"text={words['ask']}")
    page.wait_for_selector("#chat >> text=Yes.")
    assert server.requests[-1].messages[-1].text.endswith("In one word. <b>Now</b>")
    player.open(f"/s/{player.session}/t/{read_turns(player)[-1]['turn_id']}?view=receipt")
    assert words["by_hand"] in page.inner_text("main")
    player.open(f"/s/{player.session}/t/{read_turns(player)[-1]['turn_id']}")
    assert "In one word. <b>Now</b>" in page.inner_text("main")


def test_a_fault_of_the_model_server_is_named_and_the_input_stays(player, server):
    page, before = player.page, read_turns(player)
    server.set_script("status:401")
    page.fill("#message", ASKED[player.language])
    page.click(f"#trial button:text-is('{WORDS[player.language]['send']}')")
    page.wait_for_selector("#notice [role=alert] >> text=scripted failure")
    assert page.input_value("#message") == ASKED[player.language]
    assert len(read_turns(player)) == len(before)
    forget_statuses(player, 502)


def test_a_recorded_turn_is_shown_under_other_settings(player):
    page, words = player.page, WORDS[player.language]
    turn = read_turns(player)[-1]["turn_id"]
    player.open(f"/s/{player.session}/try?turn={turn}")
    page.locator("[name=layout]").select_option("cache_append")
    page.fill("[name='curation.relevance_floor']", "1")
    page.click(f"text={words['show']}")
    page.wait_for_selector("#result .remedy >> text=curation.relevance_floor")
    assert "cache_append" in page.inner_text("#result")
    assert player.find_faults_of_access() == []


def test_a_forged_form_sends_nothing(player, server):
    path = f"{player.address}/s/{player.session}/try/send"
    for headers in ({"origin": "https://evil.example"}, {}):
        assert httpx.post(path, data={"message": "x"}, headers=headers).status_code == 403
    assert server.requests == [] or all(each.path != "/v1/chat/completions" for each in server.requests)


def test_an_unsaved_template_is_tried_and_then_stored_in_the_world(player):
    page = player.page
    page.locator("details:has(#file) > summary").click()
    name = next(each for each in page.locator("#file option").all_inner_texts() if each.endswith("chat/guidance.j2"))
    page.select_option("#file", name)
    page.wait_for_selector("#text")
    assert player.find_faults_of_access() == []
    page.fill("#text", "Speak like a pirate.")
    show(player, template_id="chat")
    assert "Speak like a pirate." in page.text_content("#result")
    page.click("#file-text button")
    page.wait_for_selector("#file-text .good")
    page.fill("#text", "")
    show(player, template_id="chat")
    assert "Speak like a pirate." in page.text_content("#result")
