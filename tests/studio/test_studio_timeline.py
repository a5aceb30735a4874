"""The room Timeline: the chat with its branches, the state after each turn, and going back, forking and editing."""

from __future__ import annotations

import httpx
import pytest
from walks import Walker, play_demo, serve_studio

from jacquard.authoring.state_changes import StateChange, find_changes

APPLIED = '<content>You eat.</content><state_update>[["SUB","hero.health",3]]</state_update>'
REFUSED = '<content>You drink.</content><state_update>[["SET","nowhere.at.all",1]]</state_update>'
WORDS = {
    "en": {
        "more": "Change",
        "fork": "Fork after this turn",
        "back": "Go back to this turn",
        "edit": "Save the new text",
    },
    "zh": {"more": "改动", "fork": "从此回合分叉", "back": "回到此回合", "edit": "把新文字存到新分支"},
}


@pytest.fixture(params=["en", "zh"])
def player(request, browser, tmp_path):
    """A person at a conversation of their own, with an op that was applied and one that was refused."""
    said = [("I eat.", APPLIED), ("I drink.", REFUSED)]
    play_demo(tmp_path / "store", request.param, said)
    with serve_studio(tmp_path / "store") as address, Walker.enter(browser, address, request.param) as walker:
        walker.open(f"/s/{walker.session}/timeline")
        yield walker


def test_the_scrubber_shows_what_each_turn_changed_and_which_ops_were_refused(player):
    page = player.page
    assert page.locator(".verdicts .bad").count() == 1
    assert "nowhere.at.all" in page.inner_text(".verdicts")
    page.locator("#depth").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".verdicts .good")
    assert "/hero/health" in page.inner_text("#detail")
    page.locator(".exchange .number").last.click()
    page.wait_for_selector(".verdicts .bad")


def open_last(page, words):
    page.locator("details.alter > summary").last.click()
    return page.locator("details.alter").last


def test_a_reader_edits_a_message_and_both_texts_stay(player):
    page, words = player.page, WORDS[player.language]
    form = open_last(page, words).locator("form.stack").first
    form.locator("textarea").fill("I pour it out. <b>All</b>")
    form.locator(f"button:has-text('{words['edit']}')").click()
    page.wait_for_load_state()
    assert "I pour it out. <b>All</b>" in page.inner_text("#chat")
    assert page.locator(".tree li").count() == 2
    page.locator(".exchange .others a").first.click()
    page.wait_for_url("**branch=*")
    assert "I drink." in page.inner_text("#chat")


def test_a_reader_goes_back_and_forks(player):
    page, words = player.page, WORDS[player.language]
    count = page.locator(".exchange").count()
    page.locator("details.alter > summary").nth(count - 2).click()
    page.locator(f"details.alter[open] button:has-text('{words['back']}')").click()
    page.wait_for_load_state()
    assert "I drink." not in page.inner_text("#chat")
    assert page.locator(".tree li").count() == 2
    open_last(page, words).locator(f"button:has-text('{words['fork']}')").click()
    page.wait_for_load_state()
    assert page.locator(".tree li").count() == 3


def test_new_turns_appear_while_a_client_talks(player):
    page = player.page
    page.wait_for_timeout(300)
    api = f"{player.address}/api/v1/sessions/{player.session}"
    turn = httpx.post(f"{api}/turns", json={"message": "Is anyone here?"}, timeout=60).json()
    httpx.post(
        f"{api}/reply", json={"message": "Only the wind.", "turn_id": turn["turn_id"]}, timeout=60
    ).raise_for_status()
    page.wait_for_selector("#chat >> text=Only the wind.")


def test_a_page_can_be_used_by_everyone(player):
    assert player.find_faults_of_access() == []


def test_a_forged_form_changes_nothing(player):
    for headers in ({"origin": "https://evil.example"}, {}):
        path = f"{player.address}/s/{player.session}/timeline/rollback"
        assert httpx.post(path, data={"turn_id": "x"}, headers=headers).status_code == 403
    assert player.page.locator(".tree li").count() == 1


def test_the_api_lists_what_a_turn_changed(player):
    api = f"{player.address}/api/v1/sessions/{player.session}"
    turns = [each["turn_id"] for each in httpx.get(f"{api}/turns").json()["items"][-2:]]
    applied, refused = (httpx.get(f"{api}/turns/{turn}/changes").json() for turn in turns)
    (change,) = applied["changes"]
    assert change["path"].startswith("/hero/health")
    assert change["before"] - change["after"] == 3
    assert [each["outcome"] for each in applied["verdicts"]] == ["applied"]
    assert refused["changes"] == []
    assert [each["outcome"] for each in refused["verdicts"]] == ["refused"]


def test_changes_of_a_state_are_named_by_their_paths():
    before = {"a": {"b": 1, "c": [1, 2]}, "gone": True, "x/y": 0, "same": [1]}
    after = {"a": {"b": 2, "c": [1]}, "new": {"d": 1}, "x/y": 1, "same": [1]}
    assert find_changes(before, after) == (
        StateChange(path="/a/b", before=1, after=2),
        StateChange(path="/a/c/1", before=2),
        StateChange(path="/gone", before=True),
        StateChange(path="/x~1y", before=0, after=1),
        StateChange(path="/new", after={"d": 1}),
    )
    assert find_changes(before, before) == ()
