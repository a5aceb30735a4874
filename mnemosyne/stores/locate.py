"""Parses the address of a store, and finds the folder of its index.

The command line, the configuration and the library use this module, so they read addresses in the same way and never
show a password. The module opens and creates nothing and imports no store. It only checks whether a path is a folder and,
for an unknown scheme, which plugins are installed.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, unquote_plus

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.core.masking.credentials import mask_credentials, remember_secrets
from mnemosyne.plugins import GUIDE, STORES, plugin_names
from mnemosyne.values import dataclass

StoreKind = Literal["sqlite", "postgresql", "file", "memory", "plugin"]

DEFAULT_FOLDER = Path(".jacquard")
DATABASE_NAME = "store.db"
INDEX_NAME = "index"
DEFAULT_TENANT = "default"
DEFAULT_SCHEMA = "mnemosyne"
FORMS = (
    "write the path of a folder, sqlite:///PATH/TO/FILE.db (four slashes for an absolute path), "
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, file:FOLDER or file:///ABSOLUTE/FOLDER, or memory:"
)
_SQLITE = "sqlite:///"
_FILE = "file:"
_POSTGRES = ("postgresql://", "postgres://")
_LONGEST_SCHEMA = 63
_SECRET_PARAMETER = re.compile(r"pass(?:word|wd)|secret|token|scram|(?<!ssl)key$", re.IGNORECASE)
"""Names of the parameters in an address whose values are not shown. `sslkey` and `passfile` are shown, because they
name files.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresAddress:
    """An address of PostgreSQL: the form for libpq (`conninfo`), our schema, and the form without password (`shown`)."""

    conninfo: str = field(repr=False)
    schema: str
    shown: str
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: str) -> str:
        """Return a message of the driver without passwords."""
        return mask_credentials(text, *self.secrets)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreLocation:
    """Parsed address of a store. The store need not exist."""

    kind: StoreKind
    shown: str
    """The address without its password."""
    database: Path | None = None
    """The SQLite file, or the folder of a file store. None for other stores."""
    postgres: PostgresAddress | None = None
    """The address of the server, or None for other stores."""
    index: Path | None = None
    """Folder of the index on this host, or None if the index is kept only in memory."""
    address: str = field(default="", repr=False)
    """The whole address of a plugin's store, with its password."""


def locate_store(
    address: str | Path | None = None, tenant: str = DEFAULT_TENANT, *, look: bool = True
) -> StoreLocation:
    """Return the location of the store at `address` (None: the folder `.jacquard` in the current directory).

    Each tenant has its own index folder. Forms of an address:

    - A folder contains `store.db` and `index/`.
    - `sqlite:///PATH` names the SQLite file. Its index is next to it: in `index/` if the file is named `store.db`, else
      in `<name>.index/`, so that two files in one folder never share an index.
    - `file:DIR` and `file:///DIR` (an absolute path, escaped as in any URL) name a folder of JSON files. Its index is
      in `.index/` of that folder.
    - `postgresql://…` names a database. Its index is on this host, in `.jacquard/<database>-<number>/index/`.
    - `memory:` stores nothing.
    - `NAME:…` is a store of the plugin NAME. Its index is on this host, in `.jacquard/<NAME>-<number>/index/`.

    If not `look`, no file of a store is accessed, so the function may be called on an event loop. A path of the wrong kind (a
    file in place of a folder) is then reported by the first call of the store.

    Raises StoreUnavailableError if the address is not valid. The message states the possible forms.
    """
    text = str(DEFAULT_FOLDER if address is None else address)
    location = _locate(text, look)
    return replace(location, index=index_of_tenant(location, tenant))


def index_of_tenant(location: StoreLocation, tenant: str) -> Path | None:
    """Return the index folder of `tenant`, or None if the index is kept only in memory.

    `location` must be the location for the default tenant.
    """
    if location.index is None or tenant == DEFAULT_TENANT:
        return location.index
    return location.index.with_name(f"{location.index.name}-{_digest(tenant)}")


def _locate(text: str, look: bool) -> StoreLocation:
    if "\0" in text:
        raise StoreUnavailableError(repr(mask_passwords(text)), f"a path cannot contain a NUL character; {FORMS}")
    if text == "memory:":
        return StoreLocation(kind="memory", shown=text)
    if text.startswith(_SQLITE):
        return _sqlite_location(text, text[len(_SQLITE) :], look)
    if text.startswith(_FILE) and (text.startswith(f"{_FILE}///") or not text.startswith(f"{_FILE}//")):
        return _file_location(text, unquote(re.sub(r"^///+", "/", text[len(_FILE) :])), look)
    if text.startswith(_POSTGRES):
        return _postgres_location(postgres_address(text))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)
    if "://" in text or scheme:
        return _plugin_location(text, "" if scheme is None else scheme[1])
    if not text.strip():
        raise StoreUnavailableError(repr(text), f"the address is empty; {FORMS}")
    folder = Path(text).expanduser()
    if look and folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(text, f"it is a file, not a folder; write {_SQLITE}{text} to use it as a store")
    return StoreLocation(kind="sqlite", shown=text, database=folder / DATABASE_NAME, index=folder / INDEX_NAME)


