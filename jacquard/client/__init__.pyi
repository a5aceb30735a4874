from .engine import RemoteEngine, RemoteIngestor, RemoteTurn, ShortReport
from .errors import ServiceError, ServiceUnreachableError
from .verbs import RemoteVerbs

__all__ = [
    "RemoteEngine",
    "RemoteIngestor",
    "RemoteTurn",
    "RemoteVerbs",
    "ServiceError",
    "ServiceUnreachableError",
    "ShortReport",
]
