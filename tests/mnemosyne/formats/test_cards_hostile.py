"""Files made to do harm: each is a card or an error with a sentence, and costs no more memory than a small multiple of its size."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from card_files import archive, chunk, png, text, v2_card
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.cards.card_json import read_card_json
from mnemosyne.formats.cards.charx import read_charx
from mnemosyne.formats.cards.png import read_card_png
from mnemosyne.formats.cards.texts import greetings_of, persona_of
from mnemosyne.formats.cards.write import card_document

READERS = {"json": read_card_json, "png": read_card_png, "charx": read_charx}


def write(tmp_path, data, kind):
    path = tmp_path / f"mara.{kind}"
    path.write_bytes(data)
    return path


def in_each_file(body):
    """Return the files that carry the bytes of a card: the JSON itself, a PNG, an archive."""
    return {"json": body, "png": png(text("chara", body)), "charx": archive({"card.json": body})}.items()


DEEP = b"[" * 100_000 + b"]" * 100_000
BAD_JSON = {
    "deep": b'{"name": "Mara", "first_mes": "a", "x": ' + DEEP + b"}",
    "deep mapping": b'{"name": "Mara", "first_mes": "a", "x": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "many values": b'{"name": "Mara", "first_mes": "a", "x": [' + b"[]," * 600_000 + b"0]}",
    "long number": b'{"name": "Mara", "first_mes": "a", "x": ' + b"9" * 10_000 + b"}",
    "infinite": b'{"name": "Mara", "first_mes": "a", "x": 1e999}',
    "no number": b'{"name": "Mara", "first_mes": NaN}',
    "gbk": '{"name": "玛拉", "first_mes": "你来晚了。"}'.encode("gb18030"),
    "utf-16 without a mark": '{"name": "Mara", "first_mes": "a"}'.encode("utf-16-le"),
    "cut off": json.dumps(v2_card()).encode()[:-20],
    "yaml": b"name: Mara\nfirst_mes: hello\n",
    "yaml that runs": b"!!python/object/apply:os.system ['true']",
    "two values": b"{}{}",
    "nothing": b"",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_a_card_that_is_none_is_an_error_with_the_file(tmp_path, name):
    for kind, data in in_each_file(BAD_JSON[name]):
        with pytest.raises(CorpusError, match=rf"mara\.{kind}"):
            READERS[kind](write(tmp_path, data, kind))


def test_half_a_character_of_a_card_is_replaced_and_told(tmp_path):
    body = b'{"name": "Mara", "first_mes": "Meet me \\ud83d"}'
    for kind, data in in_each_file(body):
        read = READERS[kind](write(tmp_path, data, kind))
        assert read.cards[0].first_message == "Meet me \ufffd"
        assert [fate.field for fate in read.fates if "not whole" in fate.note] == ["first_mes"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_that_say_what_they_are(tmp_path, encoding):
    body = json.dumps(v2_card(name="玛拉"), ensure_ascii=False).encode(encoding)
    for kind, data in in_each_file(body):
        assert READERS[kind](write(tmp_path, data, kind)).cards[0].name == "玛拉"


def test_another_encoding_is_guessed_in_the_sentence_only(tmp_path):
    with pytest.raises(CorpusError, match=r"save it as UTF-8 \(it looks like GB18030\)"):
        read_card_json(write(tmp_path, BAD_JSON["gbk"], "json"))


@pytest.mark.parametrize(
    "value",
    [
        "<script>fetch('//x')</script><img src=x onerror=alert(1)>",
        "{{7*7}} {% for x in y %} ${env} %s %(x)s {0}",
        "../../etc/passwd\0",
        "\u202eevil\u2066 \x1b[31m\r\n",
        "a" * 100_000 + "!",
        "{{" * 50_000,
        "<START>" * 20_000,
        "{{//" * 30_000,
    ],
    ids=["html", "templates", "path", "controls", "long", "braces", "starts", "comments"],
)
def test_texts_are_data(tmp_path, value):
    fields = dict.fromkeys(("name", "description", "first_mes", "mes_example", "system_prompt", "nickname"), value)
    document = v2_card(**fields, extensions={value[:100]: value}, alternate_greetings=[value], tags=[value])
    for kind, data in in_each_file(json.dumps(document).encode()):
        (card,) = READERS[kind](write(tmp_path, data, kind)).cards
        assert card.first_message == value
        assert card_document(card) == document
        persona_of([card], user="Lin")
        greetings_of(card, user=value)


MEMORY = {
    "lists": ("json", b'{"name": "Mara", "first_mes": "a", "x": [' + b"[]," * 20_000 + b"0]}"),
    "mappings": ("json", b'{"name": "Mara", "first_mes": "a", "x": [' + b'{"a":0},' * 10_000 + b"0]}"),
    "claims a gigabyte": ("png", png(end=b"\x3f\xff\xff\xfftEXtchara\0" + b"A" * 100_000)),
    "many chunks": ("png", png(text("chara", v2_card()) * 100)),
    "packed text": ("png", png(chunk(b"zTXt", b"chara\0\0" + zlib.compress(b" " * 60_000_000, 9)))),
    "packed card": ("charx", archive({"card.json": b" " * 60_000_000})),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_bounded_by_the_size_of_the_file(tmp_path, name):
    kind, data = MEMORY[name]
    path = write(tmp_path, data, kind)
    tracemalloc.start()
    try:
        with suppress(CorpusError):
            READERS[kind](path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000 + 100 * len(data)


@given(data=st.binary(max_size=200), kind=st.sampled_from(sorted(READERS)))
def test_any_bytes_are_an_error(tmp_path_factory, data, kind):
    path = write(tmp_path_factory.getbasetemp(), data, kind)
    with pytest.raises(CorpusError, match=r"mara\."):
        READERS[kind](path)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [*v2_card()["data"], *v2_card(), "depth_prompt", "prompt", "nickname", "char_name", "world"]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_a_card_that_can_be_written_or_an_error(tmp_path_factory, value):
    path = write(tmp_path_factory.getbasetemp(), json.dumps(value).encode(), "json")
    with suppress(CorpusError):
        (card,) = read_card_json(path).cards
        path.write_text(json.dumps(card_document(card)), encoding="utf-8")
        (again,) = read_card_json(path).cards
        assert (again.name, again.first_message, again.tags) == (card.name, card.first_message, card.tags)
