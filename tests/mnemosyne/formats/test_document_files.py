import pytest
from document_parts import pdf_of

from mnemosyne import MnemosyneError
from mnemosyne.formats.files.read import read_document_file

pytestmark = pytest.mark.anyio
PAGE = """<html><head><title>Hand
book</title><style>p {color: red}</style></head><body><h1>Refunds</h1><p>Paid in <b>fourteen</b> days.</p>
<script>alert("no")</script><ul><li>Heron Post &amp; Co</li><li>by ship</li></ul></body></html>"""


async def test_text_and_pages_are_read(tmp_path):
    notes, page = tmp_path / "notes.md", tmp_path / "page.html"
    notes.write_bytes("\ufeff# Notes\r\n旧港".encode())
    page.write_text(PAGE, encoding="utf-8")
    read = await read_document_file(notes)
    assert (read.text, read.title) == ("# Notes\n旧港", "notes.md")
    read = await read_document_file(page)
    assert (read.text, read.title) == ("# Refunds\n\nPaid in fourteen days.\n\nHeron Post & Co\n\nby ship", "Hand book")


async def test_a_pdf_is_read(tmp_path):
    pytest.importorskip("pypdf", reason="the extra `documents` is not installed")
    file = tmp_path / "ferry.pdf"
    file.write_text(pdf_of("The ferry leaves pier nine at dawn."), encoding="ascii")
    read = await read_document_file(file)
    assert (read.text, read.title) == ("The ferry leaves pier nine at dawn.", "ferry.pdf")
    file.write_text("%PDF-1.4 broken", encoding="ascii")
    with pytest.raises(MnemosyneError, match="not a PDF that can be read"):
        await read_document_file(file)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.exe", b"x", "are not read; there are"),
        ("a.txt", b"one\n\xff", "line 2 is not UTF-8"),
        ("a.txt", b"a\0b", "NUL"),
        ("a.txt", b"  \n", "holds no text"),
        ("a.txt", b"x" * 101, "more than 100 bytes"),
        ("a.md", b"y" * 60, "more than 50 characters"),
        ("a.html", b"<style>p {color: red}</style>", "holds no text"),
        ("a.txt", None, "no such file"),
    ],
)
async def test_a_file_that_cannot_be_taken_in_is_named(tmp_path, name, content, told):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(MnemosyneError, match=told) as caught:
        await read_document_file(file, most_bytes=100, most_chars=50)
    assert str(file) in str(caught.value)


async def test_a_page_that_would_keep_the_parser_busy_is_given_up(tmp_path):
    file = tmp_path / "busy.html"
    file.write_text("<a b=c d=e>x</a>" * 1_200_000, encoding="utf-8")
    with pytest.raises(MnemosyneError, match="longer than 1 s"):
        await read_document_file(file, most_seconds=1)
