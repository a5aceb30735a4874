"""Reads the character card of a CHARX archive: a zip with `card.json` at its root, alone or behind a JPEG or PNG.

Nothing but `card.json` is unpacked, in memory and up to a limit; no member becomes a file. What a member says of its size is not
believed.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.cards.card_json import MOST_JSON_BYTES, imported_card, parse_card, parse_card_bytes
from mnemosyne.formats.cards.png_chunks import growth_limit
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.values import ImportedFile

CARD_CHARX = "charx"
"""The name of the format of a CHARX archive."""
MOST_MEMBERS = 20_000
_MOST_READ_BYTES, _READ_BYTES = 4_000_000, 1_000_000
_CARD, _MODULE = "card.json", "module.risum"
_IS_ENCRYPTED = 0x1
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CharxAsset:
    """A picture, a sound or another file in an archive.

    `name` is as the archive has it, and no path to open; `kind` is its ending in lower case (`png`), or empty; `size` is in bytes,
    as the archive says. `is_safe` is False for a name that would lead out of the folder that it is unpacked into.
    """

    name: str
    kind: str
    size: int
    is_safe: bool


def is_charx(path: Path) -> bool:
    """Return whether a file is an archive with a `card.json` at its root."""
    try:
        with _open_archive(path) as archive:
            return _CARD in archive.NameToInfo
    except CorpusError:
        return False


def list_charx_assets(path: Path) -> tuple[CharxAsset, ...]:
    """Return what an archive holds beside its card, in its order; CorpusError for a file that is no archive."""
    with _open_archive(path) as archive:
        return _assets_of(archive)


def read_charx(path: Path) -> ImportedFile:
    """Return the card of an archive.

    CorpusError for a file that is no archive, or a damaged one, and for a card that is missing, encrypted, too large or no card.
    """
    counter = FieldCounter()
    with _open_archive(path) as archive:
        text = _read_card_bytes(archive, path)
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


class _BoundedFile(io.FileIO):
    """A file of which no single read returns more than _MOST_READ_BYTES: a directory of that size is none of a card."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = _MOST_READ_BYTES + 1 if size is None or size < 0 else min(size, _MOST_READ_BYTES + 1)
        data = super().read(most) or b""
        if len(data) > _MOST_READ_BYTES:
            raise CorpusError("is an archive whose list of files is too large.")
        return data


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever is wrong with it while it is read becomes a CorpusError with the path."""
    if not path.is_file():
        raise CorpusError(f"{path}: {'is no regular file' if path.exists() else 'there is no such file'}.")
    try:
        with _BoundedFile(path) as file, zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) > MOST_MEMBERS:
                raise CorpusError(f"holds more than {MOST_MEMBERS:,} files; a card has few.")
            yield archive
    except CorpusError as error:
        sentence = str(error)
        raise CorpusError(sentence if sentence.startswith(f"{path}:") else f"{path}: {sentence}") from None
    except NotImplementedError as error:
        raise CorpusError(
            f"{path}: is packed in a way that is not read ({error}); pack it again as a plain zip."
        ) from None
    except _DAMAGE as error:
        raise CorpusError(f"{path}: cannot be read as a zip archive ({error}).") from None


def _read_card_bytes(archive: zipfile.ZipFile, path: Path) -> bytes:
    """Return the bytes of `card.json`, at most as many as its packed size allows, whatever its header says."""
    info = archive.NameToInfo.get(_CARD)
    if info is None:
        raise CorpusError(f"has no {_CARD} at its root, so it is no CHARX archive.")
    if info.flag_bits & _IS_ENCRYPTED:
        raise CorpusError(f"{_CARD} is encrypted; unpack the archive with its password and pack it without one.")
    if info.compress_type not in _READABLE:
        raise CorpusError(f"{_CARD} is packed by a method that is not read; pack it again as a plain zip.")
    most = min(MOST_JSON_BYTES, growth_limit(path.stat().st_size))
    data = bytearray()
    with archive.open(info) as member:
        while part := member.read(_READ_BYTES):
            data += part
            if len(data) > most:
                raise CorpusError(f"{_CARD} unpacks to more than {most:,} bytes, which is no card.")
    return bytes(data)


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
