"""The room Turn: the prompt with the reason for each of its parts."""

from __future__ import annotations

import json
import time

import httpx
from walks import Walker

WORDS = {
    "en": {
        "room": "Turn",
        "left_out": "Left out",
        "memories": "memories",
        "from": "In recall",
        "free": "free",
        "remedy": "What would let it in",
        "diff": "Turn before",
        "cache": "bytes are the same",
        "times": "Times",
    },
    "zh": {
        "room": "回合",
        "left_out": "未入选",
        "memories": "记忆",
        "from": "召回",
        "free": "空余",
        "remedy": "怎样才能入选",
        "diff": "与前一回合比较",
        "cache": "字节相同",
        "times": "用时",
    },
}


def test_a_reader_walks_from_the_conversations_to_the_origin_of_a_sentence(walker):
    page, words = walker.page, WORDS[walker.language]
    walker.open("/")
    page.click(f".cards a[href='/s/{walker.session}']")
    page.wait_for_url("**/t/*")
    assert page.locator("nav.rooms [aria-current]").inner_text() == words["room"]
    assert words["free"] in page.inner_text(".budget")
    page.locator(".block.g-memories pre").first.click()
    page.wait_for_selector("#detail dl")
    assert words["from"] in page.inner_text("#detail")
    assert page.locator(".block.chosen").count() == 1
    asked = page.inner_text("#detail .quote")
    page.reload()
    assert page.inner_text("#detail .quote") == asked


def test_the_head_of_a_block_leads_to_its_origin_by_keyboard_and_has_an_address(walker):
    page = walker.page
    walker.open(f"/s/{walker.session}")
    page.locator(".block .head a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail dl")
    assert "at=" in page.url


def test_a_candidate_that_lost_says_what_would_have_let_it_in(walker):
    page, words = walker.page, WORDS[walker.language]
    walker.open(f"/s/{walker.session}")
    page.click(f"text={words['left_out']}")
    page.wait_for_url("**view=left_out")
    page.locator("tbody a").first.click()
    page.wait_for_selector("#detail .remedy")
    assert words["remedy"] in page.inner_text("#detail")
    assert "entry=" in page.url
    page.reload()
    assert words["remedy"] in page.inner_text("#detail")


def test_the_prompt_is_compared_with_the_one_before_and_the_break_of_the_cache_is_named(walker):
    page, words = walker.page, WORDS[walker.language]
    walker.open(f"/s/{walker.session}")
    page.click(f"text={words['diff']}")
    page.wait_for_url("**view=diff")
    assert words["cache"] in page.inner_text("main")
    assert page.locator(".change").count() >= 1
    page.locator(".sides mark").first.wait_for()


def test_the_plan_the_times_and_the_messages_are_shown_and_copied(walker):
    page = walker.page
    walker.open(f"/s/{walker.session}?view=receipt")
    assert WORDS[walker.language]["times"] in page.inner_text("main")
    assert page.locator(".steps tr").count() >= 5
    page.goto(page.url.replace("receipt", "messages"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("button[data-copy=form-openai]")
    page.wait_for_selector("#notice p")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["messages"][-1]["role"] == "user"
    assert page.inner_text("#form-curl").startswith("curl ")
    assert json.loads(page.inner_text("#form-anthropic"))["system"]


def test_a_page_of_a_long_prompt_is_made_fast(studio):
    address = httpx.get(f"{studio}/s/demo-en", headers={"accept": "text/html"}).headers["location"]
    began = time.process_time()
    assert httpx.get(f"{studio}{address}", headers={"accept": "text/html"}).status_code == 200
    assert time.process_time() - began < 1.0


def test_the_language_changes_and_the_view_stays(walker):
    page, other = walker.page, {"en": "zh", "zh": "en"}[walker.language]
    walker.open(f"/s/{walker.session}?view=left_out")
    page.click("a.language")
    page.wait_for_url("**lang=*")
    assert "view=left_out" in page.url
    assert WORDS[other]["left_out"] in page.inner_text("h1 ~ nav.tabs")


def test_a_phone_shows_a_turn_without_scrolling_sideways(browser, studio):
    with Walker.enter(browser, studio, viewport={"width": 420, "height": 900}) as walker:
        walker.open("/s/demo-en")
        assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420
