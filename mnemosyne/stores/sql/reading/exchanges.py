"""Finds the sessions that contain the same exchange, by its digest.

An exchange is a message of the user with its reply; `mnemosyne.chains.messages.exchanges` computes the digests. The function
runs inside a transaction that its caller has opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.chains.messages.exchanges import MOST_SESSIONS
from mnemosyne.stores.sql.connection import Connection, expand_in


def find_exchanges(connection: Connection, digests: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return pairs (digest, session id) for the sessions that contain one of these digests.

    If very many sessions contain a digest, only those in which it was written last are returned.
    """
    if not digests:
        return frozenset()
    _, values = expand_in(sorted({*digests}))
    # One ordered look-up a digest: what everybody says (a greeting) is not sorted.
    one = f"""SELECT * FROM (SELECT m.exchange, s.session_id FROM messages AS m JOIN sessions AS s ON s.key = m.session
        WHERE m.exchange = ? AND s.tenant = ? ORDER BY m.seq DESC LIMIT {MOST_SESSIONS}) AS found"""
    statement = " UNION ALL ".join([one] * len(values))
    rows = connection.execute(statement, [value for digest in values for value in (digest, connection.tenant)])
    return frozenset((digest, session_id) for digest, session_id in rows)
