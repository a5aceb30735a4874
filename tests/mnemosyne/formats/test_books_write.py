"""Books go out as they came in: what is written and read again has the same entries."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.formats.books.character_book import parse_character_book
from mnemosyne.formats.books.fields import CARD_NAMES, DEFAULTS, EXTENSION_NAMES, FIELDS_BY_NAME, OTHER_NAMES
from mnemosyne.formats.books.world_info import parse_world_info
from mnemosyne.formats.books.write import character_book_json, world_info_json
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import BookEntry, WorldBook

TAKEN = {*FIELDS_BY_NAME, *OTHER_NAMES, *CARD_NAMES, *EXTENSION_NAMES, "uid", "id", "extensions", "original", "entries"}
HELD = {"name", "priority", "case_sensitive", "use_regex", "position"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["龙住在山里。", "{{char}} 🐉", "a, b", " "]
)
keys = st.lists(texts | st.sampled_from(["/dr(a|o)g{1,2}, on/gi", "/", "//", "@@", "", "**", "龙", "1"]), max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
flags = st.booleans()
counts = st.integers(0, 10_000)
NATIVE = {
    "key": keys,
    "keysecondary": keys,
    "comment": texts,
    "content": texts,
    "constant": flags,
    "vectorized": flags,
    "selective": flags,
    "selectiveLogic": st.integers(0, 3),
    "addMemo": flags,
    "order": st.integers(-10_000, 10_000) | st.floats(-100, 100).filter(lambda number: not number.is_integer()),
    "position": st.integers(0, 7),
    "disable": flags,
    "ignoreBudget": flags,
    "excludeRecursion": flags,
    "preventRecursion": flags,
    "matchPersonaDescription": flags,
    "matchCharacterDescription": flags,
    "matchCharacterPersonality": flags,
    "matchCharacterDepthPrompt": flags,
    "matchScenario": flags,
    "matchCreatorNotes": flags,
    "delayUntilRecursion": counts,
    "probability": st.integers(0, 100),
    "useProbability": flags,
    "depth": counts,
    "outletName": texts,
    "group": texts,
    "groupOverride": flags,
    "groupWeight": counts,
    "scanDepth": st.none() | counts,
    "caseSensitive": st.none() | flags,
    "matchWholeWords": st.none() | flags,
    "useGroupScoring": st.none() | flags,
    "automationId": texts,
    "role": st.integers(0, 2),
    "sticky": st.none() | counts,
    "cooldown": st.none() | counts,
    "delay": st.none() | counts,
    "triggers": st.lists(texts, max_size=2),
    "characterFilter": st.fixed_dictionaries(
        {}, optional={"names": st.lists(texts, max_size=2), "tags": st.lists(texts, max_size=2), "isExclude": flags}
    ),
    "displayIndex": counts,
}
unknown_names = texts.filter(lambda name: name not in TAKEN)
unknown = st.dictionaries(unknown_names, values, max_size=3)
originals = st.dictionaries(
    unknown_names.filter(lambda name: name not in HELD) | st.sampled_from(sorted(TAKEN)), values, max_size=3
)


@st.composite
def entries(draw):
    """Draw the fields of an entry as readers give them: some native ones, and others of every kind."""
    names = draw(st.sets(st.sampled_from(sorted(NATIVE))))
    fields = {name: draw(NATIVE[name]) for name in sorted(names)}
    if not any(key.strip() for key in fields.get("key", [])) and not fields.get("content", "").strip():
        fields["content"] = "A well. 井。"
    for name, kind in (("extensions", unknown), ("original", originals)):
        if draw(flags) and (drawn := draw(kind)):
            fields[name] = drawn
    return fields | draw(unknown.map(lambda drawn: {name: each for name, each in drawn.items() if name not in HELD}))


uids = st.integers(-5, 10**15).map(str) | st.sampled_from(["01", "五", "a-b", "1.5", "+1", "-0"])
books = st.builds(
    lambda rows, name, extra: WorldBook(
        name=name,
        dialect="world_info",
        entries=tuple(BookEntry(uid=uid, fields=fields) for uid, fields in rows.items()),
        extra=extra,
    ),
    st.dictionaries(uids, entries(), max_size=3),
    texts.filter(str.strip),
    st.dictionaries(texts.filter(lambda name: name not in ("entries", "name", "extensions")), values, max_size=3),
)


def meaning(book):
    """Return the entries of a book with what SillyTavern takes for the fields that they leave out."""
    return [(entry.uid, {**DEFAULTS, **entry.fields}) for entry in book.entries]


@given(books)
def test_world_info_gives_the_same_entries(book):
    written = json.loads(json.dumps(world_info_json(book)))
    read = parse_world_info(written, book.name, FieldCounter())
    assert [(entry.uid, dict(entry.fields)) for entry in read.entries] == [
        (entry.uid, {**DEFAULTS, "addMemo": bool(entry.fields.get("comment")), "displayIndex": index, **entry.fields})
        for index, entry in enumerate(book.entries)
    ]
    assert read.extra == book.extra
    again = parse_world_info(json.loads(json.dumps(world_info_json(read))), book.name, FieldCounter())
    assert again == read


@given(books)
def test_the_book_of_a_card_gives_the_same_entries(book):
    written = json.loads(json.dumps(character_book_json(book)))
    read = parse_character_book(written, "another name", FieldCounter())
    assert meaning(read) == meaning(book)
    assert read.name == book.name
    assert {name: each for name, each in read.extra.items() if name != "extensions"} == book.extra
    again = parse_character_book(json.loads(json.dumps(character_book_json(read))), "another name", FieldCounter())
    assert again == read


def test_a_native_file_has_every_default():
    book = WorldBook(name="b", dialect="risu", entries=(BookEntry(uid="u-1", fields={"content": "x", "comment": "c"}),))
    [written] = world_info_json(book)["entries"].values()
    assert set(DEFAULTS) <= set(written)
    assert (written["uid"], written["displayIndex"], written["addMemo"]) == ("u-1", 0, True)
    assert written["key"] is not DEFAULTS["key"]


@pytest.mark.parametrize(
    ("uid", "written"), [("7", 7), ("-3", -3), ("07", "07"), ("1" * 20, "1" * 20), ("五", "五"), ("٣", "٣")]
)
def test_a_uid_is_a_number_where_it_is_written_as_one(uid, written):
    book = WorldBook(name="b", dialect="world_info", entries=(BookEntry(uid=uid, fields={"content": "x"}),))
    assert world_info_json(book)["entries"][uid]["uid"] == written
    assert character_book_json(book)["entries"][0]["id"] == written


def test_keys_decide_on_use_regex_where_the_card_did_not():
    fields = [{"key": ["a"]}, {"key": ["a", "/b/i"]}, {"key": ["a"], "original": {"use_regex": True}}]
    entries_ = tuple(BookEntry(uid=str(index), fields=each) for index, each in enumerate(fields))
    written = character_book_json(WorldBook(name="b", dialect="character_book", entries=entries_))
    assert [entry["use_regex"] for entry in written["entries"]] == [False, True, True]
    read = parse_character_book(written, "b", FieldCounter())
    assert [entry.fields.get("original") for entry in read.entries] == [None, None, {"use_regex": True}]


@pytest.mark.parametrize(
    ("fields", "word", "extensions"),
    [
        ({"position": 0}, "before_char", {}),
        ({"position": 1}, "after_char", {}),
        ({}, "before_char", {}),
        ({"position": 4}, "after_char", {"position": 4}),
        ({"position": 1, "depth": 2}, "after_char", {"position": 1, "depth": 2}),
    ],
)
def test_a_position_is_a_number_where_a_word_does_not_say_it(fields, word, extensions):
    book = WorldBook(name="b", dialect="world_info", entries=(BookEntry(uid="0", fields={"content": "x", **fields}),))
    [written] = character_book_json(book)["entries"]
    assert (written["position"], written["extensions"]) == (word, extensions)
