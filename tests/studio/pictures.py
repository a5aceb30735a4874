"""Takes the pictures of the studio for the guide: `python tests/studio/pictures.py`.

Each room is opened in Chromium in both languages, on a short conversation of the example world. The pictures are written into
`docs/en/pictures` and `docs/zh/pictures`; look at them before they are committed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "jacquard" / "service"))

from playwright.sync_api import sync_playwright
from walks import Walker, find_browser, play_demo, serve_studio

ROOT = Path(__file__).parents[2]
SIZE = {"width": 1200, "height": 760}
ROOMS = {"turn": "/s/{session}", "try": "/s/{session}/try", "memory": "/s/{session}/memory"}
QUESTIONS = {"en": "Was that key the one for the temple?", "zh": "那把钥匙是不是开启神庙的？"}


def show_more(walker: Walker, room: str) -> None:
    """Open what a reader of the guide is to see of a room."""
    page = walker.page
    if room == "turn":
        page.locator(".block.g-memories pre[data-at], .block:has-text('<memory') pre[data-at]").last.click(
            position={"x": 60, "y": 30}
        )
        page.wait_for_selector("#detail .quote")
    if room == "try":
        page.locator("textarea").first.fill(QUESTIONS[walker.language])
        page.locator("form button").first.click()
        page.wait_for_selector(".block, .budget")
    page.wait_for_timeout(300)


def take_pictures() -> None:
    """Write the pictures of both languages."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        store = Path(folder) / "store"
        for language in ("en", "zh"):
            play_demo(store, language)
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        with serve_studio(store, world=str(ROOT / "examples" / "whispering_forest" / "en")) as address:
            for language in ("en", "zh"):
                target = ROOT / "docs" / language / "pictures"
                target.mkdir(exist_ok=True)
                with Walker.enter(browser, address, language, viewport=SIZE, color_scheme="light") as walker:
                    for room, path in ROOMS.items():
                        walker.open(path.format(session=walker.session))
                        show_more(walker, room)
                        walker.page.screenshot(path=target / f"studio-{room}.jpg", type="jpeg", quality=72)
        browser.close()


if __name__ == "__main__":
    take_pictures()
