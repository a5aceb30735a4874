"""Reads entries of world info from their native fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.world.activation.values import BookSource, SelectiveLogic, WorldInfoEntry, WorldInfoPosition


def read_entry(fields: Mapping[str, Any], *, world: str, uid: str, source: BookSource) -> WorldInfoEntry:
    """Return the entry that native fields describe. CorpusError where a field has a value that it cannot have."""
    try:
        return WorldInfoEntry(
            uid=uid,
            world=world,
            source=source,
            key=tuple(map(str, fields.get("key") or ())),
            key_secondary=tuple(map(str, fields.get("keysecondary") or ())),
            content=str(fields.get("content") or ""),
            comment=str(fields.get("comment") or ""),
            selective_logic=SelectiveLogic(fields.get("selectiveLogic") or 0),
            constant=bool(fields.get("constant")),
            disable=bool(fields.get("disable")),
            order=int(fields.get("order", 100)),
            position=WorldInfoPosition(fields.get("position") or 0),
            depth=int(fields.get("depth", 4)),
            role=int(fields.get("role") or 0),
            outlet_name=str(fields.get("outletName") or ""),
            scan_depth=fields.get("scanDepth"),
            sticky=int(fields.get("sticky") or 0),
            triggers=tuple(fields.get("triggers") or ()),
            match_fields=tuple(
                name
                for name, flag in (
                    ("persona_description", "matchPersonaDescription"),
                    ("character_description", "matchCharacterDescription"),
                    ("scenario", "matchScenario"),
                )
                if fields.get(flag)
            ),
        )
    except (TypeError, ValueError) as error:
        raise CorpusError(f"world info {world!r}, entry {uid!r}: {error}") from error
