"""Client of a jacquard service: uses an engine in another process by the methods of an engine in this process."""

from mnemosyne.core.optional_packages import explain_missing_package

try:
    from jacquard.client.engine import RemoteEngine, RemoteIngestor
    from jacquard.client.errors import ServiceError, ServiceUnreachableError
    from jacquard.client.verbs import RemoteVerbs
    from jacquard.remote.wire import RemoteTurn, ShortReport
except ModuleNotFoundError as error:
    sentence = explain_missing_package("jacquard.client", error.name or "a package", "client")
    raise ModuleNotFoundError(sentence, name=error.name) from error

__all__ = [
    "RemoteEngine",
    "RemoteIngestor",
    "RemoteTurn",
    "RemoteVerbs",
    "ServiceError",
    "ServiceUnreachableError",
    "ShortReport",
]
