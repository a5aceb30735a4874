"""Worlds that are made of cards and books: any of them gives a pack that loads, and the books come out again as they went in."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne.formats.cards.card_json import parse_card
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.worlds.lore import books_of, list_lore
from mnemosyne.formats.worlds.pack import (
    ImportedWorld,
    imported_world_of,
    join_imports,
    names_for,
    pack_files,
)
from mnemosyne.schema.imported_files import BookEntry, WorldBook
from mnemosyne.world import load_world_files

TEXT = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            " ",
            "{{char}} of {{user}}",
            "灯塔",
            "a: b # c",
            "---",
            "\r\n x \r\n",
            "\x00",
            "\x85\u2028",
            "'\"",
            "a" * 300,
        ]
    ),
)
FIELDS = st.fixed_dictionaries(
    {"content": TEXT},
    optional={
        "key": st.lists(TEXT, max_size=4),
        "comment": TEXT,
        "constant": st.booleans(),
        "disable": st.booleans(),
        "order": st.integers(-5, 2000),
        "position": st.integers(0, 7),
        "characterFilter": st.fixed_dictionaries({"names": st.lists(TEXT, max_size=2), "isExclude": st.booleans()}),
        "own": st.recursive(
            TEXT | st.integers(0, 9) | st.none(), lambda part: st.lists(part, max_size=2), max_leaves=3
        ),
    },
)
BOOKS = st.builds(
    lambda name, fields: WorldBook(
        name=name,
        dialect="sillytavern",
        entries=tuple(BookEntry(uid=str(number), fields=each) for number, each in enumerate(fields)),
        extra={"own": name},
    ),
    st.text("ab 书/", min_size=1, max_size=6),
    st.lists(FIELDS, max_size=5),
)
CARDS = st.builds(
    lambda data: parse_card({"spec": "chara_card_v2", "data": data}, file_name="file", counter=FieldCounter()),
    st.fixed_dictionaries(
        {"name": TEXT.map("n{}".format)},
        optional={
            "description": TEXT,
            "first_mes": TEXT,
            "mes_example": TEXT,
            "system_prompt": TEXT,
            "post_history_instructions": TEXT,
            "tags": st.lists(TEXT, max_size=2),
            "alternate_greetings": st.lists(TEXT, max_size=2),
        },
    ),
)


@given(st.lists(CARDS, max_size=2), st.lists(BOOKS, max_size=2), TEXT)
@settings(deadline=None)
def test_any_cards_and_books_make_a_world(cards, books, user):
    made = join_imports(ImportedWorld(world_id="w", user_name=user), cards, books)
    files = pack_files(made)
    world = load_world_files(files)
    again = imported_world_of(world)
    assert pack_files(again) == files
    assert {card.name for card in again.cards} == {card.name for card in made.cards}
    assert json.loads(files["imported.json"])["version"] == 1


@given(BOOKS)
@settings(deadline=None)
def test_a_book_comes_out_as_it_went_in(book):
    made = join_imports(ImportedWorld(world_id="w", user_name="Tom"), (), (book,))
    (found,) = books_of(load_world_files(pack_files(made))) or (book,)
    assert [(entry.uid, dict(entry.fields)) for entry in found.entries] == [
        (entry.uid, dict(entry.fields)) for entry in book.entries
    ]
    assert found.extra == book.extra


def test_what_an_author_changed_is_in_the_book():
    entry = BookEntry(
        uid="1", fields={"content": "{{user}} is here.", "key": ["/x/i", "boat"], "comment": "Boat", "own": 1}
    )
    made = join_imports(
        ImportedWorld(world_id="w", user_name="Tom"),
        (),
        (WorldBook(name="B", dialect="sillytavern", entries=(entry,)),),
    )
    files = pack_files(made)
    name = next(name for name in files if name.startswith("lore/"))
    text = files[name].decode()
    assert "Tom is here." in text
    edited = text.replace("Tom is here.", "Tom was here.").replace("enabled: true", "enabled: false")
    (book,) = books_of(load_world_files({**files, name: edited.encode()}))
    assert dict(book.entries[0].fields) == {
        "content": "Tom was here.",
        "key": ["/x/i", "boat"],
        "comment": "Boat",
        "own": 1,
        "disable": True,
    }


def test_a_constant_entry_is_an_axiom_or_a_directive():
    entries = (
        BookEntry(uid="1", fields={"content": "a", "constant": True}),
        BookEntry(uid="2", fields={"content": "b", "constant": True, "position": 4}),
        BookEntry(uid="3", fields={"content": "c", "key": ["k"]}),
    )
    book = WorldBook(name="B", dialect="sillytavern", entries=entries)
    lore = list(list_lore(book, names_for(ImportedWorld(world_id="w"))))
    assert [each["category"] for each in lore] == ["axiom", "directive", "encyclopedia"]


def test_the_instruction_is_that_of_one_card_or_has_those_of_all():
    def world_of(*prompts: str) -> str:
        cards = [
            parse_card(
                {"spec": "chara_card_v2", "data": {"name": name, "system_prompt": prompt}},
                file_name=name,
                counter=FieldCounter(),
            )
            for name, prompt in zip(("Mira", "Joss"), prompts, strict=False)
        ]
        made = join_imports(ImportedWorld(world_id="w", user_name="Tom", locale="en"), cards, ())
        return load_world_files(pack_files(made)).instruction

    usual = world_of("")
    assert usual.startswith("You play Mira in a story with Tom.")
    assert world_of("Be {{char}}.") == "Be Mira."
    assert world_of("{{original}} Be short.") == f"{usual} Be short."
    assert (
        world_of("{{original}} Be kind.", "{{char}} lies.")
        == f"{usual.replace('Mira', 'Mira, Joss')}\nBe kind.\nJoss lies."
    )
