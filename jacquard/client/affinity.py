"""Which of several processes a session belongs to. Pure calculation: every process and every machine gives the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def choose_node(session_id: str, nodes: Sequence[str], tenant: str = "") -> str:
    """Return the one of `nodes` that a session belongs to; their order makes no difference.

    Rendezvous hashing (Thaler and Ravishankar 1998): the node whose hash together with the session is highest. When a node is added
    or taken away, only the sessions that come to it or were its own change their node. Session ids are those of a tenant, so
    name it where there are several. ValueError without nodes.
    """
    if not nodes:
        raise ValueError("a session can belong to no node where there are none")
    return rank_nodes(session_id, nodes, tenant)[0]


def rank_nodes(session_id: str, nodes: Sequence[str], tenant: str = "") -> list[str]:
    """Return all nodes, the one that a session belongs to first, then those that it goes to when the ones before are away."""
    return sorted(nodes, key=lambda node: (_hash(tenant, session_id, node), node), reverse=True)


def _hash(*parts: str) -> bytes:
    # Each part is told apart by its length, so that no two triples give the same bytes.
    sent = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join(len(part).to_bytes(8) + part for part in sent), digest_size=8).digest()
