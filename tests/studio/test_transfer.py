"""The room Import and export, and the walk of a player who never opens a terminal."""

from __future__ import annotations

import io
import json
import zipfile

import httpx
import pytest
from servers.openai_server import OpenAiServer
from walks import Walker, serve_studio

WORDS = {
    "en": {"take": "Import", "out": "Save the file", "kept": "kept", "correct": "Correct"},
    "zh": {"take": "导入", "out": "保存文件", "kept": "保留", "correct": "更正"},
}
NAMES = {"en": "Mira", "zh": "米拉"}
CARD_TEXTS = {
    "en": ("{{char}} mends boats.", "Hello, {{user}}.", "The lighthouse keeper is called Oda.", ["lighthouse"]),
    "zh": ("{{char}}修船。", "你好，{{user}}。", "守灯塔的人叫奥达。", ["灯塔"]),
}
SAID = {
    "en": ("Hello, Ana.", "What is my boat called, the one with the red sail?", "It is called Petunia.", "Petunia"),
    "zh": ("你好，安娜。", "我那条挂红帆的船叫什么名字？", "它叫牵牛花。", "牵牛花"),
}
ASKS = {"en": "Who keeps the lighthouse?", "zh": "谁在守灯塔？"}
FACTS = {
    "en": ("The harbour bell rings at six.", "The harbour bell rings at nine.", "When does the harbour bell ring?"),
    "zh": ("港口的钟六点敲响。", "港口的钟九点敲响。", "港口的钟几点敲响？"),
}
HOSTILE = "<img src=x onerror=alert(1)>{{ 7*7 }}"


def card_of(language, name=None):
    text, first, lore, keys = CARD_TEXTS[language]
    entry = {"keys": keys, "content": lore, "enabled": True, "extensions": {}, "insertion_order": 1}
    data = {"name": name or NAMES[language], "description": text, "first_mes": first, "extensions": {"odd": 1}}
    data["character_book"] = {"entries": [entry], "extensions": {}}
    return json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}).encode()


def chat_of(language):
    greeting, asked, told, _ = SAID[language]
    name = NAMES[language]
    lines = (
        {"user_name": "Ana", "character_name": name, "create_date": "2026-01-01@10h00m00s"},
        {"name": name, "is_user": False, "mes": greeting},
        {"name": "Ana", "is_user": True, "mes": asked},
        {"name": name, "is_user": False, "mes": told},
    )
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in lines).encode()


def chosen(name, data):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": data}


def drop(page, name, data):
    """Drop a file on the page, as a hand does."""
    page.evaluate(
        """([name, bytes]) => {
            const given = new DataTransfer();
            given.items.add(new File([new Uint8Array(bytes)], name));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
        }""",
        [name, list(data)],
    )


def import_card_and_chat(walker):
    """Import the files on the first page, and open the timeline of their session; return its id."""
    page, language = walker.page, walker.language
    walker.open("/")
    page.click("summary >> nth=-1")
    page.set_input_files(
        "input[type=file] >> nth=0",
        [chosen("Mira.json", card_of(language)), chosen("first evening.jsonl", chat_of(language))],
    )
    page.wait_for_selector("[data-take]")
    assert NAMES[language] in page.inner_text("#report")
    assert WORDS[language]["kept"] in page.inner_text("#report")
    assert httpx.get(f"{walker.address}/api/v1/sessions").json()["items"] == []
    page.click("[data-take]")
    page.wait_for_selector("#report a")
    session = page.inner_text("#report a >> nth=0")
    page.click("#report a >> nth=0")
    page.wait_for_selector(".exchange")
    return session


