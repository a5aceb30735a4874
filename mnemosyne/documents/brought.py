"""The trust of what a document brings into a store.

A document may claim any label for its texts, so its claims only lower what the rules say (`mnemosyne.schema.evidence`). Nothing
that it brings is `authored`: whoever hands a document in is a user. A memory that a turn recalled keeps its label, because no
prompt shows it for itself; where a block refers to one, `verify_trust` looks whether it is the entry that it says it is.
"""

from __future__ import annotations

from dataclasses import replace

from mnemosyne.chains.uris import EntryAddress, parse_uri
from mnemosyne.core.errors import UriError
from mnemosyne.protocols import Store
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.evidence import OWN_SCHEME, ContextBlock, Evidence, SourceKind, lowest_trust, trust_of
from mnemosyne.schema.memory import Trust

TRUST = "trust"
"""The field of a block (in `extra`) in which a host says how far its text may be trusted."""


def lower_claims(document: SessionDocument) -> SessionDocument:
    """Return a document whose evidence and blocks claim no more trust than they may have in this store."""
    evidences = {name: _lower_evidence(each) for name, each in document.evidences.items()}
    blocks = tuple(_lower_block(each) for each in document.context_blocks)
    return replace(document, evidences=evidences, context_blocks=blocks)


async def verify_trust(store: Store, evidence: Evidence) -> Trust:
    """Return the trust of an item as a prompt may show it: `authored` only if it is what it says, or the host wrote it."""
    if evidence.trust is not Trust.AUTHORED or not evidence.source.uri.startswith(OWN_SCHEME):
        return evidence.trust
    try:
        address = parse_uri(evidence.source.uri)
    except UriError:
        return Trust.USER
    if not isinstance(address, EntryAddress):
        return Trust.USER
    found = await store.entries(address.scope, (address.entry_id,))
    is_entry = any(entry.trust is Trust.AUTHORED and evidence.content in entry.text for entry in found)
    return Trust.AUTHORED if is_entry else Trust.USER


def _lower_evidence(evidence: Evidence) -> Evidence:
    if evidence.source.uri.startswith(OWN_SCHEME) and evidence.source.kind is SourceKind.RAG:
        return evidence
    trust = lowest_trust((evidence.trust, trust_of(evidence.source, evidence.type), Trust.USER))
    return evidence if trust is evidence.trust else replace(evidence, trust=trust)


def _lower_block(block: ContextBlock) -> ContextBlock:
    claims = block.extra.get(TRUST) == Trust.AUTHORED.value
    return replace(block, extra={**block.extra, TRUST: Trust.USER.value}) if claims else block
