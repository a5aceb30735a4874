"""Builds the site of the guide in English and Chinese, with its search, `llms.txt` and `llms-full.txt`.

    python -m docs.build                # writes site/; a dead link is an error

The pages of docs/LANGUAGE, and the English pages that both languages have (decisions, measurements, design, changes), are copied
into build/site/LANGUAGE with links that hold there, and Zensical builds each folder. A file of the repository that a page links
is part of the site, so that no link leaves it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docs.reference import make_pages

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "site"
SITE = ROOT / "site"
LANGUAGES = ("en", "zh")
SHARED = {"docs/design.md": "design.md", "CHANGELOG.md": "changes.md", "SECURITY.md": "report-a-fault.md"}
"""English pages that both languages have, by their path in the repository."""

MADE = "reference/"
"""Folder of the pages that are made from the code. A page of docs/LANGUAGE links them as if they lay beside it."""

SHARED_FOLDERS = ("decisions", "measurements", "schema")
UNSEARCHED = ("decisions/", "changes.html", "source/")
"""Pages that the search leaves out, because they tell of the past: their many words hide the pages that a reader wants."""

_FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?")
_ALTERNATE = re.compile(r'<link rel="alternate" href="[^"]*" hreflang="[^"]*">\s*')
_LIST = re.compile(r"^((?!\s|[-*] |\d+\. ).+)\n((?:-|\d+\.) )", re.MULTILINE)
"""A list directly below a paragraph, which GitHub shows as one and Zensical does not."""

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n\s*", re.DOTALL)


def stage(language: str, made: dict[str, str]) -> list[str]:
    """Write the pages of a language, and those made from the code, into its folder of STAGE; return their paths, sorted."""
    folder = STAGE / language
    for page in (ROOT / "docs" / language).rglob("*.md"):
        own = page.relative_to(ROOT / "docs" / language)
        write(folder / own, relink(read_page(page), page, own, language))
    for tree in ("en", language):
        for file in (ROOT / "docs" / tree).rglob("*.*"):
            if file.suffix != ".md":
                (folder / file.relative_to(ROOT / "docs" / tree)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, folder / file.relative_to(ROOT / "docs" / tree))
    for name in SHARED_FOLDERS:
        for file in (ROOT / "docs" / name).iterdir():
            shared = Path(name, file.name)
            write(folder / shared, relink(file.read_text(encoding="utf-8"), file, shared, language))
    for name, text in made.items():
        write(folder / name, text)
    for name, path in SHARED.items():
        write(folder / path, relink(read_page(ROOT / name), ROOT / name, Path(path), language))
    return sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.md"))


def read_page(page: Path) -> str:
    """Return the text of a page without its front matter."""
    return _FRONT_MATTER.sub("", page.read_text(encoding="utf-8"))


def relink(text: str, source: Path, path: Path, language: str) -> str:
    """Return the text of the page `source` with links that hold at `path` in the folder of a language.

    Copies what it links outside of docs into the folder. Raises SystemExit if there is no such file. Links to pages made from
    the code (`reference/`) stay as they are, and Zensical checks them.
    """

    def replace(link: re.Match[str]) -> str:
        if link[2].startswith(MADE):
            return link[0]
        target = Path(os.path.normpath(source.parent / link[2]))
        if not target.is_file():
            raise SystemExit(f"{source.relative_to(ROOT)}: {link[2]} is not a file.")
        placed = place(target, language)
        # An English page that stands in for a translation knows no headings of translated pages.
        is_foreign = f"docs/{language}/" not in source.as_posix() and (ROOT / "docs" / language / placed).is_file()
        anchor = "" if is_foreign and language != "en" else link[3] or ""
        return link[1] + Path(os.path.relpath(placed, path.parent)).as_posix() + anchor

    parts = _FENCE.split(text)
    return "".join(
        part if number % 2 else _LIST.sub(r"\1\n\n\2", _LINK.sub(replace, part)) for number, part in enumerate(parts)
    )


def place(target: Path, language: str) -> Path:
    """Return the path of a file of the repository in the folder of a language; a file outside of docs is copied there."""
    name = target.relative_to(ROOT).as_posix()
    if name in SHARED:
        return Path(SHARED[name])
    parts = target.relative_to(ROOT).parts
    if parts[0] == "docs":
        return Path(*parts[2:]) if parts[1] in ("en", language) else Path(*parts[1:])
    copy = Path("source", *parts)
    if not (STAGE / language / copy).exists():
        text = target.read_text(encoding="utf-8")
        write(STAGE / language / copy, relink(text, target, copy, language) if copy.suffix == ".md" else text)
    return copy


def write(file: Path, text: str) -> None:
    """Write a text file, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def fill_navigation(entries: Iterable[Any], pages: list[str], sections: dict[str, str]) -> list[Any]:
    """Return the navigation with the pages of its folders (`decisions/*`) and the names of its sections in a language."""
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            filled += [page for page in pages if Path(page).match(entry)] if "*" in entry else [entry]
        else:
            (name, inner), *_ = entry.items()
            inner = [page for page in pages if Path(page).match(inner)] if isinstance(inner, str) else inner
            filled.append({sections.get(name, name): fill_navigation(inner, pages, sections)})
    return filled


