"""Finds expired evidence (text from outside, with a time of expiry) and deletes its text.

Evidence expires in two steps. From the time of expiry on, it is left out of prompts. Its text is deleted later, when a host
runs a sweep (`sweep_expired`). Messages, prompts and receipts (why each block is in the prompt) that quote the evidence stay,
because they record the past. To remove the text there, too, erase the evidence (`mnemosyne.privacy.forget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mnemosyne.evidence.documents import is_document, remove_passages
from mnemosyne.evidence.rules import is_expired
from mnemosyne.protocols import Clock, OriginalVault, Store, StoreUpkeep
from mnemosyne.schema.memory import EMPTY

EXPIRED = "expired"
"""Mark in the metadata of a swept evidence item, and reason in the audit record when expired evidence is erased."""

SWEPT = "swept"


async def find_expired_evidences(
    store: Store, clock: Clock, session_ids: Sequence[str] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the ids of expired evidence items, by session id.

    Only `session_ids` are searched. If None, all sessions are searched except archived ones, which have no such evidence.
    """
    now = clock.now()
    found: dict[str, tuple[str, ...]] = {}
    # A session with evidence that will expire is not archived, so an archived one has none.
    archived = await store.archived_ids() if isinstance(store, StoreUpkeep) else frozenset()
    named = [each for each in await store.sessions() if each not in archived] if session_ids is None else session_ids
    for session_id in named:
        over = [each.evidence_id for each in await store.list_evidences(session_id) if is_expired(each, now)]
        if over:
            found[session_id] = tuple(over)
    return found


async def sweep_expired(
    store: Store, clock: Clock, *, vault: OriginalVault | None = None, session_ids: Sequence[str] | None = None
) -> dict[str, int]:
    """Delete the text of expired evidence items, and return how many items were emptied, by session id.

    Id, source, hash and times of an item stay, so that refs to the item still resolve. Items that were swept before are not
    counted again. `session_ids` limits the sweep (None: all sessions). `vault` has the original texts from before the
    redaction. If `vault` is not None, the originals of the emptied items are deleted, too.
    """
    counts: dict[str, int] = {}
    for session_id, evidence_ids in (await find_expired_evidences(store, clock, session_ids)).items():
        swept: list[str] = []
        for evidence_id in evidence_ids:
            evidence = await store.get_evidence(session_id, evidence_id)
            if evidence is not None and SWEPT not in evidence.metadata:
                emptied = replace(evidence, content="", metadata={SWEPT: EXPIRED}, extra=EMPTY)
                if is_document(evidence):
                    await remove_passages(store, session_id, evidence)
                await store.put_evidence(session_id, emptied)
                swept.append(evidence_id)
        if swept:
            counts[session_id] = len(swept)
            if vault is not None:
                await vault.drop(session_ids=(session_id,), evidence_ids=swept)
    return counts
