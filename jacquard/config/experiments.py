"""Chooses the arm (variant) of a session in each A/B experiment, and applies the settings of these arms. Pure.

The arm is chosen by a stable hash of the experiment's name and the session's id. Therefore a session is in the same arm
in every process and on every machine, and experiments are independent of one another. The turn, its receipt and its
events get the tag `ab.<experiment>` with the name of the arm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jacquard.config.sections import ArmConfig, RuntimeConfig
from jacquard.config.settings import OF_NO_ARM, config_from_mapping
from jacquard.core.errors import ConfigError
from mnemosyne.schema.memory import EMPTY

TAG = "ab."
_BUCKETS = 2**64


def arm_of(experiment: str, arms: Mapping[str, ArmConfig], session_id: str) -> str:
    """Return the name of the arm of the session `session_id` in the experiment `experiment`.

    Arms get sessions in proportion to their shares. Raises ConfigError if no arm has a share above 0.
    """
    total = sum(arm.share for arm in arms.values())
    if total <= 0:
        raise ConfigError(f"experiments.{experiment}: no arm has a share; give one a share above 0")
    digest = hashlib.sha256(f"{experiment}\0{session_id}".encode("utf-8", "surrogatepass")).digest()
    place = int.from_bytes(digest[:8], "big") / _BUCKETS * total
    for name, arm in arms.items():
        place -= arm.share
        if place < 0:
            return name
    return [name for name, arm in arms.items() if arm.share > 0][-1]


def apply_experiments(config: RuntimeConfig, session_id: str) -> RuntimeConfig:
    """Return the configuration of one session: `config`, overridden by the settings of the session's arms.

    The result has a tag for each arm, and no experiments. Raises ConfigError if an arm has an unknown or forbidden
    setting, or if two arms of the session set the same setting.
    """
    if not config.experiments:
        return config
    chosen = {name: arm_of(name, arms, session_id) for name, arms in config.experiments.items()}
    setters: dict[tuple[str, ...], str] = {}
    settled = replace(config, experiments=EMPTY)
    for name, arm in chosen.items():
        changes = config.experiments[name][arm].config
        for path in _leaves(changes):
            if path[0] in OF_NO_ARM:
                raise ConfigError(f"experiments.{name}.{arm}: {path[0]!r} cannot be set by an arm")
            if setters.setdefault(path, name) != name:
                where = ".".join(path)
                raise ConfigError(f"experiments {setters[path]!r} and {name!r} both set {where}; let one of them do it")
        try:
            settled = config_from_mapping(changes, settled)
        except ConfigError as error:
            raise ConfigError(f"experiments.{name}.{arm}: {error}") from error
    return replace(settled, tags={**config.tags, **{f"{TAG}{name}": arm for name, arm in chosen.items()}})


def with_viewer(config: RuntimeConfig, session_id: str, viewer: str) -> RuntimeConfig:
    """Return the configuration of one session with the viewer `viewer`, even if an arm of an experiment sets another
    viewer.
    """
    return replace(apply_experiments(config, session_id), viewer=viewer)


def tags_of_session(config: RuntimeConfig, session_id: str) -> Mapping[str, str]:
    """Return the tags of a session: the tags of `config`, and for each experiment a tag with the session's arm."""
    arms = {f"{TAG}{name}": arm_of(name, arms, session_id) for name, arms in config.experiments.items()}
    return {**config.tags, **arms}


def check_experiments(config: RuntimeConfig) -> None:
    """Check the settings of all arms. Without this check, a fault of an arm would appear only in the sessions of this
    arm.

    Raises ConfigError that names all faults.
    """
    faults: list[str] = []
    setters: dict[tuple[str, ...], str] = {}
    bare = replace(config, experiments=EMPTY)
    for name, arms in config.experiments.items():
        paths = {path for arm in arms.values() for path in _leaves(arm.config)}
        for path in sorted(paths & setters.keys()):
            faults.append(
                f"experiments {setters[path]!r} and {name!r} both set {'.'.join(path)}; let one of them do it"
            )
        setters.update(dict.fromkeys(paths, name))
        for arm, settings in arms.items():
            try:
                apply_experiments(replace(bare, experiments={name: {arm: replace(settings, share=1.0)}}), "")
            except ConfigError as error:
                faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))


def _leaves(tree: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*at, str(key)))
        else:
            yield (*at, str(key))