def iterate_pages(navigation: Iterable[Any]) -> Iterable[str]:
    """Yield the pages of a navigation in its order."""
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from iterate_pages(inner)


def configure(project: dict[str, Any], languages: dict[str, Any], language: str, pages: list[str]) -> dict[str, Any]:
    """Return Zensical's settings of a language."""
    own = languages[language]
    sections = own.get("sections", {})
    theme = project["theme"] | {"language": own["language"], "custom_dir": "../../docs/theme"}
    theme["palette"] = [
        each | {"toggle": each["toggle"] | {"name": sections.get(each["toggle"]["name"], each["toggle"]["name"])}}
        for each in project["theme"]["palette"]
    ]
    alternate = [{"name": languages[each]["name"], "lang": each, "link": f"../{each}/"} for each in LANGUAGES]
    return project | {
        "docs_dir": language,
        "site_dir": f"html/{language}",
        "site_description": own.get("site_description", project["site_description"]),
        "nav": fill_navigation(project["nav"], pages, sections),
        "theme": theme,
        "extra": {"alternate": alternate, "generator": False},
    }


def build(project: dict[str, Any], languages: dict[str, Any], language: str, made: dict[str, str]) -> None:
    """Build one language into STAGE/html; raises SystemExit if a link is dead or a page is in no navigation."""
    pages = stage(language, made)
    settings = configure(project, languages, language, pages)
    shown = list(iterate_pages(settings["nav"]))
    lost = set(pages).symmetric_difference(shown) - {each for each in pages if each.startswith("source/")}
    if lost:
        raise SystemExit(f"zensical.toml and the pages differ: {', '.join(sorted(lost))}")
    file = STAGE / f"{language}.yml"
    write(
        file, json.dumps(settings, ensure_ascii=False)
    )  # JSON is YAML, and Zensical reads no other form that we can write
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(file)], check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    finish(STAGE / "html" / language)
    write_texts(language, settings, [name for entry in project["nav"] for name in entry])


def finish(folder: Path) -> None:
    """Make the pages work from a folder, where a browser fetches nothing and starts no worker from a file.

    The index (without UNSEARCHED) and the code of the search become scripts, and the switch of languages stays on its page.
    """
    index = json.loads((folder / "search.json").read_text(encoding="utf-8"))
    index["items"] = [each for each in index["items"] if not each["location"].startswith(UNSEARCHED)]
    text = json.dumps(index, ensure_ascii=False)
    write(folder / "search.json", text)
    write(folder / "search.js", f"var __index = {text};")
    (worker,) = (folder / "assets" / "javascripts" / "workers").glob("search.*.js")
    write(folder / "folder.js", _FOLDER_SEARCH % json.dumps(worker.read_text(encoding="utf-8")))
    for page in folder.rglob("*.html"):
        script = f'<script src="{os.path.relpath(folder / "folder.js", page.parent)}"></script>'
        write(page, _ALTERNATE.sub("", page.read_text(encoding="utf-8")).replace("</head>", f"{script}</head>", 1))


