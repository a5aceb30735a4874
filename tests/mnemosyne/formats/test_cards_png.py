"""Cards in the text chunks of PNG files, whole and damaged."""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import suppress

import pytest
from card_files import END, PICTURE, PIXELS, SIGNATURE, chunk, fate_of, png, text, v2_card, v3_card
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.cards.png import find_text_chunks, read_card_png


def read(tmp_path, data):
    path = tmp_path / "mara.png"
    path.write_bytes(data)
    return read_card_png(path)


def packed(value):
    return base64.b64encode(json.dumps(value).encode())


def test_the_card_of_a_chara_chunk(tmp_path):
    file = read(tmp_path, png(text("chara", v2_card())))
    (card,) = file.cards
    assert (file.format, card.spec, card.name, card.file_name) == (
        "card-png",
        "chara_card_v2",
        "Mara",
        "mara",
    )
    assert card.picture == PICTURE
    assert file.notes == ()


@pytest.mark.parametrize("keywords", [("ccv3", "chara"), ("chara", "ccv3"), ("CHARA", "CCv3")])
def test_ccv3_comes_first_wherever_it_is(tmp_path, keywords):
    cards = {"ccv3": v3_card(name="Three"), "chara": v2_card(name="Two")}
    file = read(tmp_path, png(*(text(keyword, cards[keyword.lower()]) for keyword in keywords)))
    assert file.cards[0].name == "Three"
    assert file.cards[0].picture == PICTURE
    assert file.notes == ("The card in 'chara' has other texts than the one in 'ccv3', which was taken.",)


def test_two_versions_of_one_card_are_no_difference(tmp_path):
    file = read(tmp_path, png(text("chara", v2_card()), text("ccv3", v3_card(nickname="M"))))
    assert (file.cards[0].nickname, file.notes) == ("M", ())


def test_of_two_chunks_with_one_keyword_the_first_is_taken(tmp_path):
    file = read(tmp_path, png(text("chara", v2_card(name="First")), text("chara", v2_card(name="Second"))))
    assert file.cards[0].name == "First"
    assert file.cards[0].picture == PICTURE


@pytest.mark.parametrize(
    "body",
    [
        b"zTXt" + b"chara\0\0" + zlib.compress(packed(v2_card())),
        b"iTXt" + b"chara\0\0\0en\0translated\0" + packed(v2_card()),
        b"iTXt" + b"Chara\0\1\0\0\0" + zlib.compress(packed(v2_card())),
        b"tEXt" + b"chara\0" + json.dumps(v2_card()).encode(),
        b"tEXt" + b"chara\0" + packed(v2_card()).rstrip(b"="),
        b"tEXt" + b"chara\0" + b"\n".join(packed(v2_card())[i : i + 76] for i in range(0, 2000, 76)),
    ],
    ids=["zTXt", "iTXt", "iTXt packed", "no base64", "no padding", "lines"],
)
def test_other_ways_of_writing_the_text(tmp_path, body):
    file = read(tmp_path, png(chunk(body[:4], body[4:])))
    assert file.cards[0].document == v2_card()


def test_an_apng_is_a_png(tmp_path):
    animated = png(chunk(b"acTL", bytes(8)), text("ccv3", v3_card()), chunk(b"fcTL", bytes(26)))
    (card,) = read(tmp_path, animated).cards
    assert card.picture == png(chunk(b"acTL", bytes(8)), chunk(b"fcTL", bytes(26)))


def test_other_texts_stay_in_the_picture(tmp_path):
    title = chunk(b"tEXt", b"Title\0Lighthouse")
    (card,) = read(tmp_path, png(title, text("chara", v2_card()))).cards
    assert card.picture == png(title)


def test_a_damaged_card_is_replaced_by_the_other(tmp_path):
    file = read(tmp_path, png(text("ccv3", b"%%%"), text("chara", v2_card())))
    assert file.cards[0].name == "Mara"
    assert file.notes[0].startswith("A card of the file cannot be read, and the other was taken: chunk 'ccv3'")


def test_text_that_is_no_base64_says_what_to_do(tmp_path):
    with pytest.raises(CorpusError, match=r"mara\.png: chunk 'chara': is not base64 text.*ask for the original file"):
        read(tmp_path, png(text("chara", b"%%%")))


def test_the_fates_are_those_of_the_card_that_was_taken(tmp_path):
    broken = {"spec": "chara_card_v3", "data": {"x_odd": 1}}
    file = read(tmp_path, png(text("ccv3", broken), text("chara", v2_card())))
    assert fate_of(file, "data.x_odd") == []


def test_a_second_card_that_is_damaged_is_said(tmp_path):
    file = read(tmp_path, png(text("ccv3", v3_card()), text("chara", b"%%%")))
    assert file.notes[0].startswith("Another card of the file cannot be read: chunk 'chara'")


def test_a_wrong_checksum_is_tolerated_and_said(tmp_path):
    file = read(tmp_path, png(text("chara", v2_card(), checksum=1)))
    assert file.cards[0].name == "Mara"
    assert file.notes[0].startswith("The checksum of the chunk 'chara' does not fit")


