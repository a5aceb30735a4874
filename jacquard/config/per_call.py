"""Reads the settings that a call of the service brings, and refuses those that a call may not set.

The key `call` in the definition of a field states the values to which a call may set the field
(`jacquard.config.fields`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jacquard.config.fields import ANY, is_section, table_of
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import MOST_NAMED, config_from_mapping
from jacquard.core.errors import ConfigError
from mnemosyne.shapes import Record

CLOSED = "a call cannot set this; only the settings of the service and tokens of scope admin do"


def read_call_settings(given: Mapping[str, Any], base: RuntimeConfig) -> RuntimeConfig:
    """Return `base` overridden by `given`, the settings of a call, nested like the sections.

    Raises ConfigError that names every setting that a call may not set, and every value that is higher than a call may
    set.
    """
    known = list(_find_settings(given))
    _refuse([f"{'.'.join(path)}: {CLOSED}" for path, rules in known if rules.get("call") is None])
    config = config_from_mapping(given, base)
    _refuse(
        [f"{'.'.join(path)}: {fault}" for path, rules in known if (fault := _find_excess(path, rules, config, base))]
    )
    return config


def _refuse(faults: list[str]) -> None:
    if faults:
        more = [f"and {len(faults) - MOST_NAMED} more"] if len(faults) > MOST_NAMED else []
        raise ConfigError("\n".join((*faults[:MOST_NAMED], *more)))


def _find_settings(
    given: Mapping[str, Any], table: Record | None = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield path and rules of each setting that is given; unknown names are left to the reader of settings."""
    for each in (table or table_of(RuntimeConfig)).fields:
        value = given.get(each.name)
        if each.name in given and not is_section(each):
            yield (*path, each.name), each.rules
        elif isinstance(value, Mapping) and isinstance(each.shape, Record):
            yield from _find_settings(value, each.shape, (*path, each.name))


def _find_excess(path: tuple[str, ...], rules: Mapping[str, Any], config: RuntimeConfig, base: RuntimeConfig) -> str:
    """Return the fault of a value that is higher than a call may set; '' if there is none."""
    if rules["call"] == ANY:
        return ""
    value: Any = config
    own: Any = base
    for name in path:
        value, own = getattr(value, name), getattr(own, name)
    if isinstance(own, Mapping):
        is_higher = any(key not in value or value[key] > most for key, most in own.items())
        return f"must have at most the numbers of the service: {dict(own)}" if is_higher else ""
    if isinstance(own, str):
        words = rules["words"]
        allowed = words[: words.index(own) + 1]
        return f"is {value!r}; in a call it can be {', '.join(allowed)}" if value not in allowed else ""
    # Without a limit of the service, a call may leave it open too.
    if value is None:
        return "" if own is None else f"is none; a call can set at most {max(own, rules['call'])}"
    most = rules["call"] if own is None else max(own, rules["call"])
    return f"is {value}; a call can set at most {most}" if value > most else ""
