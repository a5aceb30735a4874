"""Provides the client of a jacquard service: an engine in another process, used by the methods of an engine in this
process.

`__init__.pyi` lists the public names with the module that defines each. A module is loaded when one of its names is
first used.
"""

from mnemosyne.core.optional_packages import attach_names

_CONNECTING = ("RemoteEngine", "RemoteIngestor", "RemoteTurn", "RemoteVerbs", "ShortReport")
__getattr__, __dir__, __all__ = attach_names(__name__, __file__, {("httpx", "client"): _CONNECTING})
