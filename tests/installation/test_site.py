"""The site of the guide is built in both languages, no link of it is dead, and no page makes a browser ask another host."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

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
        listed = re.findall(r"\]\(([^)]+)\)", (site / language / "llms.txt").read_text(encoding="utf-8"))
        assert list_pages("en") <= set(listed)
        assert all((site / language / page).is_file() for page in listed)
        assert (site / language / "llms-full.txt").read_text(encoding="utf-8").count("\n# ") > 20
    assert all(
        (site / page).is_file()
        for page in re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    )
