"""Size limits for the parts of request bodies: each list and mapping of a request type has one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import fields, is_dataclass
from typing import Any

from jacquard.core.errors import ConfigError

MOST = "most"
"""Key in a field's metadata for another limit than MOST_ENTRIES."""

MOST_ENTRIES = 1_000
MOST_CHARS = 20_000
"""Maximum characters of a name, a reason or another text that is not content."""

_CONTENTS = frozenset({"content", "text", "result", "chunk", "message", "messages"})
"""Fields whose texts may be long; the settings of the engine limit them."""


def check_sizes(body: Any, place: str = "") -> None:
    """Raise ConfigError for the first part of a request's body that is larger than its field may be.

    `limits.body_bytes` limits the contents of a free mapping or a message of a chat API.
    """
    for each in fields(body):
        value, named = getattr(body, each.name), f"{place}{each.name}"
        is_list = isinstance(value, Sized) and not isinstance(value, str)
        most = each.metadata.get(MOST, MOST_ENTRIES)
        if is_list and len(value) > most:
            raise ConfigError(f"{named} has {len(value):,} entries; send at most {most:,} at once.")
        is_short = each.name not in _CONTENTS and not isinstance(value, Mapping)
        for item in (value.values() if isinstance(value, Mapping) else value) if is_list else (value,):
            if is_dataclass(item):
                check_sizes(item, f"{named}.")
            elif is_short and isinstance(item, str) and len(item) > MOST_CHARS:
                raise ConfigError(f"{named} has {len(item):,} characters; it may have at most {MOST_CHARS:,}.")
