"""Reads the character card in the text chunks of a PNG or APNG picture."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.cards.card_json import imported_card, parse_card, parse_card_bytes
from mnemosyne.formats.cards.fields import FIELDS
from mnemosyne.formats.cards.png_chunks import PngChunks, TextChunk, chunk_text, walk_chunks, without_chunks
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.safe_files import read_file_bytes
from mnemosyne.schema.imported_files import CharacterCard, ImportedFile

CARD_PNG = "card-png"
"""Name of the format of a card in a PNG."""
CARD_KEYWORDS = ("ccv3", "chara")
"""Keywords of the chunks with cards: `ccv3` (V3) is preferred to `chara` (V1 and V2)."""
NOVELAI_KEYWORD = "naidata"
"""Keyword of the chunk with a lorebook of NovelAI."""
_ENCRYPTED = b"rcc||"
_ASSET = "chara-ext-asset_"
_BASE64_SPACE = b" \t\r\n\0"


def find_text_chunks(data: bytes) -> Mapping[str, bytes]:
    """Return the JSON bytes in a PNG's text chunks by keyword: `ccv3` and `chara` (cards), `naidata` (a lorebook of
    NovelAI).

    If a keyword occurs twice, the first chunk counts. A chunk that cannot be unpacked is left out. Text that is not
    base64 is returned unchanged. Raises CorpusError if `data` is not a PNG.
    """
    found: dict[str, bytes] = {}
    for keyword, chunk in _first_chunks(walk_chunks(data), (*CARD_KEYWORDS, NOVELAI_KEYWORD)).items():
        with suppress(CorpusError):
            found[keyword] = _decode_base64(chunk_text(data, chunk))
    return found


def read_card_png(path: Path) -> ImportedFile:
    """Return the card of a PNG, from its `ccv3` chunk or else from its `chara` chunk. The card keeps the picture without
    these chunks.

    Raises CorpusError if the file is not a PNG or has no card, or if all its cards are encrypted or damaged.
    """
    data = read_file_bytes(path)
    try:
        chunks = walk_chunks(data)
        card, counter, notes = _read_best_card(data, chunks, path.stem)
    except CorpusError as error:
        raise CorpusError(f"{path}: {error}") from None
    for chunk in chunks.texts:
        if chunk.keyword.startswith(_ASSET):
            counter.refuse("chara-ext-asset_*", note="pictures and sounds of Risu; kept in the picture only")
        elif chunk.keyword == NOVELAI_KEYWORD:
            counter.refuse(NOVELAI_KEYWORD, note="a lorebook of NovelAI beside the card; kept in the picture only")
    picture = without_chunks(data, chunks, frozenset(CARD_KEYWORDS))
    card = replace(card, picture=picture)
    return imported_card(card, path=path, file_format=CARD_PNG, counter=counter, notes=(*chunks.notes, *notes))


def _read_best_card(
    data: bytes, chunks: PngChunks, file_name: str
) -> tuple[CharacterCard, FieldCounter, tuple[str, ...]]:
    """Return (card, counter, notes): the first card that can be read, and notes on it and on the other cards."""
    found = list(_first_chunks(chunks, CARD_KEYWORDS).values())
    if not found:
        raise CorpusError(_missing_card(chunks))
    faults: list[str] = []
    for index, chunk in enumerate(found):
        counter = FieldCounter()
        try:
            value = _card_value(data, chunk)
            card = parse_card(value, file_name=file_name, counter=counter)
        except CorpusError as error:
            faults.append(str(error))
            continue
        notes = [f"A card of the file cannot be read, and the other was taken: {fault}" for fault in faults]
        notes += _notes_of(chunk)
        notes += [note for other in found[index + 1 :] for note in _note_on_other(data, value, chunk, other)]
        return card, counter, tuple(notes)
    raise CorpusError(faults[0])


def _first_chunks(chunks: PngChunks, keywords: tuple[str, ...]) -> dict[str, TextChunk]:
    """Return the first chunk of each keyword, in the order of the keywords."""
    first: dict[str, TextChunk] = {}
    for chunk in chunks.texts:
        first.setdefault(chunk.keyword, chunk)
    return {keyword: first[keyword] for keyword in keywords if keyword in first}


def _card_value(data: bytes, chunk: TextChunk) -> Any:
    text = chunk_text(data, chunk)
    if text.lstrip().startswith(_ENCRYPTED):
        raise CorpusError(
            f"chunk {chunk.keyword!r}: is a card that Risu has encrypted, which nothing else can read; "
            "export it from Risu without encryption."
        )
    decoded = _decode_base64(text)
    if decoded is text and b"{" not in text[:100]:
        raise CorpusError(
            f"chunk {chunk.keyword!r}: is not base64 text, so the file is damaged; ask for the original file."
        )
    return parse_card_bytes(decoded, f"chunk {chunk.keyword!r}")


def _notes_of(chunk: TextChunk) -> list[str]:
    notes = []
    if not chunk.is_intact:
        notes.append(
            f"The checksum of the chunk {chunk.keyword!r} does not fit: the file was damaged or changed by hand."
        )
    if chunk.is_after_end:
        notes.append(f"The chunk {chunk.keyword!r} comes after the end of the picture; it was read all the same.")
    return notes


def _note_on_other(data: bytes, value: Any, taken: TextChunk, other: TextChunk) -> list[str]:
    """Return a note if another card of the file has different texts than the card that was used."""
    try:
        second = _card_value(data, other)
    except CorpusError as error:
        return [f"Another card of the file cannot be read: {error}"]
    texts, other_texts = (each.get("data", each) if isinstance(each, dict) else {} for each in (value, second))
    if not isinstance(texts, dict) or not isinstance(other_texts, dict):
        return []
    names = {field.name for field in FIELDS if field.name in texts and field.name in other_texts}
    if any(texts[name] != other_texts[name] for name in names):
        return [f"The card in {other.keyword!r} has other texts than the one in {taken.keyword!r}, which was taken."]
    return []


def _missing_card(chunks: PngChunks) -> str:
    if any(chunk.keyword == NOVELAI_KEYWORD for chunk in chunks.texts):
        return "holds a lorebook of NovelAI and no character card; import it as a lorebook."
    damage = f" {chunks.notes[0]}" if chunks.notes else ""
    return (
        "holds no character card: no text chunk 'ccv3' or 'chara'. Programs that send pictures often take the texts out; "
        f"ask for the original file.{damage}"
    )


def _decode_base64(text: bytes) -> bytes:
    """Return the bytes that a base64 text encodes. If `text` is not base64, return `text`."""
    packed = text.translate(None, _BASE64_SPACE).rstrip(b"=")
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        return text
