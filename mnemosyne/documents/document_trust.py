"""Limits the trust of the texts that a document brings into a store.

A trust label states whether a text was written by the author, by the user, or by a less reliable source. A document may
claim any label. The rules in `mnemosyne.schema.evidence` give each text a label, and a claim can only lower this label.

No text of a document becomes `authored`, because the person who hands it in is a user. There is one exception: a memory that
a turn recalled keeps its label, because a prompt does not show it by itself. If a block refers to such a memory,
`verify_trust` checks whether the store has that entry.
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
"""Field of a block (in `extra`) with the trust label that the host gave to its text."""


def lower_claims(document: SessionDocument) -> SessionDocument:
    """Return a document in which no evidence and no block claims more trust than a document may have in this store."""
    evidences = {name: _lower_evidence(each) for name, each in document.evidences.items()}
    blocks = tuple(_lower_block(each) for each in document.context_blocks)
    return replace(document, evidences=evidences, context_blocks=blocks)


async def verify_trust(store: Store, evidence: Evidence) -> Trust:
    """Return the trust label of `evidence` for a prompt.

    Evidence that claims to be an `authored` memory of the store keeps that label only if the store has that memory with
    this text; otherwise the result is `user`. All other evidence keeps its label.
    """
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
