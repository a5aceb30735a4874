"""Parses one page or PDF from standard input and writes JSON to standard output: `python -m mnemosyne.formats.files.parse END
MOST_CHARS SECONDS`. A program of its own, so that its processor time and its memory have limits that end it.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec

from mnemosyne.core.errors import DocumentFileError
from mnemosyne.formats.files.html_text import html_to_text

MOST_MEMORY_BYTES = 2_000_000_000
PDF = ".pdf"


def limit_process(seconds: int) -> None:
    """End this process when it has used so many seconds of processor time; limit its memory. Windows has no such limits."""
    if find_spec("resource") is None:
        return
    resource = import_module("resource")
    for kind, most in ((resource.RLIMIT_AS, MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, seconds)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def parse(data: bytes, end: str, most_chars: int) -> dict[str, str]:
    """Return `text` and `title` of a page or a PDF, or `fault`, a clause that says why there are none."""
    try:
        if end == PDF:
            text, title = import_module("mnemosyne.formats.files.pdf").pdf_to_text(data, "", most_chars)
        else:
            text, title = html_to_text(data.decode("utf-8-sig"))
    except DocumentFileError as error:
        return {"fault": error.reason}
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return {"fault": f"line {line} is no UTF-8 text; save it as UTF-8"}
    except (MemoryError, RecursionError):
        return {"fault": "reading it needs too much memory; split it"}
    return {"text": text[: most_chars + 1], "title": title}


def main() -> None:
    """Read, parse and write."""
    end, most_chars, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit_process(seconds)
    # Surrogates, which a PDF may hold, have no UTF-8 form; JSON escapes them.
    sys.stdout.write(json.dumps(parse(sys.stdin.buffer.read(), end, most_chars)))


if __name__ == "__main__":
    main()
