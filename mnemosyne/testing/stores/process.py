"""Writes messages to a store from a separate process, for the tests of rule 7 of the Store protocol.

Run it as `python -m mnemosyne.testing.stores.process FILE CLASS FOLDER NAME COUNT`. It opens the store as the test
class CLASS in FILE does, and appends COUNT messages to the session, each with the version that it has read. After a
version conflict it reads and tries again.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import anyio

from mnemosyne.core.errors import StoreBusyError, VersionConflictError
from mnemosyne.protocols import Store
from mnemosyne.testing.stores.samples import SESSION, StoreTests, user_message


def load_contract(file: str, name: str) -> StoreTests:
    """Return an instance of the test class `name` in `file`. A dotted name is a nested class.

    Raises:
        ImportError: if the file is not Python.
        TypeError: if the class is not a store contract.
    """
    spec = spec_from_file_location("contract_of_a_store", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file.")
    found = module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    made: object = found
    for part in name.split("."):
        made = getattr(made, part)
    if not (isinstance(made, type) and issubclass(made, StoreTests)):
        raise TypeError(f"{name} in {file} is not a contract of a store.")
    return made()


async def write(contract: StoreTests, folder: Path, name: str, count: int) -> None:
    """Append the messages `<name> 0`, `<name> 1` … up to `count` of them, each once."""
    store = await contract.make_store(folder)
    try:
        waiting = [f"{name} {number}" for number in range(count)][::-1]
        while waiting:
            if await _try_write(store, waiting[-1]):
                waiting.pop()
    finally:
        await store.close()


async def _try_write(store: Store, text: str) -> bool:
    version = (await store.head(SESSION)).version
    try:
        await store.append_messages(SESSION, (user_message(text),), expected_version=version)
    except (VersionConflictError, StoreBusyError):
        return False
    return True


if __name__ == "__main__":
    anyio.run(write, load_contract(*sys.argv[1:3]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