_FOLDER_SEARCH = """if (location.protocol === "file:") {
  const code = %s;
  const FileWorker = Worker;
  window.Worker = function () {
    return new FileWorker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  };
}
"""


LONGEST_TEXT = 250_000
"""Most characters of a text for models, some 60,000 tokens; a section of the guide that is longer has several."""


def write_texts(language: str, settings: dict[str, Any], sections: list[str]) -> None:
    """Write the pages as Markdown beside their HTML, and the texts for models.

    These are the list `llms.txt` with a sentence of each page, one or more texts `llms-SECTION-1.txt` for each section of the
    navigation (`sections` are its names), and `llms-full.txt` with all of them. Decisions and measurements are only listed.
    """
    folder = STAGE / "html" / language
    lines, whole = [f"# {settings['site_name']}", "", f"> {settings['site_description']}", ""], []
    for name, entry in zip(sections, settings["nav"], strict=True):
        texts: list[list[str]] = [[]]
        listed = []
        for page in iterate_pages([entry]):
            text = (STAGE / language / page).read_text(encoding="utf-8")
            write(folder / page, text)
            title = text.partition("\n")[0].removeprefix("# ")
            listed.append(f"- [{title}]({page}){find_sentence(text)}")
            if Path(page).parts[0] not in SHARED_FOLDERS:
                if sum(map(len, texts[-1])) + len(text) > LONGEST_TEXT - 1_000:
                    texts.append([])
                texts[-1].append(text)
        names = [f"llms-{name.lower()}-{number}.txt".replace("how-to", "howto") for number in range(1, len(texts) + 1)]
        for file, pages in zip(names, texts, strict=True):
            write(folder / file, "\n\n".join(pages))
            whole += pages
        lines += [f"## {next(iter(entry))}", "", f"{', '.join(f'[{file}]({file})' for file in names)}", "", *listed, ""]
    write(folder / "llms.txt", "\n".join(lines))
    write(folder / "llms-full.txt", "\n\n".join(whole))


def find_sentence(text: str) -> str:
    """Return the first sentence of a page as `: sentence`; an empty text if the page begins with something else."""
    paragraph = next((part for part in text.split("\n\n")[1:] if part.strip() and not part.startswith("*")), "").strip()
    if re.match(r"```|[|#>!<-]", paragraph):
        return ""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return ": " + re.split(r"(?<=[.。])(?:\s|(?<=。))|(?<=[:：])$", plain)[0]


_HOME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Jacquard</title>
<script>location.replace(/^zh/.test(navigator.language) ? "zh/index.html" : "en/index.html")</script>
<p><a href="en/index.html" lang="en">English</a> · <a href="zh/index.html" lang="zh">中文</a></p>
"""


def main() -> None:
    """Build both languages and replace the folder `site` by them."""
    configuration = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    shutil.rmtree(STAGE, ignore_errors=True)
    for language in LANGUAGES:
        build(configuration["project"], configuration["languages"], language, make_pages(language))
    html = STAGE / "html"
    write(html / "index.html", _HOME)
    for name in ("llms.txt", "llms-full.txt"):
        text = (html / "en" / name).read_text(encoding="utf-8")
        write(html / name, re.sub(r"(\]\()(?!https?:)(?=[\w-]+)", r"\1en/", text) if name == "llms.txt" else text)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(html, SITE)
    print(f"site/index.html: {sum(1 for _ in SITE.rglob('*.html'))} pages")


if __name__ == "__main__":
    main()
