"""Values that all parts of the service share. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.remote.operation import Scope as Scope
from mnemosyne.stores.locate import DEFAULT_TENANT

SERVICE_TENANT = "jacquard service"
"""Tenant of the service's own records; no token can be made for it."""

_ORDER = (Scope.PLAY, Scope.AUTHOR, Scope.ADMIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Caller of a request, with the tenant and the scope of its token."""

    tenant: str = DEFAULT_TENANT
    scope: Scope = Scope.ADMIN
    viewer: str | None = None
    """Every prompt, search and listing is that of this character, whatever the request asks for."""
    token_id: str = ""
    """Name of the token in audits and logs; not a secret."""
    author: str = ""
    """Author of edits, if the token names none."""
    is_model: bool = False
    """True if a model wrote the content of its requests."""

    def allows(self, scope: Scope) -> bool:
        """Return whether this principal may do something that needs `scope`."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)


LOCAL = Principal()
"""Caller of a service without tenants, which listens only on the loopback address."""
