"""Whatever a file holds, it gives a book or a CorpusError, and the work grows with its size alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.books.agnai import parse_agnai
from mnemosyne.formats.books.character_book import parse_character_book, read_lorebook
from mnemosyne.formats.books.fields import CARD_NAMES, EXTENSION_NAMES, FIELDS_BY_NAME, OTHER_NAMES
from mnemosyne.formats.books.keys import is_regex_key, leading_decorators, split_keys
from mnemosyne.formats.books.kobold import parse_ai_dungeon, parse_kobold
from mnemosyne.formats.books.novelai import parse_novelai
from mnemosyne.formats.books.risu import parse_risu
from mnemosyne.formats.books.world_info import parse_world_info, read_world_info
from mnemosyne.formats.books.write import character_book_json, world_info_json
from mnemosyne.formats.losses import FieldCounter

PARSERS = (
    parse_world_info,
    parse_character_book,
    parse_risu,
    parse_agnai,
    parse_novelai,
    parse_kobold,
    parse_ai_dungeon,
)
NAMES = sorted(
    {
        *FIELDS_BY_NAME,
        *OTHER_NAMES,
        *CARD_NAMES,
        *EXTENSION_NAMES,
        "uid",
        "id",
        "name",
        "original",
        "jacquard/world_info",
    }
    | {
        "entry",
        "keywords",
        "weight",
        "text",
        "displayName",
        "contextConfig",
        "category",
        "value",
        "title",
        "keyanti",
        "secondkey",
    }
    | {
        "mode",
        "useRegex",
        "extentions",
        "activationPercent",
        "insertorder",
        "worldinfo",
        "fields",
        "names",
        "isExclude",
    }
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["", "/a/", "a,b", "1", "-1", "before_char", "true", "folder", "constant", "@@depth", "a & b", "*", " * "]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
rows = st.dictionaries(st.sampled_from(NAMES), anything, max_size=8)
many = st.lists(rows | anything, max_size=4) | st.dictionaries(st.text(max_size=3), rows, max_size=4)
files = (
    anything
    | st.fixed_dictionaries(
        {"entries": many}, optional={"name": anything, "lorebookVersion": anything, "categories": anything}
    )
    | st.fixed_dictionaries({"entries": many, "kind": st.just("memory")})
    | st.fixed_dictionaries({"data": many, "type": st.just("risu")})
    | many
)


@pytest.mark.parametrize("parse", PARSERS, ids=[parse.__name__ for parse in PARSERS])
@given(value=files)
def test_any_value_gives_a_book_or_an_error(parse, value):
    try:
        book = parse(value, "b", FieldCounter())
    except CorpusError:
        return
    assert len({entry.uid for entry in book.entries}) == len(book.entries)
    json.dumps(world_info_json(book))
    json.dumps(character_book_json(book))


@given(value=files)
def test_what_was_read_is_the_same_after_writing(value):
    for parse in PARSERS:
        try:
            book = parse(value, "b", FieldCounter())
        except CorpusError:
            continue
        native = parse_world_info(world_info_json(book), book.name, FieldCounter())
        for before, after in zip(book.entries, native.entries, strict=True):
            assert (before.uid, {**after.fields, **before.fields}) == (after.uid, dict(after.fields))


@pytest.mark.parametrize("read", [read_world_info, read_lorebook])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{ broken",
        b'{"entries": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"entries": {"0": {"content": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}}}",
        b'{"entries": [{"order": 1e999, "content": "x"}]}',
        b'{"entries": [{"order": ' + b"9" * 5000 + b"}]}",
        "龙".encode("gb18030") * 20,
        b"\x89PNG\r\n\x1a\n",
    ],
    ids=[
        "empty",
        "broken",
        "deep",
        "nested",
        "infinite",
        "long number",
        "another encoding",
        "picture",
    ],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path, read, content):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(CorpusError, match=r"bad\.json"):
        read(file)


def test_half_a_character_costs_that_character_only(tmp_path):
    file = tmp_path / "mill.json"
    cut = json.dumps(
        {"entries": {"0": {"key": ["mill"], "content": "🐎"}, "1": {"key": ["weir"], "content": "otters"}}}
    )
    file.write_text(cut.replace("\\ude0e", "").replace("\\udc0e", ""), encoding="utf-8")
    read = read_world_info(file)
    assert [entry.fields["content"] for entry in read.books[0].entries] == ["\ufffd", "otters"]
    assert [(fate.field, fate.count) for fate in read.fates if "not whole" in fate.note] == [("entries.*.content", 1)]


def test_a_hundred_thousand_keys_make_a_short_report():
    unknown = {f"字段{number}": number for number in range(100_000)}
    counter = FieldCounter()
    book = parse_world_info({"entries": [{"content": "x", **unknown}], **unknown}, "b", counter)
    assert len(book.entries[0].fields) == 100_001
    assert len(book.extra) == 100_000
    fates = counter.fates()
    assert len(fates) < 500
    assert sum(fate.count for fate in fates) == 200_001


def test_ten_thousand_bad_entries_make_one_note_of_each_kind():
    counter = FieldCounter()
    rows_ = [None, 7, {}] * 10_000
    assert parse_character_book({"entries": rows_}, "b", counter).entries == ()
    assert [fate.count for fate in counter.fates()] == [10_000] * 3
    assert all(len(fate.note) < 200 for fate in counter.fates())


@pytest.mark.parametrize(
    "text",
    [
        "/" * 50_000,
        "/," * 50_000,
        "/\\," * 50_000,
        "/" + "\\/   " * 20_000,
        "/" + "\\/gg" * 20_000,
        "/a" + " " * 50_000,
        "," * 50_000,
    ],
    ids=range(7),
)
def test_keys_are_split_in_one_pass(text):
    assert all(key.strip() == key != "" for key in split_keys(text))
    assert is_regex_key(text) in (True, False)


@given(st.text("/\\,a gi龙", max_size=12))
def test_split_keys_gives_keys_that_stay_whole(text):
    found = split_keys(text)
    assert split_keys(",".join(found)) == found


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a, b ,c", ["a", "b", "c"]),
        ("/a,b/, c", ["/a,b/", "c"]),
        ("/a,b/x, c", ["/a", "b/x", "c"]),
        (r"/a\/b,c/gi,龙", [r"/a\/b,c/gi", "龙"]),
        ("/and, or/", ["/and, or/"]),
        ("", []),
        (" , ", []),
    ],
)
def test_split_keys(text, keys):
    assert split_keys(text) == keys


def test_decorators_end_with_the_first_other_line():
    assert list(leading_decorators("@@activate\n@@@depth 3\n@@\ntext\n@@role user")) == ["activate", "depth", ""]
    assert list(leading_decorators(" @@activate")) == []
    assert list(leading_decorators("@@activate")) == ["activate"]
