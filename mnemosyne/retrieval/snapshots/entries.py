"""Lists the entries of a scope, each with a mark (a digest of its content).

A snapshot (the published index of a world) contains this list. A host compares the list with its store to find the entries that
have changed. pyarrow is imported only when it is needed, because it is heavy. All functions except `list_entries` and
`find_watermark` block.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from anyio import to_thread

from mnemosyne.protocols import EntrySource
from mnemosyne.retrieval.engines.rows import row_digest
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.record import SequencedEntry

_PAGE = 1_000


class EntryMark(NamedTuple):
    """Mark of an entry for comparisons: the digest of its row's data, and its sequence (running number) in the store."""

    digest: bytes
    sequence: int


class WorldSource(EntrySource, Protocol):
    """The part of a store that is read when a snapshot is published or opened."""

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the present version of the world `world_id`, or None if there is no such world."""
        ...


def world_of(scope: str) -> str:
    """Return the id of the world to which `scope` belongs, or '' if `scope` is not the scope of a world."""
    return scope.removeprefix("world:") if scope.startswith("world:") else ""


async def list_entries(source: EntrySource, scope: str) -> tuple[dict[str, EntryMark], int]:
    """Return (marks, highest sequence): the marks of all lore entries of `scope` by entry id, and the highest sequence
    (running number) among them. The latter is 0 if there are no entries.
    """
    found: dict[str, EntryMark] = {}
    after = 0
    while page := await source.entries_after(scope, Chain.LORE, after, _PAGE):
        after = page[-1].sequence
        await to_thread.run_sync(_add_marks, found, page)
    return found, after


async def find_watermark(source: EntrySource, scope: str) -> int:
    """Return the highest sequence (running number) of the lore of `scope`. This takes about 60 reads of one entry."""
    low, high = 0, 1
    while await source.entries_after(scope, Chain.LORE, high, 1):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if page := await source.entries_after(scope, Chain.LORE, middle, 1):
            low = page[0].sequence
        else:
            high = middle
    return low


def write_entries(file: Path, marks: Mapping[str, EntryMark]) -> None:
    """Write the marks of all entries into a file. Raises OSError if it cannot be written."""
    arrow = import_module("pyarrow")
    columns = [
        arrow.array(marks.keys(), arrow.string()),
        arrow.array([each.digest for each in marks.values()], arrow.binary(16)),
        arrow.array([each.sequence for each in marks.values()], arrow.int64()),
    ]
    table = arrow.table(columns, names=["entry_id", "digest", "sequence"])
    import_module("pyarrow.parquet").write_table(table, file)


def read_entries(file: Path) -> dict[str, EntryMark]:
    """Return the marks that `write_entries` has written, by entry id. Raises OSError or ValueError if the file cannot be read."""
    table = import_module("pyarrow.parquet").read_table(file)
    marks = map(EntryMark, table["digest"].to_pylist(), table["sequence"].to_pylist())
    return dict(zip(table["entry_id"].to_pylist(), marks, strict=True))


def _add_marks(found: dict[str, EntryMark], page: tuple[SequencedEntry, ...]) -> None:
    for item in page:
        if item.deleted:
            found.pop(item.entry.entry_id, None)
        else:
            found[item.entry.entry_id] = EntryMark(row_digest(item.entry), item.sequence)
