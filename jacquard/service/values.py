"""Defines the values that all parts of the service share: the caller of a request, and the tenant for the service's own
records.
"""

from __future__ import annotations

from jacquard.remote.operation import Scope as Scope
from mnemosyne.stores.locate import DEFAULT_TENANT
from mnemosyne.values import dataclass

SERVICE_TENANT = "jacquard service"
"""Tenant under which the service stores its own records. No token can be created for it."""

_ORDER = (Scope.PLAY, Scope.AUTHOR, Scope.ADMIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Caller of a request, with its tenant and its rights (`scope`: play, author or admin)."""

    tenant: str = DEFAULT_TENANT
    scope: Scope = Scope.ADMIN
    viewer: str | None = None
    """Character whose knowledge limits the caller. Every prompt, search and listing is made for this character, whatever
    the request asks for. None: no limit.
    """
    token_id: str = ""
    """Name of the token in audits and logs; not a secret."""
    author: str = ""
    """Name under which the edits of a caller without a token are recorded. Edits with a token are recorded under `token_id`."""
    is_model: bool = False
    """True if a model wrote the content of the requests."""

    def allows(self, scope: Scope) -> bool:
        """Return whether this principal may do something that needs `scope`."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)


LOCAL = Principal()
"""Caller of every request to a service without tenants. Such a service listens only on the loopback address."""