def correct_a_memory(walker, session):
    """Remember a wrong fact on the memory desk and correct it there."""
    page, (wrong, right, _) = walker.page, FACTS[walker.language]
    walker.open(f"/s/{session}/memory")
    page.fill("#new-text", wrong)
    page.locator("#detail button").first.click()
    page.wait_for_selector(".done")
    walker.open(f"/s/{session}/memory?kind=remembered")
    page.locator(".memories a").first.click()
    page.wait_for_selector("#detail textarea")
    page.locator("#detail #text").fill(right)
    page.locator("#detail").get_by_role("button", name=WORDS[walker.language]["correct"]).click()
    page.wait_for_selector(".done")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_player_needs_no_terminal(browser, tmp_path, language):
    (wrong, right, question), lore = FACTS[language], CARD_TEXTS[language][2]
    greeting, asked, told, name = SAID[language]
    with (
        OpenAiServer("text:Oda.") as server,
        serve_studio(tmp_path / "store", upstream=f"{server.base_url}/v1") as address,
        Walker.enter(browser, address, language) as walker,
    ):
        page, session = walker.page, import_card_and_chat(walker)
        said = [("assistant", greeting), ("user", asked), ("assistant", told)]

        def say(text):
            """Go on with the imported chat in a chat program; return what the model was sent."""
            said.append(("user", text))
            body = {"model": "any", "messages": [{"role": role, "content": words} for role, words in said]}
            assert httpx.post(f"{address}/v1/chat/completions", json=body, timeout=60).status_code == 200
            said.append(("assistant", "Oda."))
            return str(server.requests[-1].body)

        assert lore in say(ASKS[language])
        # The page shows the new turn by itself, and what was added to its prompt.
        page.locator(".exchange").nth(2).wait_for()
        assert ASKS[language] in page.inner_text("#chat")
        page.locator(".exchange").last.get_by_role("link").nth(1).click()
        page.wait_for_selector(".block")
        assert lore in page.inner_text("main")
        correct_a_memory(walker, session)
        sent = say(question)
        assert right in sent
        assert wrong not in sent
        walker.open(f"/s/{session}/transfer")
        with page.expect_download() as saved:
            page.get_by_role("button", name=WORDS[language]["out"]).click()
        assert name in saved.value.path().read_text(encoding="utf-8")


def test_files_that_are_dropped_are_reported_and_can_be_exported_in_every_form(browser, tmp_path):
    vault = io.BytesIO()
    with zipfile.ZipFile(vault, "w") as archive:
        archive.writestr("vault/.obsidian/app.json", "{}")
        archive.writestr("vault/boat.md", "# Boat\n\nThe boat is red.")
    with serve_studio(tmp_path / "store") as address, Walker.enter(browser, address) as walker:
        page = walker.page
        walker.open("/studio/transfer")
        page.fill("input[name=session_id]", "s")
        drop(page, "notes.zip", vault.getvalue())
        page.wait_for_selector("[data-take]")
        assert "vault of notes" in page.inner_text("#report")
        page.click("[data-take]")
        page.wait_for_selector("#report a")
        drop(page, "Mira.json", card_of("en"))
        page.wait_for_selector("[data-take]")
        page.click("[data-take]")
        page.wait_for_selector("#report a")
        for wanted in ("chat", "card", "card-png", "world-info", "document"):
            given = httpx.get(
                f"{address}/studio/transfer/file", params={"session": "s", "format": wanted, "name": "Mira"}
            )
            assert given.status_code == 200, given.text
            assert given.headers["content-disposition"].startswith("attachment")
        fault = httpx.get(
            f"{address}/studio/transfer/file", params={"session": "none"}, headers={"accept": "text/html"}
        )
        assert fault.status_code == 404
        assert "no such conversation" in fault.text


def test_hostile_names_and_texts_stay_text_and_a_bad_file_is_named(browser, tmp_path):
    with serve_studio(tmp_path / "store") as address, Walker.enter(browser, address) as walker:
        page = walker.page
        walker.open("/studio/transfer")
        drop(page, "card.json", card_of("en", HOSTILE))
        page.wait_for_selector("[data-take]")
        assert HOSTILE in page.inner_text("#report")
        assert page.locator("#report img").count() == 0
        drop(page, "what.bin", b"\0\0\0")
        page.wait_for_selector("#report .bad")
        assert "what.bin" in page.inner_text("#report")
        # The console of a browser names every answer that is a fault.
        walker.complaints = [each for each in walker.complaints if "status of 422" not in each]


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_room_can_be_used_by_everyone_and_on_a_phone(browser, tmp_path, language, scheme):
    size = {"width": 420, "height": 900}
    with (
        serve_studio(tmp_path / "store") as address,
        Walker.enter(browser, address, language, viewport=size, color_scheme=scheme) as walker,
    ):
        walker.open("/studio/transfer")
        drop(walker.page, "card.json", card_of(language))
        walker.page.wait_for_selector("[data-take]")
        walker.page.click("summary")
        assert walker.find_faults_of_access() == []
        assert walker.page.evaluate("document.documentElement.scrollWidth") <= 420
