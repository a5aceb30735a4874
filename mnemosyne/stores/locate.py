"""Where a store lies: a URL or a folder, turned into paths.

The room exists so that every entry point (command line, configuration, library) reads a store's address alike. Pure but
for looking whether a path is a folder; it opens and makes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnemosyne.errors import StoreUnavailableError

DEFAULT_FOLDER = Path(".jacquard")
DATABASE_NAME = "store.db"
INDEX_NAME = "index"
_SQLITE = "sqlite:///"
_FORMS = "write sqlite:///PATH/TO/FILE.db (four slashes for an absolute path) or the path of a folder"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreLocation:
    """The SQLite file and the index folder of one store; neither need exist."""

    database: Path
    index: Path


def locate_store(address: str | Path | None = None) -> StoreLocation:
    """Return where the store of `address` lies; None means the folder `.jacquard` in the current directory.

    A folder holds `store.db` and `index/`. `sqlite:///PATH` names the file itself; its index lies beside it, in `index/`
    for a file named `store.db`, else in `<name>.index/`, so that two files in one folder never share one.
    StoreUnavailableError says what is wrong with an address and which forms there are.
    """
    text = str(DEFAULT_FOLDER if address is None else address)
    if "\0" in text:
        raise StoreUnavailableError(repr(text), f"a path holds no NUL character; {_FORMS}")
    if text.startswith(_SQLITE):
        return _file_location(text, text[len(_SQLITE) :])
    if "://" in text or text.startswith("sqlite:"):
        raise StoreUnavailableError(text, f"this form of address is not known; {_FORMS}")
    if not text.strip():
        raise StoreUnavailableError(repr(text), f"the address is empty; {_FORMS}")
    folder = Path(text).expanduser()
    if folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(text, f"it is a file, not a folder; write {_SQLITE}{text} to use it as a store")
    return StoreLocation(database=folder / DATABASE_NAME, index=folder / INDEX_NAME)


def _file_location(address: str, path: str) -> StoreLocation:
    if path in ("", ":memory:"):
        raise StoreUnavailableError(address, f"a store lies in a file; {_FORMS}")
    file = Path(path).expanduser()
    if path.endswith(("/", "\\")) or file.is_dir():
        raise StoreUnavailableError(address, f"it names a folder; write the folder alone, or a file in it; {_FORMS}")
    index = file.with_name(INDEX_NAME if file.name == DATABASE_NAME else f"{file.name}.index")
    return StoreLocation(database=file, index=index)
