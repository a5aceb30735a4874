"""Compares the Chinese pages of the guide with the English ones.

    python docs/translation.py mcp.md …        # states that docs/zh/mcp.md has all that docs/en/mcp.md has now

A Chinese page begins with front matter: `english` is the digest of the English page that it follows (headings and code blocks; a
sentence may change without it). When the English page moves ahead, the page is brought up to date and the command run again; until
the next release, `behind: VERSION` with the version in development may stand below it instead.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


def digest_page(page: Path) -> str:
    """Return the digest of the headings and code blocks of a page, 12 hexadecimal digits."""
    text = _FRONT_MATTER.sub("", page.read_text(encoding="utf-8"))
    parts = [*_FENCE.findall(text), *_HEADING.findall(_FENCE.sub("", text))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def read_front_matter(page: Path) -> dict[str, str]:
    """Return the keys and values of the front matter of a page; an empty mapping if it has none."""
    found = _FRONT_MATTER.match(page.read_text(encoding="utf-8"))
    return dict(line.split(": ", 1) for line in found[1].splitlines()) if found else {}


def list_pages(language: str) -> set[str]:
    """Return the paths of the pages of a language, relative to its folder."""
    return {page.relative_to(DOCS / language).as_posix() for page in (DOCS / language).rglob("*.md")}


def accept(name: str) -> None:
    """Write the digest of the English page into its Chinese twin."""
    page = DOCS / "zh" / name
    text = _FRONT_MATTER.sub("", page.read_text(encoding="utf-8")).lstrip("\n")
    front_matter = f"---\nenglish: {digest_page(DOCS / 'en' / name)}\n---\n\n"
    page.write_text(front_matter + text, encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        accept(each)
