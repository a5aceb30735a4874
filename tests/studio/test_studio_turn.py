"""The room Turn: the prompt with the reason for each of its parts."""

from __future__ import annotations

WORDS = {
    "en": {"room": "Turn", "left_out": "Left out", "memories": "memories", "from": "In recall", "free": "free"},
    "zh": {"room": "回合", "left_out": "未入选", "memories": "记忆", "from": "检索中", "free": "空余"},
}


def test_a_reader_walks_from_the_conversations_to_the_origin_of_a_sentence(walker):
    page, words = walker.page, WORDS[walker.language]
    walker.open("/")
    page.click(f"text={walker.session}")
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


def test_what_was_left_out_has_its_reasons(walker):
    page = walker.page
    walker.open(f"/s/{walker.session}")
    page.click(f"text={WORDS[walker.language]['left_out']}")
    page.wait_for_url("**view=left_out")
    assert page.locator("tbody tr").count() >= 1


def test_the_language_changes_and_the_view_stays(walker):
    page, other = walker.page, {"en": "zh", "zh": "en"}[walker.language]
    walker.open(f"/s/{walker.session}?view=left_out")
    page.click("a.language")
    page.wait_for_url("**lang=*")
    assert "view=left_out" in page.url
    assert WORDS[other]["left_out"] in page.inner_text("h1 ~ nav.tabs")


def test_a_phone_shows_a_turn_without_scrolling_sideways(browser, studio):
    from walks import Walker

    with Walker.enter(browser, studio, viewport={"width": 420, "height": 900}) as walker:
        walker.open("/s/demo-en")
        assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420
