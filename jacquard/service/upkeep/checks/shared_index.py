"""Checks the index data of a tenant that hosts share in PostgreSQL: index rows, and vectors that are missing, orphaned, or made
by another embedder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jacquard.core.degradations import DegradationCode
from jacquard.service.upkeep.findings import Finding, SharedIndexFigures, stale, wrong
from mnemosyne.core.errors import StoreError
from mnemosyne.protocols import SharedIndexStore, SharedScope, Store
from mnemosyne.schema.memory import session_scope, world_scope

_PAGE = 1_000
_TIDIED = "`jacquard operate housekeeping --once --deep` removes them."


async def check_shared_index(
    store: Store, tenant: str, serving: str, *, published: Collection[str], most: int | None
) -> tuple[SharedIndexFigures | None, list[Finding]]:
    """Check the shared index data of a tenant. Return (figures, findings): the figures of the shared index, and the
    faults. `figures` is None if the store shares no index data, or if it cannot be read.

    Args:
        store: store of the tenant.
        tenant: id of the tenant.
        serving: name of the configured embedder ('': there is none).
        published: scopes (sessions or worlds) that hosts search in snapshots. The snapshots contain the vectors of these scopes,
            so vectors that the store lacks do not count as missing.
        most: maximum number of scopes to check (None: all).
    """
    if not isinstance(store, SharedIndexStore):
        return None, []
    owned = [*map(world_scope, await store.worlds()), *map(session_scope, await store.sessions())]
    try:
        scopes = list(dict.fromkeys((*await _list_scopes(store, most), *owned)))[:most]
        found = [await store.inspect_shared(each, encoder="" if each in published else serving) for each in scopes]
    except StoreError as error:
        code = DegradationCode.VECTORS_UNSHARED.value
        do = "The log of the database says why. Meanwhile each host embeds texts and makes index rows itself."
        return None, [wrong(code, str(error), do)]
    vectors: Counter[str] = Counter()
    for each in found:
        vectors.update(each.vectors)
    figures = SharedIndexFigures(
        tenant=tenant,
        scopes=len(scopes),
        vectors=dict(vectors),
        segments=sum(each.segments for each in found),
        missing=sum(each.missing for each in found),
        orphaned_vectors=sum(each.orphaned_vectors for each in found),
        orphaned_segments=sum(each.orphaned_segments for each in found),
    )
    return figures, [*_judge_vectors(figures, serving), *_judge_segments(figures, found)]


async def _list_scopes(store: SharedIndexStore, most: int | None) -> list[str]:
    scopes: list[str] = []
    while most is None or len(scopes) < most:
        page = await store.shared_scopes(after=scopes[-1] if scopes else "", limit=_PAGE)
        scopes += page
        if len(page) < _PAGE:
            break
    return scopes


def _judge_vectors(figures: SharedIndexFigures, serving: str) -> list[Finding]:
    found = []
    if figures.missing:
        found.append(
            stale(
                "vectors_missing",
                f"{figures.missing:,} entries of tenant {figures.tenant!r} have no vector of {serving} in the store.",
                "The next turn of each session makes its own; `jacquard operate reindex` makes all of them now.",
            )
        )
    if figures.orphaned_vectors:
        found.append(
            stale(
                "vectors_orphaned",
                f"{figures.orphaned_vectors:,} vectors of tenant {figures.tenant!r} in the store are of texts that no entry "
                "has.",
                _TIDIED,
            )
        )
    found += [
        stale(
            DegradationCode.ENCODER_CHANGED.value,
            f"{number:,} vectors of tenant {figures.tenant!r} in the store are those of {name}; the configured model is "
            f"{serving}.",
            "`jacquard operate reindex` makes those of the configured model. The others stay, because another host may use them.",
        )
        for name, number in sorted(figures.vectors.items())
        if figures.missing and name != serving
    ]
    return found


def _judge_segments(figures: SharedIndexFigures, scopes: list[SharedScope]) -> list[Finding]:
    found = []
    if figures.orphaned_segments:
        found.append(
            stale(
                "index_rows_orphaned",
                f"The index rows that hosts share of tenant {figures.tenant!r} have words of entries that are gone, in "
                f"{figures.orphaned_segments:,} segments.",
                _TIDIED,
            )
        )
    if damaged := [each.scope for each in scopes if each.is_damaged]:
        found.append(
            wrong(
                DegradationCode.INDEX_DAMAGED.value,
                f"The index rows that hosts share of {len(damaged)} scopes are damaged ({', '.join(damaged[:3])} …).",
                "The next turn of each makes them again from its entries; `jacquard operate reindex` does it now.",
            )
        )
    return found