def _sqlite_location(address: str, path: str, look: bool) -> StoreLocation:
    if path in ("", ":memory:"):
        raise StoreUnavailableError(address, f"a SQLite store is a file; {FORMS}")
    file = Path(path).expanduser()
    if path.endswith(("/", "\\")) or (look and file.is_dir()):
        raise StoreUnavailableError(address, f"it names a folder; write only the folder, or a file in it; {FORMS}")
    index = file.with_name(INDEX_NAME if file.name == DATABASE_NAME else f"{file.name}.index")
    return StoreLocation(kind="sqlite", shown=address, database=file, index=index)


def _file_location(address: str, path: str, look: bool) -> StoreLocation:
    if not path.strip("/\\"):
        raise StoreUnavailableError(address, f"a file store is a folder; {FORMS}")
    drive = re.match(r"/[A-Za-z]:", path)
    folder = Path(path[1:] if drive and os.name == "nt" else path).expanduser()
    if look and folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(address, f"it is a file, not a folder; {FORMS}")
    return StoreLocation(kind="file", shown=address, database=folder, index=folder / f".{INDEX_NAME}")


def _postgres_location(address: PostgresAddress) -> StoreLocation:
    """Return the location, with an index folder on this host whose name is unique to this database and schema."""
    bare = re.sub(r"//[^/?]*@", "//", address.conninfo.partition("?")[0])
    database = re.sub(r"\W+", "_", unquote(bare.rpartition("/")[2])) or "postgres"
    number = _digest(f"{mask_passwords(address.conninfo)} {address.schema}")
    folder = DEFAULT_FOLDER / f"{database}-{number}"
    return StoreLocation(kind="postgresql", shown=address.shown, postgres=address, index=folder / INDEX_NAME)


def _plugin_location(address: str, scheme: str) -> StoreLocation:
    """Return the location, with an index folder on this host whose name is unique to this address;
    StoreUnavailableError for a scheme without a plugin.
    """
    shown, names = mask_passwords(address), plugin_names(STORES)
    if scheme not in names or scheme in STORES.built_in:
        installed = ", ".join(f"{name}:…" for name in names) or "none is installed"
        raise StoreUnavailableError(
            shown, f"this form of address is not known; {FORMS}. Plugins add other forms (see {GUIDE}): {installed}"
        )
    folder = DEFAULT_FOLDER / f"{scheme}-{_digest(shown)}"
    return StoreLocation(kind="plugin", shown=shown, address=address, index=folder / INDEX_NAME)


def postgres_address(url: str) -> PostgresAddress:
    """Parse a `postgresql://` URL. Faults that only libpq finds are reported when the store is opened.

    Raises StoreUnavailableError if the URL has another scheme or an illegal name of a schema.
    """
    shown = mask_passwords(url)
    remember_secrets(*_passwords(url))
    if not url.startswith(_POSTGRES):
        raise StoreUnavailableError(shown, f"it does not begin with {_POSTGRES[0]}; {FORMS}")
    base, query = _split_query(url)
    kept: list[str] = []
    schema = DEFAULT_SCHEMA
    for part in query[1:].split("&") if query else ():
        name, _, value = part.partition("=")
        if name == "schema":
            schema = unquote_plus(value)
            continue
        kept.append(part)
    if not schema or len(schema.encode()) > _LONGEST_SCHEMA or "\0" in schema or schema.startswith("pg_"):
        raise StoreUnavailableError(
            shown, f"schema={schema} is not a name for a schema; write 1 to {_LONGEST_SCHEMA} bytes, not pg_…"
        )
    conninfo = f"{base}?{'&'.join(kept)}" if kept else base
    secrets = tuple(sorted(_passwords(url), key=len, reverse=True))
    return PostgresAddress(conninfo=conninfo, schema=schema, shown=shown, secrets=secrets)


def _passwords(address: str) -> set[str]:
    """Return the secrets of an address, escaped and unescaped: its password, and those of its parameters."""
    base, query = _split_query(address)
    found = re.search(r"://[^:@]*:(.*)@", base, re.DOTALL)
    values = [found[1]] if found else []
    for part in re.split(r"[?&]", query):
        name, _, value = part.partition("=")
        if _SECRET_PARAMETER.search(unquote(name)):
            values.append(value)
    return {form for value in values for form in (value, unquote(value), unquote_plus(value)) if form}


def mask_passwords(address: str) -> str:
    """Return the address with stars in place of its passwords."""
    base, query = _split_query(address)
    base = re.sub(r"(://[^:@]*:)(.*)@", r"\1***@", base, flags=re.DOTALL)
    return base + re.sub(r"(?<=[?&])([^=&]*)=([^&]*)", _mask_parameter, query)


def _mask_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}=***" if found[2] and _SECRET_PARAMETER.search(unquote(found[1])) else found[0]


def _split_query(address: str) -> tuple[str, str]:
    """Return an address without its parameters, and these with their `?`.

    As for libpq, a password ends at the first `@`, and may contain a `?`; an earlier slash ends it.
    """
    start = address.find("://") + 3 if "://" in address else 0
    at = address.rfind("@")
    user_info = re.match(r"[^/@]*@", address[start:])
    begin = address.find("?", start + len(user_info[0]) if user_info else start)
    is_host = re.match(r"[^:/]*(:\d*)?(/|$)", address[start : max(begin, start)])
    if user_info is None and begin >= 0 and at > begin and not is_host:
        begin = address.find("?", at)  # a password with a slash and a `?`, which libpq cannot read either
    return (address, "") if begin < 0 else (address[:begin], address[begin:])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
