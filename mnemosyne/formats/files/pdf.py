"""Extracts the text of a PDF with pypdf (extra `documents`). No other module imports pypdf.

The module `parse` runs this in a separate process.
"""

from __future__ import annotations

from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from mnemosyne.core.errors import DocumentFileError

MOST_PAGES = 5_000


def pdf_to_text(data: bytes, name: str, most_chars: int) -> tuple[str, str]:
    """Return (text, title) of a PDF. Blank lines separate its pages. The title is empty if the PDF has none.

    Raises DocumentFileError if the file is damaged, encrypted or without text, or has too many pages or characters.
    `name` is the name of the file in the error.
    """
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentFileError(name, "it is encrypted; save it without a password")
        if len(reader.pages) > MOST_PAGES:
            raise DocumentFileError(name, f"it has more than {MOST_PAGES:,} pages; split it")
        pages, chars = list[str](), 0
        for page in reader.pages:
            pages.append((page.extract_text() or "").strip())
            chars += len(pages[-1])
            if chars > most_chars:
                raise DocumentFileError(name, f"it has more than {most_chars:,} characters of text; split it")
        title = str(reader.metadata.title or "") if reader.metadata is not None else ""
    except DocumentFileError:
        raise
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        # What pypdf raises for a damaged file depends on where the damage is.
        raise DocumentFileError(name, f"it is not a PDF that can be read ({type(error).__name__}: {error})") from error
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise DocumentFileError(name, "it holds no text, only pictures; put its text in (OCR) and save it again")
    return text, " ".join(title.split())
