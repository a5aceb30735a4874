"""Kinds of blocks and slots stand in one list, `jacquard.core.block_kinds`: no other module lists them or names a slot."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from jacquard.core.block_kinds import KINDS, SLOTS, BlockKind, Subject, remedy_of, slot_of, slot_traits, subject_of

ROOT = Path(__file__).parents[2]
TABLE = "jacquard/core/block_kinds.py"
MOST_NAMED = 3
"""How many kinds a module may name: those that it makes, or that its rule is about. More would be another list of kinds."""


def modules():
    """Yield (path, tree) of every module of jacquard but the table."""
    for file in sorted((ROOT / "jacquard").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name != TABLE:
            yield name, ast.parse(file.read_text(encoding="utf-8"))


def text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_no_other_module_lists_kinds() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "BlockKind":
                found[name].add(node.attr)
    assert {name: kinds for name, kinds in found.items() if len(kinds) > MOST_NAMED} == {}


def written_slots(tree: ast.Module):
    """Yield the line of every `slot="…"`, of every comparison of a slot or kind with a text, and of every list of slots."""
    words = {*SLOTS} | {kind.value for kind in KINDS}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("slot", "kind") and text(node.value) in words:
            yield node.value.lineno
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            # The kind of a store's location is another thing.
            is_about_one = any(
                isinstance(side, ast.Attribute)
                and side.attr in ("slot", "kind")
                and ast.unparse(side) != "location.kind"
                for side in sides
            )
            if is_about_one and any(text(side) in words for side in sides):
                yield node.lineno
        if isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
            members = node.keys if isinstance(node, ast.Dict) else node.elts
            # A quest has a status and a memory a summary as well.
            if len({text(each) for each in members} & {*SLOTS} - {"status", "summary"}) >= 2:
                yield node.lineno


def test_no_other_module_writes_the_name_of_a_slot_or_of_a_kind() -> None:
    found = {name for name, tree in modules() for _ in written_slots(tree)}
    # `template_variables`: some of the values that templates may read have the name of the slot of a block that shows them.
    assert found == {"jacquard/pipeline/skeleton/automation.py"}


def test_every_kind_has_its_row_and_blocks_of_code_their_slot() -> None:
    assert set(KINDS) == set(BlockKind) - {BlockKind.NONE}
    assert {kind: slot_of(kind) for kind, traits in KINDS.items() if traits.slot is not None} == {
        BlockKind.INPUT: "user_input",
        BlockKind.WORLD_INFO: "world_info",
        BlockKind.INSTRUCTION: "instruction",
        BlockKind.CONTEXT: "document",
        BlockKind.REFUSAL: "refused_update",
        BlockKind.FACT: "user_facts",
        BlockKind.RATIONALE: "flesh",
        BlockKind.MEMORY: "flesh",
        BlockKind.EVIDENCE: "flesh",
        BlockKind.MESSAGE: "history",
    }
    with pytest.raises(KeyError):
        slot_of(BlockKind.TEMPLATE)
    assert all(traits.slot in (None, *SLOTS) for traits in KINDS.values())


def test_every_slot_of_a_shipped_layout_or_template_has_its_row() -> None:
    from filament import load_yaml

    folder = ROOT / "templates"
    for file in sorted(folder.glob("layouts/*.yaml")):
        assert {rule["slot"].partition(".")[0] for rule in load_yaml(file.read_text("utf-8"))["slots"]} <= {*SLOTS}
    blocks = load_yaml((folder / "chat" / "template.yaml").read_text("utf-8"))["blocks"]
    ids = {block["id"]: block["slot"] for block in blocks}
    assert set(ids.values()) <= {*SLOTS}
    assert all((SLOTS[slot].block_id or slot) == block_id for block_id, slot in ids.items())


def test_what_an_own_slot_is() -> None:
    own = slot_traits("weather")
    assert (own.shared_layer, own.package_type, own.remedy) == ("knowledge__context", "other", "")
    assert slot_traits("flesh", "knowledge_base").shared_layer == "knowledge__context"
    assert slot_traits("flesh", "relevant_memories").shared_layer == "experience__context"
    assert remedy_of("axioms").startswith("they are the pack's lore")
    assert remedy_of("weather") == remedy_of("status") == ""


@pytest.mark.parametrize(
    ("source", "subject"),
    [
        ("automation:chat/status.j2", Subject.STATE),
        ("automation:chat/axioms.j2", Subject.WORLD),
        ("automation:combat/guidance.j2", Subject.GUIDANCE),
        ("automation:chat/directive.j2", Subject.DIRECTIVE),
        ("automation:chat/summary.j2", Subject.TALK),
        ("automation:own/weather.j2", Subject.WORLD),
        ("world_info:Eldoria", Subject.WORLD),
        ("curation:lore", Subject.MEMORIES),
        ("curation:selector", Subject.MEMORIES),
        ("evidence:tool", Subject.NONE),
        ("document:instruction", Subject.NONE),
        ("host", Subject.NONE),
        ("history", Subject.TALK),
        ("user", Subject.INPUT),
        ("", Subject.NONE),
    ],
)
def test_what_a_block_is_about(source: str, subject: Subject) -> None:
    assert subject_of(source) is subject