def test_a_missing_end_is_tolerated_and_said(tmp_path):
    file = read(tmp_path, png(text("chara", v2_card()), end=b""))
    assert file.cards[0].picture == PICTURE
    assert file.notes[0].startswith("The PNG is cut off or damaged at byte")


def test_a_card_after_the_end_is_read_and_said(tmp_path):
    file = read(tmp_path, PICTURE + text("chara", v2_card()))
    assert file.cards[0].picture == PICTURE
    assert file.notes[0].startswith("The chunk 'chara' comes after the end of the picture")


@pytest.mark.parametrize(
    "tail", [b"\x3f\xff\xff\xff" + b"IDATxx", b"\xff\xff\xff\xff" + b"tEXtchara\0", b"\0\0\0\1\xff\xff\xff\xff12345"]
)
def test_a_chunk_that_claims_more_than_there_is_ends_the_file(tmp_path, tail):
    file = read(tmp_path, png(text("chara", v2_card()), end=tail))
    assert file.cards[0].picture == PICTURE
    assert file.notes[0].startswith("The PNG is cut off or damaged at byte")
    with pytest.raises(CorpusError, match=r"holds no character card.*cut off or damaged at byte"):
        read(tmp_path, png(end=tail + text("chara", v2_card())))


def test_an_encrypted_card_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        CorpusError, match=r"mara\.png: chunk 'ccv3': is a card that Risu has encrypted.*export it from Risu"
    ):
        read(tmp_path, png(text("ccv3", b"rcc||rccv1||QUJD||00||e30=")))


def test_an_encrypted_card_beside_an_open_one(tmp_path):
    file = read(tmp_path, png(text("ccv3", b"rcc||rccv1||QUJD||00||e30="), text("chara", v2_card())))
    assert file.cards[0].name == "Mara"


def test_a_novelai_lorebook_is_found_and_is_no_card(tmp_path):
    book = {"lorebookVersion": 5, "entries": []}
    data = png(text("naidata", book))
    assert json.loads(find_text_chunks(data)["naidata"]) == book
    with pytest.raises(CorpusError, match="holds a lorebook of NovelAI and no character card"):
        read(tmp_path, data)


def test_what_else_programs_put_into_a_picture_is_counted(tmp_path):
    assets = [text(f"chara-ext-asset_:{number}", b"AAAA") for number in range(3)]
    file = read(tmp_path, png(text("naidata", {}), *assets, text("chara", v2_card())))
    assert fate_of(file, "chara-ext-asset_*")[0][:2] == ("not supported", 3)
    assert fate_of(file, "naidata")[0][:2] == ("not supported", 1)
    assert file.cards[0].picture == png(text("naidata", {}), *assets)


def test_the_texts_of_a_picture_by_keyword():
    data = png(text("CHARA", v2_card()), text("Comment", b"hello"), text("naidata", b"no base64!"))
    found = find_text_chunks(data)
    assert json.loads(found["chara"]) == v2_card()
    assert (set(found), found["naidata"]) == ({"chara", "naidata"}, b"no base64!")


def test_a_text_that_unpacks_without_end_is_refused(tmp_path):
    bomb = b"chara\0\0" + zlib.compress(bytes(20_000_000), 9)
    data = png(chunk(b"zTXt", bomb))
    assert find_text_chunks(data) == {}
    with pytest.raises(CorpusError, match=r"text chunk 'chara' that unpacks to more than"):
        read(tmp_path, data)


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"GIF89a", json.dumps(v2_card()).encode()])
def test_what_is_no_png(tmp_path, data):
    with pytest.raises(CorpusError, match=r"mara\.png: is not a PNG"):
        read(tmp_path, data)
    with pytest.raises(CorpusError, match="is not a PNG"):
        find_text_chunks(data)


def test_a_picture_without_a_card_says_what_to_do(tmp_path):
    with pytest.raises(CorpusError, match="ask for the original file"):
        read(tmp_path, PICTURE)


def test_a_picture_of_very_many_chunks_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"more than 200,000 chunks"):
        read(tmp_path, png(chunk(b"IDAT", b"") * 200_001))


@given(tail=st.binary(max_size=300))
def test_any_bytes_after_a_signature_are_a_card_or_an_error(tmp_path_factory, tail):
    for data in (SIGNATURE + tail, SIGNATURE + PIXELS + text("chara", tail) + END):
        with pytest.raises(CorpusError):
            read(tmp_path_factory.getbasetemp(), data)


@given(place=st.integers(0, 1200), value=st.integers(0, 255), cut=st.booleans())
def test_a_changed_byte_or_a_cut_gives_a_card_or_an_error(tmp_path_factory, place, value, cut):
    data = bytearray(png(text("ccv3", v3_card()), text("chara", v2_card())))
    place %= len(data)
    data[place] = value
    with suppress(CorpusError):
        file = read(tmp_path_factory.getbasetemp(), bytes(data[:place] if cut else data))
        assert file.cards[0].picture.startswith(SIGNATURE)
