"""The site of the guide is built in both languages, no link of it is dead, and no page makes a browser ask another host.

A browser reads it from a host and from a folder: its search finds the page that a reader wants, and no page is wider than a screen.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from docs.build import LONGEST_TEXT
from docs.reference import EXAMPLES, PACKAGES, public_names
from docs.translation import list_pages

ROOT = Path(__file__).parents[2]
pytest.importorskip("zensical")


class Page(HTMLParser):
    """Collects the links of a page, its ids, and the addresses that a browser loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.elements = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.ids.add(told.get("id", ""))
        self.elements += 1
        if tag == "a":
            self.links.append(told.get("href", ""))
        else:
            self.loaded += [
                told[name] for name in ("href", "src", "srcset", "data", "action", "poster") if name in told
            ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, copied while no other process of the tests builds it."""
    copied = tmp_path_factory.mktemp("built") / "site"
    with (Path(tempfile.gettempdir()) / "jacquard-site-test.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "docs.build"], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.copytree(ROOT / "site", copied)
    return copied


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}


def test_both_languages_have_every_page(site: Path) -> None:
    built = {
        language: {file.relative_to(site / language) for file in (site / language).rglob("*.html")}
        for language in ("en", "zh")
    }
    assert built["en"] == built["zh"]
    assert {Path(name).with_suffix(".html") for name in list_pages("en")} <= built["en"]


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    dead = []
    for file, page in pages.items():
        if file.name == "404.html":
            continue  # its links are made for the root of a host
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(address.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                dead.append(f"{file.name}: {link}")
    assert dead == []


def test_every_list_is_shown_as_one(pages: dict[Path, Page]) -> None:
    assert [file.name for file in pages if re.search(r"</(?:strong|p|em)>\n- ", file.read_text(encoding="utf-8"))] == []


def test_every_picture_and_script_of_a_page_is_there(pages: dict[Path, Page]) -> None:
    missing = []
    for file, page in pages.items():
        paths = [unquote(urlsplit(address).path) for address in page.loaded if not urlsplit(address).scheme]
        missing += [f"{file.name}: {path}" for path in paths if path and not (file.parent / path).exists()]
    assert [each for each in missing if not each.startswith("404.html")] == []


def test_no_page_loads_anything_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    foreign = {address for page in pages.values() for address in page.loaded if re.match(r"(?:\w+:)?//", address)}
    styles = {
        found
        for file in site.rglob("*.css")
        for found in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", file.read_text("utf-8"))
    }
    assert foreign | styles == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package: str, site: Path) -> None:
    texts = [file.read_text(encoding="utf-8") for file in (site / "en" / "reference" / package).glob("*.html")]
    headings = [name for text in texts for name in re.findall(r"<h3[^>]*>(\w+)", text)]
    assert sorted(headings) == public_names(package)


def test_names_that_matter_have_an_example(site: Path) -> None:
    files = [file for package in PACKAGES for file in (site / "en" / "reference" / package).glob("*.md")]
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", texts, re.DOTALL | re.MULTILINE))
    assert [name for name in EXAMPLES if "Example, from" not in sections[name]] == []


def test_no_page_is_heavy(pages: dict[Path, Page]) -> None:
    assert {file.name: page.elements for file, page in pages.items() if page.elements > 5_000} == {}


def test_the_texts_for_models_list_every_page(site: Path) -> None:
    for language in ("en", "zh"):
        text = (site / language / "llms.txt").read_text(encoding="utf-8")
        listed = re.findall(r"\]\(([^)]+)\)", text)
        assert "[](" not in text, "a page has no title"
        assert list_pages("en") <= set(listed)
        assert all((site / language / page).is_file() for page in listed)
        whole = (site / language / "llms-full.txt").read_text(encoding="utf-8")
        assert [page for page in list_pages(language) if read_title(site / language / page) not in whole] == []
        texts = sorted((site / language).glob("llms-*-*.txt"))
        assert [file.name for file in texts if len(file.read_text(encoding="utf-8")) > LONGEST_TEXT] == []
        assert len({file.name.split("-")[1] for file in texts}) >= 4
    assert all(
        (site / page).is_file()
        for page in re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    )


def read_title(page: Path) -> str:
    """Return the first line of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0]


