"""The room Home: conversations, the address for chat programs, and the state of the model server."""

from __future__ import annotations

import httpx
import pytest
from servers.openai_server import OpenAiServer, closed_port
from walks import Walker, play_demo, serve_studio

WORDS = {"en": ("Copy", "No model server is set"), "zh": ("复制", "没有设置模型服务器")}


def test_a_newcomer_finds_the_address_and_the_conversations(walker):
    page, (copy, state) = walker.page, WORDS[walker.language]
    walker.open("/")
    assert page.inner_text("#address") == f"{walker.address}/v1"
    page.wait_for_selector(f"text={state}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(f"text={copy}")
    page.wait_for_selector("#notice p")
    assert page.evaluate("navigator.clipboard.readText()") == f"{walker.address}/v1"
    shown = page.inner_text(".cards")
    assert walker.session in shown
    page.fill("#query", walker.session)
    page.keyboard.press("Enter")
    page.wait_for_url("**query=*")
    assert page.locator(".cards li").count() == 1


def test_conversations_have_their_first_and_last_words_and_pages(studio):
    def ask(**query):
        return httpx.get(f"{studio}/api/v1/conversations", params=query).json()

    first = ask(limit=1)
    assert first["next"] == "demo-zh"
    (only,) = first["items"]
    assert only["last"] == "好，跟着溪流走。"
    assert only["last_role"] == "assistant"
    assert only["title"]
    assert only["at"]
    assert [each["session_id"] for each in ask(after="demo-zh")["items"]] == ["demo-en"]
    assert [each["session_id"] for each in ask(query="Three KETTLES")["items"]] == ["demo-en"]
    assert ask(query="xyzzy") == {"items": [], "next": None}


@pytest.mark.parametrize("is_there", [True, False])
def test_the_page_says_whether_the_model_server_answers(browser, tmp_path, is_there):
    play_demo(tmp_path / "store", "en")
    with OpenAiServer() as server:
        upstream = server.base_url if is_there else f"http://127.0.0.1:{closed_port()}/v1"
        with serve_studio(tmp_path / "store", upstream=upstream) as address, Walker.enter(browser, address) as walker:
            walker.open("/")
            walker.page.wait_for_selector(".connect .good" if is_there else ".connect .bad")
            assert upstream.removesuffix("/v1") in walker.page.inner_text(".connect")
