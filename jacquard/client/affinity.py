"""Assigns sessions to nodes (hosts or processes) of a service.

The calculation uses nothing except its arguments, so every process on every machine gets the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def choose_node(session_id: str, nodes: Sequence[str], tenant: str = "") -> str:
    """Return the node of a session. The order of `nodes` makes no difference.

    The method is rendezvous hashing (Thaler and Ravishankar 1998): each node is hashed together with the session, and
    the node with the highest hash is chosen. If a node is added or removed, only the sessions of this node move.
    Tenants may have equal session ids, so name the `tenant` if the service has several tenants. Raises ValueError if
    `nodes` is empty.
    """
    if not nodes:
        raise ValueError("a session can belong to no node where there are none")
    return rank_nodes(session_id, nodes, tenant)[0]


def rank_nodes(session_id: str, nodes: Sequence[str], tenant: str = "") -> list[str]:
    """Return all nodes in the order in which they should serve a session: the session's own node first, then its
    substitutes.
    """
    return sorted(nodes, key=lambda node: (_hash(tenant, session_id, node), node), reverse=True)


def _hash(*parts: str) -> bytes:
    # Each part is preceded by its length, so that no two triples give the same bytes.
    sent = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join(len(part).to_bytes(8) + part for part in sent), digest_size=8).digest()