SEARCHES = {
    "en": {
        "install": "install",
        "erase": "erasure",
        "SillyTavern": "sillytavern",
        "MCP": "mcp",
        "quests": "pack-quests",
        "redaction": "redaction",
        "template": "templates",
        "backup": "store-care",
        "tenants": "service",
        "plugin": "plugins",
    },
    "zh": {
        "安装": "install",
        "擦除": "erasure",
        "酒馆": "sillytavern",
        "任务": "pack-quests",
        "脱敏": "redaction",
        "模板": "templates",
        "摘要": "memory",
        "世界书": "world-info",
        "角色卡": "files",
        "工作室": "studio",
    },
}
"""Words that a reader types into the search, and how the page ends that should be among the first three results."""

FIRST_RESULTS = """words => {
  const isFound = text => text && (text.startsWith(words.toLowerCase()) || words.toLowerCase().includes(text));
  for (const each of document.querySelectorAll("*")) {
    const links = each.shadowRoot ? [...each.shadowRoot.querySelectorAll("ol a")].slice(0, 3) : [];
    const marks = links.flatMap(link => [...link.querySelectorAll("mark")].map(mark => mark.textContent.toLowerCase()));
    if (marks.some(isFound)) return links.map(link => link.href);
  }
  return null;
}"""
"""Returns the addresses of the first three results as soon as they are those of the words."""

IS_SEARCH_READY = (
    """() => [...document.querySelectorAll("*")].some(each => each.shadowRoot?.activeElement?.matches("input"))"""
)
"""Returns whether the search has the keyboard; what is typed before that is lost."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def host(site: Path) -> Iterator[str]:
    """A host of files that does nothing else."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def open_page(browser: Any, faults: list[str], width: int) -> Any:
    """Open an empty page that writes messages of the console and requests to other hosts into `faults`."""
    page = browser.new_page(viewport={"width": width, "height": 800}, locale="en")
    page.on("console", lambda message: faults.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    own = ("http://127.0.0.1", "file:", "blob:", "data:")
    page.on("request", lambda request: request.url.startswith(own) or faults.append(f"{page.url} asks {request.url}"))
    return page


@pytest.mark.parametrize("language", SEARCHES)
@pytest.mark.parametrize(("place", "width"), [("host", 1280), ("folder", 420)])
def test_the_search_finds_what_a_reader_wants(
    language: str, place: str, width: int, site: Path, host: str, browser: Any
) -> None:
    faults: list[str] = []
    page = open_page(browser, faults, width)
    page.goto(f"{host if place == 'host' else site.as_uri()}/{language}/index.html")
    page.keyboard.press("/")
    page.wait_for_function(IS_SEARCH_READY)
    missed = []
    for words, wanted in SEARCHES[language].items():
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(words)
        links = page.wait_for_function(FIRST_RESULTS, arg=words, timeout=20_000).json_value()
        if not any(f"{wanted}.html" in link for link in links):
            missed.append(f"{words}: {links}")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/{language}/.+\.html\?h="))
    page.close()
    assert missed + faults == []


@pytest.mark.parametrize("language", SEARCHES)
def test_no_page_is_wider_than_a_screen(
    language: str, site: Path, host: str, pages: dict[Path, Page], browser: Any
) -> None:
    """The pages of the guide that have a Chinese twin, and the three heaviest pages."""
    faults: list[str] = []
    page = open_page(browser, faults, 420)
    own = [file for file in pages if file.is_relative_to(site / language)]
    heavy = sorted(own, key=lambda file: pages[file].elements)[-3:]
    for file in [*((site / language / name).with_suffix(".html") for name in sorted(list_pages("zh"))), *heavy]:
        page.goto(f"{host}/{file.relative_to(site).as_posix()}")
        for width in (420, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                faults.append(f"{file.name}: {wide} of {width}")
    page.close()
    assert faults == []
