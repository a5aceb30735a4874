"""Parses one page or PDF from standard input and writes JSON to standard output: `python -m mnemosyne.formats.files.parse
END MOST_CHARS SECONDS`.

The module runs in a process of its own, with limits of processor time and memory, because a hostile page can keep the HTML
parser busy for a long time. The text of a page has its headings as Markdown. Scripts, styles and markup are left out.
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec

from mnemosyne.core.errors import DocumentFileError

_LEFT_OUT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "head", "nav", "footer"})
_BLOCK_TAGS = (
    "address article aside blockquote br dd div dl dt fieldset figcaption figure form h1 h2 h3 h4 h5 h6 header hr li main ol p "
    "pre section table tbody tfoot thead tr ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLANKS = re.compile(r"[ \t\r\f\v]*\n[ \t\r\f\v\n]*")


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self._hidden = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self.title
        self._hidden += tag in _LEFT_OUT
        if tag in _BLOCKS:
            self.parts.append("\n\n" if tag in ("p", *_HEADINGS) else "\n")
            self.parts.append(f"{_HEADINGS[tag]} " if tag in _HEADINGS else "")
        elif tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"
        self._hidden = max(self._hidden - (tag in _LEFT_OUT), 0)
        if tag in _BLOCKS:
            self.parts.append("\n\n" if tag in ("p", *_HEADINGS) else "\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._hidden:
            self.parts.append(" ".join(re.split(r"\s+", data)))


def html_to_text(page: str) -> tuple[str, str]:
    """Return (text, title) of an HTML page. Headings in the text begin with `#`. The title is empty if the page has none."""
    parser = _TextParser()
    parser.feed(page)
    parser.close()
    text = _BLANKS.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", "".join(parser.parts)).strip()
    return text, " ".join(parser.title.split())


MOST_MEMORY_BYTES = 2_000_000_000
PDF = ".pdf"


def limit_process(seconds: int) -> None:
    """Limit this process to `seconds` seconds of processor time and to MOST_MEMORY_BYTES of memory. Do nothing on Windows."""
    if find_spec("resource") is None:
        return
    resource = import_module("resource")
    for kind, most in ((resource.RLIMIT_AS, MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, seconds)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def parse(data: bytes, end: str, most_chars: int) -> dict[str, str]:
    """Return {"text": …, "title": …} for the page or PDF with the content `data`. `end`, the ending of its file name, decides
    between PDF and HTML.

    If `data` cannot be read, return {"fault": a clause with the reason}.
    """
    try:
        if end == PDF:
            text, title = import_module("mnemosyne.formats.files.pdf").pdf_to_text(data, "", most_chars)
        else:
            text, title = html_to_text(data.decode("utf-8-sig"))
    except DocumentFileError as error:
        return {"fault": error.reason}
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return {"fault": f"line {line} is not UTF-8 text; save it as UTF-8"}
    except (MemoryError, RecursionError):
        return {"fault": "reading it needs too much memory; split it"}
    return {"text": text[: most_chars + 1], "title": title}


def main() -> None:
    """Read the file from standard input, parse it, and write the result to standard output."""
    end, most_chars, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit_process(seconds)
    # Surrogates, which a PDF may hold, have no UTF-8 form; JSON escapes them.
    sys.stdout.write(json.dumps(parse(sys.stdin.buffer.read(), end, most_chars)))


if __name__ == "__main__":
    main()
