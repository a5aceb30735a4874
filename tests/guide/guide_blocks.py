"""Reads the code blocks of the guide: their languages, and the commands in them with the lines that are shown below each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "tutorials" not in page.parts),
]
"""All pages with code, except the tutorials, which are lived from an empty folder by tests of their own."""

_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_PROGRAMS = ("jacquard", "pip", "python", "python3", "py", "source", "&")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Code block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Return where the block begins, as `docs/en/page.md:12`."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Command that a page shows, without its remark, and the lines below it."""

    block: Block
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the command as one line."""
        return shlex.join(self.words)


def read_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page=page, line=text.count("\n", 0, found.start()) + 1, language=found[1], text=found[2])
        for found in _FENCE.finditer(text)
    ]


def is_console(block: Block) -> bool:
    """Return whether a block shows commands: a console, or a text in which every line is one."""
    if block.language == "console":
        return True
    lines = block.text.strip().splitlines()
    return block.language == "text" and all(line.split(" ")[0] in _PROGRAMS for line in lines)


def read_commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page, in its order."""
    for block in read_blocks(page):
        if is_console(block):
            text = block.text if block.language == "console" else re.sub(r"^", "$ ", block.text.strip(), flags=re.M)
            prompt = r"^\$ " if re.search(r"^\$ ", text, re.MULTILINE) else r"^# "  # that of an administrator
            for part in re.split(prompt, text, flags=re.MULTILINE)[1:]:
                line, *shown = part.replace("\\\n", " ").rstrip("\n").split("\n")
                if re.match(r"[A-Z_]+=\$\(", line):
                    yield Command(block=block, words=("sh", line), variables=(), shown=())
                    continue
                words = shlex.split(line.replace("\\", "\\\\"), comments=True)
                variables = []
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    name, _, value = words.pop(0).partition("=")
                    variables.append((name, value))
                yield Command(block=block, words=tuple(words), variables=tuple(variables), shown=tuple(shown))
