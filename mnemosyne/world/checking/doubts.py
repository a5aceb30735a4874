"""Finds content of a world pack that is legal but probably a mistake. Each finding names the place and a correction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from filament.state.conventions import META, is_pair, meta_of
from filament.state.rules import EXTENSIBLE, TEMPLATE, Rules, is_group
from mnemosyne.core.faults import FaultList, SourceLocation
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.world.checking.state import StateTree, Where, walk_nodes
from mnemosyne.world.format.check import PackFaults
from mnemosyne.world.reading.draft import Part

LARGE_PERSONA_CHARS = 20_000
"""A persona with at least this many characters is reported, because it would take most of a usual prompt."""

_SENTENCE_SIGN = re.compile(r"[,;:.!?，；：。！？、—]")
_CJK = lazy_pattern("[\u3400-\u9fff]")
_LONGER, _LONGER_CJK = 1.5, 3
_WORDS, _CHARS_CJK = 3, 5


def find_doubts(tree: StateTree, world: Part) -> PackFaults:
    """Return the doubtful places in the state and the persona of a pack. The pack must have no faults.

    `tree` is the state, and `world` is the file `world.yaml`, which contains the persona.
    """
    doubts, persona, place = PackFaults(), world.value["persona"], world.place.at("persona")
    _find_pairs(tree.root, tree.where, doubts)
    for path, node, rules, _ in walk_nodes(tree.root):
        if isinstance(node, dict):
            _check_template(node, rules, tree.where((*path, META, TEMPLATE)), doubts)
    _find_pairs(persona, lambda path: place.at(*path), doubts)
    _check_persona(persona, place, doubts)
    return doubts


def _find_pairs(root: dict[str, Any], where: Where, doubts: FaultList) -> None:
    """Add a doubt for each pair of texts that is read as a value with its description but looks like a list of two."""
    for path, node, rules, described in walk_nodes(root):
        template = meta_of(node).get(TEMPLATE)
        if isinstance(template, dict):
            _find_pairs(template, lambda inner, path=path: where((*path, META, TEMPLATE, *inner)), doubts)  # type: ignore[misc]
        if not (described and is_pair(node) and isinstance(node[0], str)):
            continue
        field = next((str(step) for step in reversed(path) if isinstance(step, str)), "")
        is_declared = rules.type_of(field) is not None or rules.description_rule(field) is not None
        if not is_declared and not _reads_as_description(node[0], node[1], field):
            doubts.add(
                where(path),
                f"has two texts, which are read as a value with its description and shown as '{node[0]} ({node[1]})'; if this is a "
                f"list, write $meta: {{lists: [{field}]}} beside it, or else $meta: {{types: {{{field}: text}}}}",
            )


def _reads_as_description(value: str, text: str, field: str) -> bool:
    """Return whether `text` clearly describes `value`."""
    is_plural = field.isascii() and field.endswith("s") and not field.endswith(("ss", "us", "is"))
    if is_plural or (len(text) <= len(value) and not _SENTENCE_SIGN.search(text)):
        return False
    if _CJK.search(text):
        return bool(_SENTENCE_SIGN.search(text)) or len(text) >= max(_CHARS_CJK, _LONGER_CJK * len(value))
    is_phrase = len(text.split()) >= _WORDS
    return is_phrase and (bool(_SENTENCE_SIGN.search(text)) or len(text) >= _LONGER * len(value))


def _check_template(node: Mapping[str, Any], rules: Rules, place: SourceLocation, doubts: FaultList) -> None:
    """Add a doubt about a mapping that has a template for new things, although a model may not add things to it."""
    own = meta_of(node)
    if not isinstance(own.get(TEMPLATE), dict) or EXTENSIBLE in own or rules.extensible or not rules.holds_things:
        return
    members = [value for key, value in node.items() if key != META]
    things = [value for value in members if isinstance(value, dict) and not is_group(value)]
    if things or not members:
        doubts.add(
            place,
            "is for things that a model cannot add, because this mapping is not extensible; write extensible: true beside it, or "
            "extensible: false if there are to be no others",
        )


def _check_persona(persona: dict[str, Any], place: SourceLocation, doubts: FaultList) -> None:
    chars = 0
    for path, node, _, _ in walk_nodes(persona):
        chars += len(node) if isinstance(node, str) else 0
        if node is None:
            doubts.add(
                place.at(*path),
                "has no value, so a prompt shows null; in {voice: a, b} YAML reads b as a key, so write voice: 'a, b', or remove "
                "the key",
            )
    if chars > LARGE_PERSONA_CHARS:
        doubts.add(
            place,
            f"has {chars:,} characters; where a prompt has no room for all of it, only the beginning of its texts is shown. Move "
            "what is not needed in each turn to lore/",
        )
