"""Cards in CHARX archives: `card.json` is read, everything else is counted, and nothing is unpacked to the disk."""

from __future__ import annotations

import io
import struct
import zipfile
from contextlib import suppress

import pytest
from card_files import PICTURE, archive, fate_of, v3_card
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.cards.charx import is_charx, list_charx_assets, read_charx

JPEG = b"\xff\xd8\xff\xe0" + bytes(200) + b"\xff\xd9"
MEMBERS = {"card.json": v3_card(), "assets/icon/main.png": b"12345", "assets/emotion/happy.PNG": b"123"}


def write(tmp_path, data, name="mara.charx"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_the_card_of_an_archive(tmp_path):
    file = read_charx(write(tmp_path, archive(MEMBERS)))
    (card,) = file.cards
    assert (file.format, card.spec, card.name, card.file_name, card.picture) == (
        "charx",
        "chara_card_v3",
        "Mara",
        "mara",
        None,
    )
    assert fate_of(file, "assets/*") == [
        ("not supported", 2, "pictures, sounds and other files; kept in the file only")
    ]
    assert file.notes == ("2 other files (8 bytes) stay in the archive.",)


@pytest.mark.parametrize("picture", [JPEG, PICTURE], ids=["jpeg", "png"])
def test_an_archive_behind_a_picture(tmp_path, picture):
    path = write(tmp_path, picture + archive(MEMBERS), "mara.jpg")
    assert is_charx(path)
    assert read_charx(path).cards[0].name == "Mara"


def test_assets_are_listed_and_stay_where_they_are(tmp_path):
    path = write(tmp_path, archive(MEMBERS | {"module.risum": b"\0\0", "noending": b""}))
    listed = [(asset.name, asset.kind, asset.size, asset.is_safe) for asset in list_charx_assets(path)]
    assert listed == [
        ("assets/icon/main.png", "png", 5, True),
        ("assets/emotion/happy.PNG", "png", 3, True),
        ("module.risum", "risum", 2, True),
        ("noending", "", 0, True),
    ]
    assert fate_of(read_charx(path), "module.risum")[0][:2] == ("not supported", 1)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "a/../../evil", "C:\\evil", "..\\evil", "\\evil", "a\nb"])
def test_names_that_lead_elsewhere_are_only_counted(tmp_path, name):
    path = write(tmp_path, archive(MEMBERS | {name: b"x"}))
    file = read_charx(path)
    assert ("not supported", 1, "the name leads out of the archive; never opened") in fate_of(file, "assets/*")
    assert [asset.is_safe for asset in list_charx_assets(path)] == [True, True, False]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("members", [{}, {"sub/card.json": v3_card()}, {"../card.json": v3_card()}, {"Card.txt": b""}])
def test_an_archive_without_a_card(tmp_path, members):
    path = write(tmp_path, archive(members))
    assert not is_charx(path)
    with pytest.raises(CorpusError, match=r"mara\.charx: has no card\.json at its root"):
        read_charx(path)


def test_a_bomb_is_refused_before_it_grows(tmp_path):
    path = write(tmp_path, archive({"card.json": b" " * 40_000_000}))
    assert path.stat().st_size < 50_000
    with pytest.raises(CorpusError, match=r"card\.json unpacks to more than \d,\d\d\d,\d\d\d bytes"):
        read_charx(path)


def test_an_asset_that_is_a_bomb_is_not_unpacked(tmp_path):
    path = write(tmp_path, archive({"card.json": v3_card(), "assets/big.png": bytes(40_000_000)}))
    assert read_charx(path).cards[0].name == "Mara"


def test_a_header_that_lies_of_the_size_is_found_out(tmp_path):
    data = bytearray(archive({"card.json": v3_card()}))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = struct.pack("<I", 20)
    with pytest.raises(CorpusError, match=r"mara\.charx: cannot be read as a zip archive"):
        read_charx(write(tmp_path, bytes(data)))


def test_an_encrypted_card_is_refused(tmp_path):
    data = bytearray(archive({"card.json": v3_card()}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    with pytest.raises(CorpusError, match=r"card\.json is encrypted"):
        read_charx(write(tmp_path, bytes(data)))


def test_another_method_of_packing_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("card.json", "{}")
    with pytest.raises(CorpusError, match="packed by a method that is not read"):
        read_charx(write(tmp_path, out.getvalue()))


def test_an_archive_of_very_many_files_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for number in range(20_001):
            file.writestr(zipfile.ZipInfo(str(number)), b"")
    with pytest.raises(CorpusError, match=r"holds more than 20,000 files"):
        read_charx(write(tmp_path, out.getvalue()))


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"name": "Mara"}', '{"name": "玛拉"}'.encode("gbk")])
def test_a_card_that_is_none_names_the_member(tmp_path, body):
    with pytest.raises(CorpusError, match=r"mara\.charx: card\.json"):
        read_charx(write(tmp_path, archive({"card.json": body})))


def test_a_member_without_a_name_is_counted(tmp_path):
    data = archive({"card.json": v3_card(), "x": b""}).replace(b"x", b"\0")
    assert [asset.name for asset in list_charx_assets(write(tmp_path, data))] == [""]


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(CorpusError, match="there is no such file"):
        read_charx(tmp_path / "none.charx")
    with pytest.raises(CorpusError, match="is not a regular file"):
        read_charx(tmp_path)
    assert not is_charx(tmp_path)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_an_error(tmp_path_factory, data):
    path = write(tmp_path_factory.getbasetemp(), data)
    assert not is_charx(path)
    with pytest.raises(CorpusError, match=r"mara\.charx"):
        read_charx(path)


@given(place=st.integers(0, 5000), value=st.integers(0, 255), cut=st.booleans())
def test_a_changed_byte_or_a_cut_gives_an_archive_or_an_error(tmp_path_factory, place, value, cut):
    data = bytearray(archive(MEMBERS))
    place %= len(data)
    data[place] = value
    path = write(tmp_path_factory.getbasetemp(), bytes(data[:place] if cut else data))
    with suppress(CorpusError):
        assert read_charx(path).cards[0].document["data"]
