"""Values that all parts of the service share. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mnemosyne.stores.locate import DEFAULT_TENANT


class Scope(StrEnum):
    """What a token allows. `author` includes `play`, and `admin` includes both.

    `play`: sessions, their turns and memories. `author`: also worlds, lore and state by hand. `admin`: also tokens, erasure,
    reads of what only the host may see, and copies of the store.
    """

    PLAY = "play"
    AUTHOR = "author"
    ADMIN = "admin"


SERVICE_TENANT = "jacquard service"
"""The tenant of the service's own records; no token can be made for it."""

MOST_MESSAGES = 25_000
"""A request has at most so many messages of a conversation."""

_ORDER = (Scope.PLAY, Scope.AUTHOR, Scope.ADMIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Who makes a request: the tenant and the scope of its token.

    With a `viewer`, every prompt, search and listing is that of this character, whatever the request asks for. `token_id` names
    the token in audits and logs, and is no secret. `author` names who edits, where no token does. `is_model`: what it sends was
    written by a model.
    """

    tenant: str = DEFAULT_TENANT
    scope: Scope = Scope.ADMIN
    viewer: str | None = None
    token_id: str = ""
    author: str = ""
    is_model: bool = False

    def allows(self, scope: Scope) -> bool:
        """Return whether this principal may do what needs `scope`."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)


LOCAL = Principal()
"""Who calls a service without tenants, which listens on the loopback address alone."""
