"""The revision of a store, and its migration to the present one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.maintenance.rows import postgres_errors, reading
from mnemosyne.stores.sql.schema import REVISION
from mnemosyne.stores.sqlite.file import read_revision


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """What a migration did: from which revision to which; the same where there was nothing to do."""

    shown: str
    before: int
    after: int


def migrate_store(address: str) -> Migration:
    """Bring a SQL store to the present revision, as its first use would; blocks. Errors are those of opening it.

    A file store has one format that every release since reads and writes, so nothing is done.
    """
    location = locate_store(address)
    if location.kind == "file":
        return Migration(shown=location.shown, before=1, after=1)
    before = read_revisions(location)[0]
    with reading(location):
        return Migration(shown=location.shown, before=before, after=max(before, REVISION))


def read_revisions(location: StoreLocation) -> tuple[int, int]:
    """Return the revision of a SQL store and the oldest one whose releases may use it; blocks. Nothing is changed.
    StoreUnavailableError, also for a store that has none.
    """
    if location.postgres is not None:
        database: Any = import_module("mnemosyne.stores.postgres.database")
        options = database.PostgresOptions(address=location.postgres)
        with postgres_errors(options):
            revision, needed = database.read_revision(options)
            return int(revision), int(needed)
    if location.database is None or location.kind != "sqlite":
        raise StoreUnavailableError(location.shown, "only stores in SQLite and PostgreSQL have revisions")
    if not location.database.is_file():
        raise StoreUnavailableError(location.shown, "there is no store in it; start a session there first")
    return read_revision(location.database)
