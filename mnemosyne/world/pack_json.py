"""Converts a world pack to the JSON value that a store keeps, and back.

The JSON value contains the whole pack except the path of its folder, so that the same pack gives the same value on every
host. This module depends on the schema and the codec, never on a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.core.codec import encode, from_plain, to_plain
from mnemosyne.core.errors import CodecError
from mnemosyne.schema.world import WorldPack

PACK_FORMAT = 1


def pack_to_json(world: WorldPack) -> dict[str, Any]:
    """Return `world` as a JSON value. Raises ValueError if the folder of `world` has templates that have not been read."""
    if world.templates is None and world.template_root is not None:
        raise ValueError(
            f"The templates of pack {world.world_id!r} are in a folder; read them before the pack is stored."
        )
    return {"format": PACK_FORMAT, "pack": to_plain(replace(world, template_root=None))}


def with_own_digest(world: WorldPack) -> WorldPack:
    """Return `world` without its folder, and with a digest that is computed from its content.

    For a large pack this takes a while.
    """
    bare = replace(world, template_root=None, templates=world.templates or {}, digest="")
    return replace(bare, digest=hashlib.sha256(encode(pack_to_json(bare))).hexdigest())


def check_format(value: Mapping[str, Any]) -> None:
    """Raise CodecError if a newer release wrote the JSON value `value` of a pack."""
    written = value.get("format")
    if isinstance(written, int) and written > PACK_FORMAT:
        raise CodecError(
            f"The pack was written by a newer release (format {written}, this one reads up to {PACK_FORMAT}); update"
        )


def pack_from_json(value: Mapping[str, Any]) -> WorldPack:
    """Return the pack in `value`, a result of `pack_to_json`.

    Raises CodecError if `value` is not a pack, or if a newer release wrote `value`.
    """
    check_format(value)
    world = from_plain(value.get("pack"), WorldPack)
    return world if world.templates is not None else replace(world, templates={})
