"""The engine of a service in another process, with the methods of the engine in this one."""

from jacquard.client.engine import RemoteEngine, RemoteIngestor
from jacquard.client.errors import ServiceError, ServiceUnreachableError
from jacquard.client.verbs import RemoteVerbs

__all__ = ["RemoteEngine", "RemoteIngestor", "RemoteVerbs", "ServiceError", "ServiceUnreachableError"]
