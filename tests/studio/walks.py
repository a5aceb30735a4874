"""Walks through the studio: a browser that notes whatever should not happen, and conversations to look at."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from served import serve_app

from jacquard import open_runtime
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.studio.app import open_studio

WORLDS = Path(__file__).parents[2] / "examples" / "whispering_forest"
AXE = Path(__file__).with_name("vendor") / "axe.min.js"
SAID = {
    "en": [
        ("Hello, who are you?", "I am Reed, keeper of the forest."),
        ("Was that key the one for the temple?", "Yes, it opens the temple door."),
        ("Let us go to the temple.", "Good. Follow the stream."),
    ],
    "zh": [
        ("你好，你是谁？", "我是守林人阿苇。"),
        ("那把钥匙是不是开启神庙的?", "是的，它开启神庙的门。"),
        ("我们去神庙吧。", "好，跟着溪流走。"),
    ],
}


def find_browser() -> str | None:
    """Return the path of the system's Chromium; None if there is none."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def open_browser():
    """Open the system's Chromium; the test is skipped if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def play_demo(store: Path, language: str, said: list[tuple[str, str]] | None = None) -> None:
    """Play a short conversation of the example world into a store."""

    async def play() -> None:
        async with open_runtime(str(store), world=WORLDS / language, embedder="none") as runtime:
            await runtime.ensure_session(f"demo-{language}")
            for message, reply in said or SAID[language]:
                turn = await runtime.engine.prepare_turn(f"demo-{language}", message)
                await runtime.engine.commit_assistant_message(f"demo-{language}", reply, turn_id=turn.turn_id)

    # A browser has an event loop in this thread.
    run_in_thread(lambda: anyio.run(play))


def run_in_thread(work) -> None:
    """Run a function in a thread of its own, and raise what it raises."""
    faults: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]


@contextmanager
def serve_studio(store: Path | str, **settings):
    """Serve a store with the studio; give the address."""
    app = build_app(ServiceSettings(store=str(store), embedder="none", studio=True, **settings), open_pages=open_studio)
    with serve_app(app) as port:
        yield f"http://127.0.0.1:{port}"


@dataclass(kw_only=True)
class Walker:
    """A person at a browser."""

    page: object
    address: str
    language: str
    complaints: list[str] = field(default_factory=list)
    """Messages of the console, errors of scripts, and requests to other addresses."""

    @classmethod
    @contextmanager
    def enter(cls, browser, address, language="en", **options):
        """Open a page for a reader of a language; complain at the end if the browser does."""
        context = browser.new_context(locale={"en": "en-US", "zh": "zh-CN"}[language], **options)
        page = context.new_page()
        walker = cls(page=page, address=address, language=language)
        page.on("console", lambda message: walker.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: walker.complaints.append(f"script: {error}"))
        page.on("request", walker.note_request)
        try:
            yield walker
            assert walker.complaints == []
        finally:
            context.close()

    def note_request(self, request) -> None:
        """Complain about a request that leaves the address of the service."""
        if not request.url.startswith((self.address, "data:")):
            self.complaints.append(f"request: {request.url}")

    def open(self, path: str) -> None:
        """Open an address of the studio."""
        self.page.goto(f"{self.address}{path}")

    @property
    def session(self) -> str:
        """The conversation in the reader's language."""
        return f"demo-{self.language}"

    def find_faults_of_access(self) -> list[str]:
        """Return the serious findings of axe on the present page. Its copies of style sheets would break the content policy."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {preload: false})")["violations"]
        return [
            f"{each['id']}: {node['html'][:160]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
