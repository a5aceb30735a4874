"""What is written is what was read: nothing is lost, and nothing changes that nobody changed."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest
from card_files import END, NAMES, PICTURE, PIXELS, SIGNATURE, WORDS, chunk, documents, png, text, v2_card, v3_card
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.cards.card_json import parse_card, read_card_json
from mnemosyne.formats.cards.png import find_text_chunks, read_card_png
from mnemosyne.formats.cards.write import card_document, card_json_bytes, card_png_bytes
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import BookEntry, CharacterCard, DepthPrompt, WorldBook

TEXTS = (
    "name",
    "nickname",
    "description",
    "personality",
    "scenario",
    "first_message",
    "example_messages",
    "system_prompt",
    "post_history_instructions",
    "creator_notes",
)
LISTS = ("alternate_greetings", "group_only_greetings", "tags")
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        **{name: NAMES if name == "name" else WORDS for name in TEXTS},
        **{name: st.lists(WORDS.filter(bool), max_size=3).map(tuple) for name in LISTS},
        "depth_prompt": st.none()
        | st.builds(
            DepthPrompt, text=WORDS.filter(bool), depth=st.integers(0, 9), role=st.sampled_from(["system", "user"])
        ),
    },
)


def parse(document, file_name="mara"):
    return parse_card(document, file_name=file_name, counter=FieldCounter())


def read_json(folder, data):
    (folder / "mara.json").write_bytes(data)
    (card,) = read_card_json(folder / "mara.json").cards
    return card


def read_png(folder, data):
    (folder / "mara.png").write_bytes(data)
    (card,) = read_card_png(folder / "mara.png").cards
    return card


def content_of(card):
    """Return what a card says, whatever file it is in."""
    return {name: getattr(card, name) for name in (*TEXTS, *LISTS, "depth_prompt", "book")}


def as_text(document):
    """Return a document with the order of its fields and the types of its values."""
    return json.dumps(document, ensure_ascii=False)


@given(document=documents())
def test_a_card_that_was_read_is_written_as_it_was(tmp_path_factory, document):
    card = parse(document)
    assert as_text(card_document(card)) == as_text(document)
    assert read_json(tmp_path_factory.getbasetemp(), card_json_bytes(card)) == card


@given(document=documents(), changes=CHANGES)
def test_a_changed_card_is_read_as_it_was_written(tmp_path_factory, document, changes):
    card = replace(parse(document), **changes)
    before = as_text(document)
    written = card_document(card)
    assert as_text(document) == before
    again = read_json(tmp_path_factory.getbasetemp(), card_json_bytes(card))
    assert content_of(again) == content_of(card)
    assert {name: value for name, value in written.items() if name != "data"} == {
        name: value for name, value in document.items() if name != "data"
    }
    for name, value in document["data"].items():
        if name.startswith("x_") or name in ("assets", "creation_date", "character_book"):
            assert as_text(written["data"][name]) == as_text(value)
    unknown = {name: value for name, value in document["data"].get("extensions", {}).items() if name != "depth_prompt"}
    assert unknown.items() <= written["data"].get("extensions", {}).items()


@given(document=documents(), changes=CHANGES)
def test_a_png_carries_the_same_card(tmp_path_factory, document, changes):
    card = replace(parse(document), **changes)
    again = read_png(tmp_path_factory.getbasetemp(), card_png_bytes(card, picture=PICTURE))
    assert content_of(again) == content_of(card)
    assert again.picture == PICTURE
    assert as_text(again.document) == as_text(card_document(card, spec="chara_card_v3"))
    if card.spec == "chara_card_v3":
        assert as_text(again.document) == as_text(card_document(card))


@given(changes=CHANGES, name=NAMES, spec=st.sampled_from(["v1", "chara_card_v2", "chara_card_v3"]))
def test_a_card_without_a_document_is_written_whole(tmp_path_factory, changes, name, spec):
    card = CharacterCard(**({"spec": spec, "name": name, "document": {}} | changes))
    again = read_json(tmp_path_factory.getbasetemp(), card_json_bytes(card))
    assert content_of(again) == content_of(card)
    required = {
        "creator",
        "character_version",
        "extensions",
        "tags",
        "alternate_greetings",
        "creator_notes",
        "system_prompt",
    }
    assert required <= set(again.document["data"])
    assert again.spec == ("chara_card_v2" if spec == "v1" else spec)
    assert ("group_only_greetings" in again.document["data"]) >= (spec == "chara_card_v3")


def test_a_flat_card_becomes_v2_and_keeps_its_own_fields(tmp_path):
    flat = {
        "char_name": "玛拉",
        "char_persona": "守塔人。",
        "char_greeting": "你迟到了。",
        "talkativeness": 0.3,
        "tool_version": {"a": 1},
        "creator": "me",
    }
    card = parse(flat)
    document = card_document(card)
    assert (document["spec"], document["spec_version"]) == ("chara_card_v2", "2.0")
    assert flat.items() <= document.items()
    assert document["data"]["name"] == "玛拉"
    assert document["data"]["creator"] == "me"
    assert document["data"]["extensions"] == {"talkativeness": 0.3}
    assert document["data"]["mes_example"] == ""
    again = read_json(tmp_path, card_json_bytes(card))
    assert (again.spec, content_of(again)) == ("chara_card_v2", content_of(card))
    assert card_document(again) == document


def test_a_text_that_a_card_repeats_is_changed_in_both_places():
    document = {"name": "Mara", "first_mes": "You are late, {{user}}.", "tags": ["sea", "灯塔"], **v2_card()}
    changed = card_document(replace(parse(document), first_message="Come in.", tags=("sea",)))
    assert (changed["first_mes"], changed["data"]["first_mes"]) == ("Come in.", "Come in.")
    assert (changed["tags"], changed["data"]["tags"]) == (["sea"], ["sea"])
    flat = card_document(replace(parse({"char_name": "Mara", "char_greeting": "Late."}), first_message="Come in."))
    assert (flat["char_greeting"], flat["data"]["first_mes"]) == ("Come in.", "Come in.")


def test_a_name_that_came_from_the_file_is_written():
    card = parse(v2_card(name=""), "守塔人")
    assert card_document(card) == v2_card(name="守塔人")


def test_the_note_is_changed_beside_what_else_the_extensions_say():
    extensions = {"depth_prompt": {"prompt": "Fog.", "depth": 2, "role": "user", "x": 1}, "my_tool": [1]}
    card = parse(v2_card(extensions=extensions))
    changed = card_document(replace(card, depth_prompt=DepthPrompt(text="Rain.", depth=1)))
    assert changed["data"]["extensions"] == {
        "depth_prompt": {"prompt": "Rain.", "depth": 1, "role": "system", "x": 1},
        "my_tool": [1],
    }
    assert card_document(replace(card, depth_prompt=None))["data"]["extensions"] == {"my_tool": [1]}


def test_decorators_leave_a_v3_card_that_is_written_as_v2():
    content = "@@depth 4\n@@@role user\n@@activate\nThe lamp is red.\n@@not at the top"
    card = parse(v3_card(character_book={"entries": [{"keys": ["lamp"], "content": content}, {"content": 4}, None]}))
    entry = card_document(card, spec="chara_card_v2")["data"]["character_book"]["entries"][0]
    assert entry["content"] == "The lamp is red.\n@@not at the top"
    assert card_document(card)["data"]["character_book"]["entries"][0]["content"] == content
    found = find_text_chunks(card_png_bytes(card))
    assert json.loads(found["chara"])["data"]["character_book"]["entries"][0]["content"] == entry["content"]
    assert json.loads(found["ccv3"])["data"]["character_book"]["entries"][0]["content"] == content


def test_a_v2_card_that_has_decorators_keeps_them():
    card = parse(v2_card(character_book={"entries": [{"keys": ["lamp"], "content": "@@activate\nRed."}]}))
    assert json.loads(find_text_chunks(card_png_bytes(card))["chara"]) == card.document


def test_a_v2_card_that_is_written_as_v3_has_what_v3_asks_for():
    card = parse(
        v2_card(character_book={"entries": [{"keys": ["lamp"], "content": "Red.", "use_regex": True}, {"keys": []}]})
    )
    document = card_document(card, spec="chara_card_v3")
    assert (document["spec"], document["spec_version"]) == ("chara_card_v3", "3.0")
    assert document["data"]["group_only_greetings"] == []
    assert [entry["use_regex"] for entry in document["data"]["character_book"]["entries"]] == [True, False]


def test_a_book_that_is_given_takes_the_place_of_the_card_s():
    book = WorldBook(
        name="Coast", dialect="native", entries=(BookEntry(uid="0", fields={"key": ["灯"], "content": "红。"}),)
    )
    card = parse(v2_card(character_book={"name": "Old", "entries": []}))
    assert card_document(card)["data"]["character_book"]["name"] == "Old"
    assert card_document(replace(card, book=book))["data"]["character_book"]["name"] == "Old"
    written = card_document(card, book)["data"]["character_book"]
    assert (written["name"], written["entries"][0]["content"]) == ("Coast", "红。")
    without = replace(parse(v2_card()), book=book)
    assert card_document(without)["data"]["character_book"] == written
    found = find_text_chunks(card_png_bytes(card, book))
    assert all(json.loads(found[keyword])["data"]["character_book"]["name"] == "Coast" for keyword in ("chara", "ccv3"))


def test_a_png_has_both_cards_before_its_end_and_only_once():
    card = parse(v2_card())
    once = card_png_bytes(card, picture=PICTURE)
    assert once.startswith(SIGNATURE + PIXELS)
    assert once.endswith(END)
    assert once.index(b"tEXtchara\0") < once.index(b"tEXtccv3\0") < once.index(b"IEND")
    assert card_png_bytes(card, picture=once) == once
    assert b'"first_mes":' in base64.b64decode(once.split(b"tEXtchara\0")[1].split(b"\0")[0][:400])


def test_the_picture_of_a_card_is_used_unless_another_is_given(tmp_path):
    card = read_png(tmp_path, png(chunk(b"tEXt", b"Title\0x"), text("chara", v2_card())))
    assert read_png(tmp_path, card_png_bytes(card)).picture == png(chunk(b"tEXt", b"Title\0x"))
    assert read_png(tmp_path, card_png_bytes(card, picture=PICTURE)).picture == PICTURE


def test_a_card_without_a_picture_gets_a_plain_one(tmp_path):
    data = card_png_bytes(parse(v2_card()))
    picture = read_png(tmp_path, data).picture
    width, height = (int.from_bytes(picture[place : place + 4], "big") for place in (16, 20))
    body = picture.split(b"IDAT")[1]
    assert len(zlib.decompressobj().decompress(body)) == height * (width + 1)
    assert len(picture) < 1000


def test_a_picture_in_pieces_is_made_whole(tmp_path):
    data = card_png_bytes(parse(v2_card()), picture=SIGNATURE + PIXELS + b"\0\0\0\xffIDA")
    assert read_png(tmp_path, data).picture == PICTURE


@pytest.mark.parametrize("picture", [b"\xff\xd8\xff\xe0", b"GIF89a"])
def test_a_picture_that_is_no_png_is_refused(picture):
    with pytest.raises(CorpusError, match="is not a PNG"):
        card_png_bytes(parse(v2_card()), picture=picture)


def test_what_json_cannot_say_is_refused():
    with pytest.raises(CorpusError, match=r"data\.first_mes holds half a surrogate pair"):
        card_json_bytes(replace(parse(v2_card()), first_message="\ud83d"))
    with pytest.raises(ValueError, match="not as 'chara_card_v9'"):
        card_document(parse(v2_card()), spec="chara_card_v9")
