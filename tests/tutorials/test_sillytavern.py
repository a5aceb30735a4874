"""The tutorial for players of SillyTavern is lived in both languages, with a browser for the studio."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from lived_pages import Walk, WrittenFile, read_page
from walks import Walker

from jacquard.testing.server import ScriptedRequest, ScriptedServer, Step

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LABEL = re.compile(r"\*\*([^*]+)\*\*")


class Page:
    """Sections of the tutorial, by their number."""

    def __init__(self, language: str) -> None:
        self.path = DOCS / language / "tutorials" / "sillytavern.md"
        self._sections = self.path.read_text(encoding="utf-8").split("\n## ")

    def files(self) -> list[str]:
        """Return the names of the files that the page shows: card, book and chat."""
        return [step.path for step in read_page(self.path) if isinstance(step, WrittenFile)]

    def labels(self, section: int) -> list[str]:
        """Return the names of what is clicked, in their order."""
        return _LABEL.findall(self._sections[section])

    def texts(self, section: int) -> list[str]:
        """Return the texts that are shown or written."""
        return [text.rstrip("\n") for text in _BLOCK.findall(self._sections[section])]

    def says_model_is_there(self) -> str:
        """Return the sentence by which the studio says that the model server answers."""
        return re.sub(r"\s+", " ", re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", self._sections[2])[0])

    def exchange(self, section: int) -> list[tuple[str, str]]:
        """Return (speaker, message) of each line of the chat in a section."""
        lines = [line for text in self.texts(section) for line in text.split("\n")]
        found = [re.fullmatch(r"(\w+)(?:: |：)(.*)", line) for line in lines]
        return [(match[1], match[2]) for match in found if match]


class SillyTavern:
    """The program of the player: it shows the whole chat in each call, below its own instructions and the card's text."""

    def __init__(self, address: str, card: dict, chat: list[dict]) -> None:
        self.address = address
        name = card["data"]["name"]
        self._player = chat[0]["user_name"]
        self._instructions = [
            f"Write {name}'s next reply in a fictional chat between {name} and {self._player}.",
            card["data"]["description"].replace("{{char}}", name),
            "[Start a new Chat]",
        ]
        self.said = [(line["name"], line["mes"]) for line in chat[1:]]

    def say(self, text: str) -> str:
        """Send a message of the player; return the reply."""
        self.said.append((self._player, text))
        shown = [("user" if name == self._player else "assistant", words) for name, words in self.said]
        messages = [("system", words) for words in self._instructions] + shown
        body = {"model": "any", "messages": [{"role": role, "content": words} for role, words in messages]}
        answer = httpx.post(f"{self.address}/v1/chat/completions", json=body, timeout=60).raise_for_status().json()
        return answer["choices"][0]["message"]["content"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_chat_of_sillytavern_gets_a_memory(browser, tmp_path, language):
    page = Page(language)
    exchanges = page.exchange(5) + page.exchange(7)
    replies = {asked: told for (_, asked), (_, told) in zip(exchanges[::2], exchanges[1::2], strict=True)}

    def answer(request: ScriptedRequest) -> Step:
        return Step(text=replies[[message.text for message in request.messages if message.role == "user"][-1]])

    with ScriptedServer(answer) as model:
        given = {"upstream": model.base_url, "JACQUARD_SERVICE__EMBEDDER": "none"}
        with Walk(folder=tmp_path, set_by_walk=given) as walk:
            walk.live(page.path)
            with Walker.enter(browser, walk.address, language) as walker:
                play(page, walker, tmp_path, model)


def play(page: Page, walker: Walker, folder: Path, model: ScriptedServer) -> None:
    """Do what the sections 2 to 8 tell, and check what the model was sent and what is taken out at the end."""
    card, book, chat = (folder / name for name in page.files())
    lines = [json.loads(line) for line in chat.read_text(encoding="utf-8").splitlines()]
    client = SillyTavern(walker.address, json.loads(card.read_text(encoding="utf-8")), lines)
    walker.open("/")
    find_text(walker, page.says_model_is_there())
    bring_in(page, walker, [card, book, chat])

    sent = chat_on(page.exchange(5), client, model)
    (lore,) = page.texts(6)
    assert lore in sent
    walker.page.locator(".exchange").nth(2).wait_for()
    (prompt,) = page.labels(6)
    open_newest_prompt(walker, prompt)
    walker.page.get_by_text(lore).first.click(position={"x": 40, "y": 8})
    walker.page.wait_for_selector("#detail .quote")

    wrong, right, _ = page.texts(7)
    *correcting, timeline, prompt, memory, edits = page.labels(7)
    correct_memory(walker, correcting, wrong, right)
    sent = chat_on(page.exchange(7), client, model)
    enter_room(walker, timeline)
    open_newest_prompt(walker, prompt)
    for text in (sent, walker.page.inner_text("main")):
        assert right in text
        assert wrong not in text
    enter_room(walker, memory)
    walker.page.get_by_role("link", name=edits, exact=True).first.click()
    find_text(walker, wrong)

    said = take_out(walker, page.labels(8))
    assert said == client.said
    assert said[1:] == page.exchange(8)


def bring_in(page: Page, walker: Walker, files: list[Path]) -> None:
    """Import the files on the first page of the studio, and open their chat."""
    opened, take = page.labels(4)
    walker.page.locator("summary", has_text=opened).click()
    walker.page.set_input_files("input[type=file] >> nth=0", files)
    walker.page.get_by_role("button", name=take, exact=True).click()
    walker.page.locator("#report a").first.click()
    walker.page.wait_for_selector(".exchange")


def correct_memory(walker: Walker, labels: list[str], wrong: str, right: str) -> None:
    """Remember a wrong sentence, and correct it."""
    memory, remembered, remember, correct, save = labels
    enter_room(walker, memory)
    find_text(walker, remembered)
    walker.page.locator("#new-text").fill(wrong)
    walker.page.get_by_role("button", name=remember, exact=True).click()
    walker.page.locator(".memories li", has_text=wrong).get_by_text(correct, exact=True).click()
    walker.page.locator("#detail #text").fill(right)
    walker.page.get_by_role("button", name=save, exact=True).click()
    walker.page.wait_for_selector(".done")


def take_out(walker: Walker, labels: list[str]) -> list[tuple[str, str]]:
    """Save the chat of the conversation as a file; return the speaker and the text of each message in it."""
    room, kind, button = labels
    enter_room(walker, room)
    walker.page.locator("select[name=format]").select_option(label=kind)
    with walker.page.expect_download() as saved:
        walker.page.get_by_role("button", name=button, exact=True).click()
    lines = [json.loads(line) for line in saved.value.path().read_text(encoding="utf-8").splitlines()]
    return [(line["name"], line["mes"]) for line in lines[1:]]


def chat_on(exchange: list[tuple[str, str]], client: SillyTavern, model: ScriptedServer) -> str:
    """Say a message in the chat and take its reply into the chat; return what the model was sent."""
    (_, asked), reply = exchange
    assert client.say(asked) == reply[1]
    client.said.append(reply)
    return model.requests[-1].text


def enter_room(walker: Walker, name: str) -> None:
    """Click a room at the top of the studio."""
    walker.page.locator("nav.rooms").get_by_text(name, exact=True).click()


def open_newest_prompt(walker: Walker, label: str) -> None:
    """Open the prompt of the newest exchange on the timeline."""
    walker.page.locator(".exchange").last.get_by_text(label, exact=True).click()
    walker.page.wait_for_selector(".block")


def find_text(walker: Walker, text: str) -> None:
    """Wait until a text is on the page; … stands for any words."""
    words = re.compile(".*".join(map(re.escape, text.split("…"))))
    walker.page.get_by_text(words).locator("visible=true").first.wait_for()
