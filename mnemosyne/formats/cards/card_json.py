"""Reads character cards from JSON, in all known spellings of V1, in V2, and in V3 and newer versions.

Texts of a card are kept as they are written. If a value has a wrong type, only that value is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import MAX_NODES
from mnemosyne.formats.books.character_book import parse_character_book
from mnemosyne.formats.cards.fields import (
    EXPORT_ONLY,
    FIELDS,
    NAME,
    count_beside_data,
    kind_of,
    read_extensions,
    read_field,
)
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.safe_files import decode_text, parse_file_json, read_file_bytes
from mnemosyne.schema.imported_files import CharacterCard, ImportedFile, WorldBook

V1, V2, V3 = "v1", "chara_card_v2", "chara_card_v3"
"""Values of `CharacterCard.spec`."""
CARD_JSON = "card"
"""Name of the format of a card in a JSON file."""
MOST_JSON_BYTES = 32_000_000
"""Maximum size of the JSON of a card, from whatever kind of file."""
_SPEC = re.compile(r"chara_card_v([0-9]{1,3})\Z")
_SIGNS = ("first_mes", "mes_example", "char_persona", "char_greeting", "world_scenario", "example_dialogue")
"""Fields that nothing but a card has."""
_TEXT_SIGNS = ("personality", "scenario")
"""Fields of which only a text is a sign of a card."""
_FLAT_EXPORT_ONLY = ("avatar", "chat", "create_date", "fav", "metadata", *EXPORT_ONLY)
_ASSETS_NOTE = "pictures and sounds are not imported; kept for export"


def is_card(value: Any) -> bool:
    """Return whether a JSON value is a character card. Its `spec` decides, or fields that only cards have."""
    if not isinstance(value, dict):
        return False
    if spec_of(value) == V1:
        return "entries" not in value and _is_named(value) and _has_sign(value)
    spec, data = value.get("spec"), value["data"]
    if isinstance(spec, str):
        return spec.startswith("chara_card")
    return _is_named(data) and ("description" in data or _has_sign(data))


def read_card_json(path: Path) -> ImportedFile:
    """Return the card of a JSON file. Raises CorpusError if the file cannot be read, is not JSON, or is not a card."""
    counter = FieldCounter()
    value = parse_card_bytes(read_file_bytes(path, MOST_JSON_BYTES), str(path))
    try:
        card = parse_card(value, file_name=path.stem, counter=counter)
    except CorpusError as error:
        raise CorpusError(f"{path}: {error}") from None
    return imported_card(card, path=path, file_format=CARD_JSON, counter=counter)


def parse_card_bytes(data: bytes, name: str) -> Any:
    """Return the JSON value of the bytes of a card; `name` is the name of the file in errors.

    The marks between values are counted before parsing, because a few bytes of JSON can take much memory. Raises
    CorpusError if the bytes are not JSON, too long, or have too many values.
    """
    if len(data) > MOST_JSON_BYTES:
        raise CorpusError(f"{name}: is a card of more than {MOST_JSON_BYTES:,} bytes; take pictures out of it.")
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MAX_NODES:
        raise CorpusError(f"{name}: holds more than {MAX_NODES:,} values; a card has few. Shorten it.")
    return parse_file_json(decode_text(data, name), name)


def parse_card(value: Any, *, file_name: str, counter: FieldCounter) -> CharacterCard:
    """Return the card of a JSON value, and count the fate of each field in `counter`.

    `file_name` is the name of the file without its ending; a card without a name gets this name. Raises CorpusError if
    the value is not a card, or if both the card and the file have no name.
    """
    if not isinstance(value, dict):
        raise CorpusError(f"is not a character card but {kind_of(value)}; a card is a mapping with a name and texts.")
    spec = spec_of(value)
    if spec == V1 and not is_card(value):
        raise CorpusError(
            "is not a character card: it has no data, and no name next to texts as first_mes or personality."
        )
    _count_spec(value, counter)
    texts, prefix = card_texts(value, counter), "" if spec == V1 else "data."
    source = value if spec == V1 else value["data"]
    _count_others(value, source, prefix, texts, counter)
    if not any(texts.values()):
        raise CorpusError(f"is not a character card: neither {prefix}name nor another of its fields has a text.")
    if not texts[NAME.attribute].strip():
        if not file_name.strip():
            raise CorpusError(f"has no name; write one at {prefix}name.")
        counter.change(f"{prefix}name", note="the card has none; it takes the name of its file")
        texts[NAME.attribute] = file_name
    return CharacterCard(
        spec=spec,
        document=value,
        file_name=file_name,
        depth_prompt=read_extensions(source.get("extensions"), f"{prefix}extensions.", counter),
        book=_read_book(source.get("character_book"), f"{prefix}character_book", texts[NAME.attribute], counter),
        **texts,
    )


def card_texts(document: Mapping[str, Any], counter: FieldCounter) -> dict[str, Any]:
    """Return the texts and lists of texts of a card, by the names of their fields in `CharacterCard`. Missing ones are
    empty.
    """
    is_flat = spec_of(document) == V1
    source, prefix = (document, "") if is_flat else (document["data"], "data.")
    return {field.attribute: read_field(source, field, prefix, counter) for field in FIELDS}


def spec_of(document: Mapping[str, Any]) -> str:
    """Return V1, V2 or V3, the version as which a card is read.

    A card without a mapping `data` is V1. If `data` has no field of a card, but a name is next to `data`, the card is V1, too.
    Cards newer than V3 are read as V3. A card with `data` that states no version is V2.
    """
    data = document.get("data")
    if not isinstance(data, Mapping):
        return V1
    if not any(field.name in data for field in FIELDS) and _is_named(document):
        return V1
    version = _version_of(document)
    return V3 if version is not None and version >= 3 else V2


def imported_card(
    card: CharacterCard, *, path: Path, file_format: str, counter: FieldCounter, notes: tuple[str, ...] = ()
) -> ImportedFile:
    """Return the content of the file `path`, which has the card `card`. If the card names a book in another file, a note asks to
    import that file, too.
    """
    extensions = card.document.get("data", card.document)
    extensions = extensions.get("extensions") if isinstance(extensions, Mapping) else None
    world = extensions.get("world") if isinstance(extensions, Mapping) else None
    if isinstance(world, str) and world.strip() and card.book is None:
        notes = (
            *notes,
            f"The card names the book {world[:200]!r}, which is in a file of its own: import that file too.",
        )
    return ImportedFile(path=str(path), format=file_format, cards=(card,), fates=counter.fates(), notes=notes)


def _has_sign(fields: Mapping[str, Any]) -> bool:
    if any(sign in fields for sign in _SIGNS) or any(isinstance(fields.get(sign), str) for sign in _TEXT_SIGNS):
        return True
    return isinstance(fields.get("greeting"), str) and isinstance(fields.get("context"), str)


def _is_named(fields: Mapping[str, Any]) -> bool:
    return any(isinstance(fields.get(name), str) and fields[name] for name in (NAME.name, *NAME.others))


def _version_of(document: Mapping[str, Any]) -> float | None:
    """Return the version that a card states in its `spec`, or else in its `spec_version`, as a number. Return None if it
    states none.
    """
    spec = document.get("spec")
    found = _SPEC.match(spec) if isinstance(spec, str) else None
    if found:
        return float(found[1])
    version = document.get("spec_version")
    if isinstance(version, bool) or not isinstance(version, str | int | float) or len(str(version)) > 20:
        return None
    try:
        number = float(version)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _count_spec(document: Mapping[str, Any], counter: FieldCounter) -> None:
    spec = spec_of(document)
    stated = document.get("spec_version")
    newest = 3.0 if spec == V3 else 2.0
    if spec == V1 and isinstance(document.get("spec"), str):
        counter.change("spec", document["spec"], "there are no texts in data; read as a flat card (V1)")
    elif spec != V1 and "spec" not in document:
        counter.change("spec", note=f"the card states none; read as {spec}")
    elif spec != V1 and document["spec"] != spec:
        counter.change("spec", document["spec"], f"not known; read as {spec}")
    else:
        counter.keep("spec", document.get("spec"))
    version = _version_of({"spec_version": stated})
    if spec != V1 and version != newest:
        counter.change("spec_version", stated, f"not {newest}; read as {newest}")
    else:
        counter.keep("spec_version", stated)


def _count_others(
    document: Mapping[str, Any], source: Mapping[str, Any], prefix: str, texts: Mapping[str, Any], counter: FieldCounter
) -> None:
    """Count the fields of a card that are not read into a text of CharacterCard."""
    known = {name for field in FIELDS for name in (field.name, *(() if prefix else field.others))}
    known |= {"extensions", "character_book", "assets"}
    export_only = _FLAT_EXPORT_ONLY if not prefix else tuple(EXPORT_ONLY)
    for name in export_only:
        counter.keep(f"{prefix}{name}", source.get(name), "kept for export")
    assets = source.get("assets")
    for asset in assets if isinstance(assets, list) else (assets,):
        counter.refuse(f"{prefix}assets.*", asset, _ASSETS_NOTE)
    if not prefix:
        counter.refuse(
            "talkativeness", source.get("talkativeness"), "how often the character speaks up in a group chat"
        )
        counter.refuse("data", source.get("data"), "has no texts of a card; kept for export")
        known |= {"talkativeness", "spec", "spec_version", "data"}
    counter.keep_others(prefix, source, {*known, *export_only})
    if prefix:
        count_beside_data(document, texts, counter)


def _read_book(value: Any, path: str, card_name: str, counter: FieldCounter) -> WorldBook | None:
    if not isinstance(value, Mapping):
        counter.refuse(path, value, f"{kind_of(value)} in the place of a book; kept for export")
        return None
    try:
        return parse_character_book(value, card_name, counter, f"{path}.")
    except CorpusError as error:
        counter.refuse(path, value, f"cannot be read ({error}); kept for export")
        return None
