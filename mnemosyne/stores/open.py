"""Opens any store by its address.

Hosts, configuration files and the command line open stores through this module. The stores never import one another.
The driver of PostgreSQL, or the store of a plugin, is imported only if an address names it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mnemosyne.core.errors import PluginError, StoreUnavailableError
from mnemosyne.core.masking.credentials import mask_credentials, remember_address
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.plugins import STORES, open_plugin, split_name
from mnemosyne.protocols import Store
from mnemosyne.stores.locate import DEFAULT_TENANT, StoreLocation, locate_store
from mnemosyne.stores.sqlite.memory import MemoryStore
from mnemosyne.stores.sqlite.store import SqliteStore


def open_store(address: str | Path | None = None, *, tenant: str = DEFAULT_TENANT, create: bool = True) -> Store:
    """Return the store at `address`, for one tenant. Nothing is read or created before the first call of the store.

    Forms of an address:

    - a folder: SQLite in its file `store.db`. None means the folder `.jacquard`.
    - `sqlite:///PATH`: a SQLite file.
    - `file:DIR` or `file:///ABSOLUTE/DIR`: a folder of JSON files.
    - `memory:`: nothing is stored.
    - `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`: a database, with `?schema=NAME` if the schema is not `mnemosyne`.
    - `NAME:…`: the store of the plugin NAME.

    If `create` is false and the store does not exist, its first call raises StoreUnavailableError.

    Raises StoreUnavailableError if the form of the address is not known, the driver of PostgreSQL is missing, or the plugin
    cannot be used. No message shows a password.
    """
    return store_at(locate_store(address, tenant, look=False), tenant=tenant, create=create)


def store_at(location: StoreLocation, *, tenant: str = DEFAULT_TENANT, create: bool = True) -> Store:
    """Return the store of a parsed address. Raises StoreUnavailableError like `open_store`."""
    if location.kind == "plugin":
        name = split_name(location.address)[0]
        remember_address(location.address)
        try:
            plugin: Store = open_plugin(STORES, name, location.address, tenant=tenant, create=create)
        except PluginError as error:
            raise StoreUnavailableError(location.shown, mask_credentials(str(error)).rstrip(".")) from None
        return plugin
    if location.postgres is not None:
        try:
            import_module("psycopg")
        except ImportError as error:
            raise StoreUnavailableError(
                location.shown, explain_missing_package("PostgreSQL", "psycopg", "postgres", error)
            ) from None
        store: Store = import_module("mnemosyne.stores.postgres.store").PostgresStore(
            location.postgres, tenant=tenant, create=create
        )
        return store
    if location.database is None:
        return MemoryStore(tenant)
    if location.kind == "file":
        from mnemosyne.stores.file.store import FileStore

        return FileStore(location.database, tenant, create=create)
    return SqliteStore(location.database, tenant=tenant, create=create)
