"""Reads the character card of a CHARX archive. CHARX is a zip with `card.json` at its root; a JPEG or PNG may precede the
zip.

Only `card.json` is unpacked, in memory and up to a limit.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.archives import member_names, open_archive, read_member
from mnemosyne.formats.cards.card_json import MOST_JSON_BYTES, imported_card, parse_card, parse_card_bytes
from mnemosyne.formats.cards.png_chunks import growth_limit
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import ImportedFile
from mnemosyne.values import dataclass

CARD_CHARX = "charx"
"""Name of the format of a CHARX archive."""
_CARD, _MODULE = "card.json", "module.risum"


@dataclass(frozen=True, kw_only=True, slots=True)
class CharxAsset:
    """A picture, a sound or another file in an archive.

    `name` is the name in the archive; never open it as a path. `kind` is the ending of the name in lower case (`png`), or
    empty. `size` is in bytes, as the archive states it. `is_safe` is False if `name` leads out of the folder into which
    the archive would be unpacked, or cannot be printed.
    """

    name: str
    kind: str
    size: int
    is_safe: bool


def is_charx(path: Path) -> bool:
    """Return whether a file is an archive with a `card.json` at its root."""
    return _CARD in member_names(path)


def list_charx_assets(path: Path) -> tuple[CharxAsset, ...]:
    """Return the files of an archive except the card, in the order of the archive. Raises CorpusError if the file is not
    an archive.
    """
    with open_archive(path) as archive:
        return _assets_of(archive)


def read_charx(path: Path) -> ImportedFile:
    """Return the card of an archive.

    Raises CorpusError if the file is not an archive or is damaged, or if the card is missing, encrypted or too large.
    """
    counter = FieldCounter()
    with open_archive(path) as archive:
        if _CARD not in archive.NameToInfo:
            raise CorpusError(f"has no {_CARD} at its root, so it is not a CHARX archive.")
        text = read_member(archive, _CARD, min(MOST_JSON_BYTES, growth_limit(path.stat().st_size)))
        assets = _assets_of(archive)
    value = parse_card_bytes(text, f"{path}: {_CARD}")
    try:
        card = parse_card(value, file_name=path.stem, counter=counter)
    except CorpusError as error:
        raise CorpusError(f"{path}: {_CARD}: {error}") from None
    for asset in assets:
        _count_asset(asset, counter)
    size = sum(asset.size for asset in assets)
    notes = (f"{len(assets):,} other files ({size:,} bytes) stay in the archive.",) if assets else ()
    return imported_card(card, path=path, file_format=CARD_CHARX, counter=counter, notes=notes)


def _assets_of(archive: zipfile.ZipFile) -> tuple[CharxAsset, ...]:
    return tuple(
        CharxAsset(
            name=info.filename,
            kind=PurePosixPath(info.filename).suffix[1:].lower(),
            size=info.file_size,
            is_safe=_is_safe(info.filename),
        )
        for info in archive.infolist()
        if info.filename != _CARD and not info.filename.endswith("/")
    )


def _is_safe(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return not (name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or not name.isprintable())


def _count_asset(asset: CharxAsset, counter: FieldCounter) -> None:
    if asset.name == _MODULE:
        counter.refuse(
            _MODULE, note="a module of Risu (lore, triggers and scripts in a form of its own); kept in the file only"
        )
    elif asset.is_safe:
        counter.refuse("assets/*", note="pictures, sounds and other files; kept in the file only")
    else:
        counter.refuse("assets/*", note="the name leads out of the archive; never opened")
