"""Assignment of sessions to processes. Pure calculation: every process and every machine gets the same result."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def choose_node(session_id: str, nodes: Sequence[str], tenant: str = "") -> str:
    """Return the node of a session; the order of `nodes` makes no difference.

    Rendezvous hashing (Thaler and Ravishankar 1998): the node with the highest hash together with the session. If a node is
    added or removed, only its own sessions move. Session ids belong to a tenant, so name it if there are several. Raises
    ValueError without nodes.
    """
    if not nodes:
        raise ValueError("a session can belong to no node where there are none")
    return rank_nodes(session_id, nodes, tenant)[0]


def rank_nodes(session_id: str, nodes: Sequence[str], tenant: str = "") -> list[str]:
    """Return all nodes, the session's own first, then its substitutes in order."""
    return sorted(nodes, key=lambda node: (_hash(tenant, session_id, node), node), reverse=True)


def _hash(*parts: str) -> bytes:
    # Each part is preceded by its length, so that no two triples give the same bytes.
    sent = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join(len(part).to_bytes(8) + part for part in sent), digest_size=8).digest()
