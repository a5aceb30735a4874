"""Records the snapshot of a prompt: all inputs from which the prompt can be made again. Pure.

A snapshot contains the rendered blocks, the layout, the rules of the budget, the configuration (without secrets), and
the templates' variables, with a hash of every template. `jacquard.authoring.replay.replay` makes the prompt again from
the snapshot. The snapshot is a part of the turn's record. It is stored, exported and erased with the record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

from jacquard.config.sections import RuntimeConfig, drop_secrets
from jacquard.core.blocks import Block, BlockOrigin, BlockPlace, SkeinTemplate
from jacquard.core.quests import drop_quests
from jacquard.pipeline.record.stored_turn import SNAPSHOT_KEY, report_damage
from jacquard.pipeline.skeleton.automation import SkeletonSource
from jacquard.pipeline.weaving.pieces import BLOCK_FIELDS, fill_block, point_at_pieces
from mnemosyne.core import codec
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

SNAPSHOT_VERSION = 3
_STATUS = "status"
_LEAVES = frozenset((str, int, float, bool, type(None)))


class _Leaners(dict[type[Any], Callable[[Any], Any]]):
    """Functions that make plain values, by type."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], Any]:
        made = self[kind] = _drop_default_fields(kind)
        return made


_LEANERS = _Leaners()


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSnapshot:
    """The inputs of one prompt."""

    source: SkeletonSource
    """Inputs of the template blocks."""
    blocks: tuple[Block, ...]
    """The rendered blocks of both streams (skeleton and memories)."""
    history: tuple[Block, ...]
    """The rendered messages of the conversation, oldest first."""
    user_input: Block
    layout: SkeinTemplate
    config: Mapping[str, Any]
    """The turn's configuration as plain values, without defaults and secrets."""
    counter: str
    """The name of the token estimator."""
    limit_tokens: int
    at: datetime
    """The time for which ages were computed."""
    carried: tuple[Block, ...] = ()
    """Shortened and masked blocks, in the form in which the prompt shows them."""
    dropped: tuple[str, ...] = ()
    """Ids of blocks that were rendered and are not in the prompt."""
    layer_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: EMPTY)
    """Attributes of the XML elements around layers, as in `Skein`."""
    version: int = SNAPSHOT_VERSION
    assembler: str = ""
    """The class name of the host's assembler; '' if the built-in assembler made the prompt."""

    @property
    def runtime(self) -> RuntimeConfig:
        """The turn's configuration."""
        return codec.from_plain(dict(self.config), RuntimeConfig)


def config_to_plain(config: RuntimeConfig) -> dict[str, Any]:
    """Return a configuration as plain values, without defaults and without secrets."""
    lean: dict[str, Any] = drop_secrets(_drop_defaults(config))
    return lean


def snapshot_to_json(
    snapshot: PromptSnapshot, messages: Sequence[Mapping[str, Any]], places: Mapping[str, tuple[int, int]]
) -> dict[str, Any]:
    """Return a snapshot as plain values, without defaults and without values that follow from other fields.

    Texts that are also in `messages`, the messages of the same record in recorded form, are left out too. `places`
    states where these texts are (`split_messages`).
    """
    # Variables are plain values already.
    variables = {key: value for key, value in snapshot.source.variables.items() if key != _STATUS}
    plain: dict[str, Any] = _drop_defaults(replace(snapshot, source=replace(snapshot.source, variables=EMPTY)))
    plain["version"] = snapshot.version
    plain["source"]["variables"] = variables
    point_at_pieces(list(_list_blocks(plain)), messages, places)
    return plain


def snapshot_from_json(plain: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> PromptSnapshot:
    """Return the snapshot from `plain`, the result of `snapshot_to_json` for the same `messages`.

    Raises CodecError, TypeError or LookupError for any other value.
    """
    filled = {
        name: [fill_block(each, messages) for each in value] if isinstance(value, list) else fill_block(value, messages)
        for name, value in plain.items()
    }
    snapshot = codec.from_plain(filled, PromptSnapshot)
    state = snapshot.source.variables.get("state") or {}
    variables = {**snapshot.source.variables, _STATUS: drop_quests(state)}
    return replace(snapshot, source=replace(snapshot.source, variables=variables))


def _list_blocks(plain: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for value in plain.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and "block_id" in each:
                yield each


def read_snapshot(record: TurnRecord) -> PromptSnapshot | None:
    """Return the snapshot of a recorded turn. Return None if the turn was imported, because it has no prompt.

    Raises DamagedRecordError if the snapshot cannot be read.
    """
    prompt = record.prompt or {}
    plain = prompt.get(SNAPSHOT_KEY)
    if not isinstance(plain, Mapping):
        return None
    with report_damage(record, "tape"):
        snapshot = snapshot_from_json(plain, prompt["messages"])
        _ = snapshot.runtime
    return snapshot


def _drop_defaults(value: Any) -> Any:
    return value if type(value) in _LEAVES else _LEANERS[type(value)](value)


def _drop_default_fields(kind: type[Any]) -> Callable[[Any], Any]:
    """Return a function that makes plain values of a kind; a turn has some hundred values of a dozen kinds."""
    if kind is Block:
        defaults = {
            **codec.find_defaults(Block),
            **{f"place.{name}": each for name, each in codec.find_defaults(BlockPlace).items()},
            **{f"origin.{name}": each for name, each in codec.find_defaults(BlockOrigin).items()},
        }
        names = tuple(path.rpartition(".")[2] for path in BLOCK_FIELDS)
        left_out = tuple(defaults[path] for path in BLOCK_FIELDS)
        return partial(_select_changed_fields, names, left_out, attrgetter(*BLOCK_FIELDS))
    if dataclasses.is_dataclass(kind) or issubclass(kind, codec.Struct):
        names, left_out = zip(*codec.find_defaults(kind).items(), strict=True)
        # Two names at least, because `attrgetter` returns a tuple only then.
        return partial(_select_changed_fields, names, left_out, attrgetter(*names, names[0]))
    if issubclass(kind, Enum):
        return attrgetter("_value_")
    if issubclass(kind, datetime):
        return codec.format_time
    if issubclass(kind, Mapping):
        return lambda held: {
            key: inner if type(inner) in _LEAVES else _LEANERS[type(inner)](inner) for key, inner in held.items()
        }
    if issubclass(kind, set | frozenset):
        return sorted
    if issubclass(kind, Sequence) and not issubclass(kind, str):
        return lambda held: [inner if type(inner) in _LEAVES else _LEANERS[type(inner)](inner) for inner in held]
    return lambda held: held


def _select_changed_fields(
    names: tuple[str, ...], defaults: tuple[Any, ...], held: Callable[[Any], tuple[Any, ...]], value: Any
) -> dict[str, Any]:
    return {
        name: each if type(each) in _LEAVES else _LEANERS[type(each)](each)
        for name, default, each in zip(names, defaults, held(value), strict=False)
        if each is not default and each != default
    }
