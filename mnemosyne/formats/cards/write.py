"""Writes character cards as JSON values, as JSON files, and into the text chunks of a PNG.

The document that the card was read from is the base. Only texts that differ from it are changed, so unknown fields are
kept.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.formats.books.write import character_book_json
from mnemosyne.formats.cards.card_json import V1, V2, V3, card_texts, spec_of
from mnemosyne.formats.cards.fields import FIELDS, read_extensions
from mnemosyne.formats.cards.png import CARD_KEYWORDS
from mnemosyne.formats.cards.png_chunks import END_CHUNK, SIGNATURE, png_chunk, walk_chunks, without_chunks
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import CharacterCard, DepthPrompt, WorldBook

_VERSIONS = {V2: (2, "2.0"), V3: (3, "3.0")}
_DECORATOR = "@@"
_WIDTH, _HEIGHT, _GREY = 200, 300, b"\x8c"


def card_document(card: CharacterCard, book: WorldBook | None = None, *, spec: str = "") -> dict[str, Any]:
    """Return a card as the JSON value of its file.

    `spec` is `chara_card_v2` or `chara_card_v3`. The default is the version of the card itself, or V2 for a V1 card. The
    flat fields of a V1 card are kept next to `data`. Texts of `card` replace the different texts of `card.document`, and
    `book` replaces the card's book. If a V3 card is written as V2, its book loses the decorators (lines with `@@` at the
    top of an entry). Raises ValueError for another `spec`.
    """
    target = spec or (V2 if card.spec == V1 else card.spec)
    if target not in _VERSIONS:
        raise ValueError(f"a card is written as {V2} or {V3}, not as {target!r}")
    document = deepcopy(dict(card.document))
    was = spec_of(document)
    texts, note = card_texts(document, FieldCounter()), _depth_prompt_of(document, was)
    if was == V1:
        document = {"spec": target, "spec_version": _VERSIONS[target][1], **document}
        document["data"] = _new_data(document, target)
    data: dict[str, Any] = document["data"]
    _write_texts(card, document, data, texts, is_new=was == V1)
    if card.depth_prompt != note:
        _write_depth_prompt(card.depth_prompt, data)
    written = book or (None if "character_book" in data else card.book)
    if written is not None:
        data["character_book"] = character_book_json(written)
    if was != target:
        _convert(document, data, was, target)
    return document


def card_json_bytes(card: CharacterCard, book: WorldBook | None = None, *, spec: str = "") -> bytes:
    """Return a card as the bytes of a JSON file, in UTF-8 and indented by four spaces as SillyTavern does.

    `card_document` explains the arguments. Raises CorpusError if the card contains a value that JSON cannot express,
    for example half a character.
    """
    return _json_bytes(card_document(card, book, spec=spec), indent=4)


def card_png_bytes(card: CharacterCard, book: WorldBook | None = None, *, picture: bytes | None = None) -> bytes:
    """Return a PNG with a card in two chunks before its end: as V2 in `chara` and as V3 in `ccv3`.

    `picture` is a PNG; cards in it are removed. The default is the card's own picture, or a plain one if the card has
    none. Raises CorpusError if `picture` is not a PNG, or if the card contains a value that JSON cannot express.
    """
    picture = picture or card.picture or _draw_plain_picture()
    chunks = walk_chunks(picture)
    bare = without_chunks(picture, chunks, frozenset(CARD_KEYWORDS))
    written = b"".join(
        png_chunk(b"tEXt", keyword + b"\0" + base64.b64encode(_json_bytes(card_document(card, book, spec=spec))))
        for keyword, spec in ((b"chara", V2), (b"ccv3", V3))
    )
    return bare.removesuffix(END_CHUNK) + written + END_CHUNK


def _new_data(document: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Return a `data` for a flat card, without texts. It has the fields that every card must have, and the values of the
    flat card.
    """
    said = document.get("data")
    data: dict[str, Any] = dict(said) if isinstance(said, Mapping) else {}
    version = _VERSIONS[target][0]
    for field in FIELDS:
        if field.least_version <= version:
            data.setdefault(field.name, [] if field.is_list else "")
    for name in ("creator", "character_version"):
        data.setdefault(name, str(document.get(name) or ""))
    extensions = document.get("extensions")
    data.setdefault("extensions", deepcopy(dict(extensions)) if isinstance(extensions, Mapping) else {})
    for name in ("talkativeness", "fav"):
        if name in document and isinstance(data["extensions"], dict):
            data["extensions"].setdefault(name, document[name])
    if isinstance(document.get("character_book"), Mapping):
        data.setdefault("character_book", deepcopy(document["character_book"]))
    return data


def _write_texts(
    card: CharacterCard, document: dict[str, Any], data: dict[str, Any], texts: Mapping[str, Any], *, is_new: bool
) -> None:
    """Write the texts that differ from the document. If the document repeats such a text next to `data`, the copy is
    changed too.
    """
    for field in FIELDS:
        old, new = texts[field.attribute], getattr(card, field.attribute)
        written = list(new) if field.is_list else new
        if new != old or (is_new and new):
            data[field.name] = written
        for name in (field.name, *field.others):
            repeated = document.get(name)
            if new != old and old and (tuple(repeated) if isinstance(repeated, list) else repeated) == old:
                document[name] = written


def _depth_prompt_of(document: Mapping[str, Any], spec: str) -> DepthPrompt | None:
    source = document if spec == V1 else document["data"]
    return read_extensions(source.get("extensions"), "", FieldCounter())


def _write_depth_prompt(note: DepthPrompt | None, data: dict[str, Any]) -> None:
    extensions = data.get("extensions")
    extensions = extensions if isinstance(extensions, dict) else {}
    data["extensions"] = extensions
    if note is None or not note.text:
        extensions.pop("depth_prompt", None)
        return
    old = extensions.get("depth_prompt")
    new = {"prompt": note.text, "depth": note.depth, "role": note.role}
    extensions["depth_prompt"] = {**(old if isinstance(old, dict) else {}), **new}


def _convert(document: dict[str, Any], data: dict[str, Any], was: str, target: str) -> None:
    """Change a document from one version into another."""
    document["spec"], document["spec_version"] = target, _VERSIONS[target][1]
    book = data.get("character_book")
    entries = book.get("entries") if isinstance(book, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        if target == V3:
            entry.setdefault("use_regex", False)
        elif was == V3 and isinstance(entry.get("content"), str):
            entry["content"] = _without_decorators(entry["content"])
    if target == V3:
        data.setdefault("group_only_greetings", [])


def _without_decorators(content: str) -> str:
    """Return the text of an entry without the decorators of V3: the lines at its top that begin with `@@`."""
    lines = content.split("\n")
    first = next((index for index, line in enumerate(lines) if not line.startswith(_DECORATOR)), len(lines))
    return "\n".join(lines[first:])


def _json_bytes(document: Mapping[str, Any], indent: int | None = None) -> bytes:
    for path, reason in plain_faults(document):
        raise CorpusError(f"{'.'.join(map(str, path)) or 'The card'} {reason}; it cannot be written.")
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(document, ensure_ascii=False, indent=indent, separators=separators).encode("utf-8")


def _draw_plain_picture() -> bytes:
    """Return a small grey PNG in the upright shape of a card."""
    header = struct.pack(">IIBBBBB", _WIDTH, _HEIGHT, 8, 0, 0, 0, 0)
    rows = (b"\0" + _GREY * _WIDTH) * _HEIGHT
    return SIGNATURE + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(rows, 9)) + END_CHUNK
