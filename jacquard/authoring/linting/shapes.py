"""Finds the shapes (kind of value and its fields) of all variables that a template may read.

The variables are built by Stream A, which renders templates in play. Therefore the lint always agrees with the
renderer. The variables are built for two sample turns: a rich turn, which has everything, and a poor turn, which has as
little as possible. A field that only the rich turn has may be missing in a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from filament import with_anchors
from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import PlanContext, SearchIntent, Triage
from jacquard.core.quests import META, find_active_quests, is_scalar
from jacquard.pipeline.skeleton.automation import entry_row, template_variables
from jacquard.pipeline.skeleton.todo import TASKS_SHOWN
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne.schema.document import Task, TaskStatus
from mnemosyne.schema.memory import Chain, LoreCategory, MemoryEntry, world_scope
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role, SessionHead
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

NO_FIELDS: Mapping[str, VariableShape] = MappingProxyType({})
GROWING = ("state", "status", "quests")
"""Variables that grow during play."""

TURNING = ("goal", "item", "plan", "quests", "state", "status", "tasks")
"""Variables that may change with every turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariableShape:
    """Kind and fields of a value, as far as they are known before play."""

    kind: str
    """`any`, `text`, `number`, `truth`, `nothing`, `mapping`, `list`, `pair`, `markup` or `module`.

    A `pair` is a value with a description. `markup` is text that a filter printed.
    """
    fields: Mapping[str, VariableShape] = field(default_factory=lambda: NO_FIELDS)
    """Fields of a mapping."""
    optional: frozenset[str] = frozenset()
    """Fields of a mapping that may be missing."""
    closed: bool = False
    """True if the mapping has no fields except `fields`."""
    item: VariableShape | None = None
    """Shape of a list's items (None: unknown)."""

    @property
    def each(self) -> VariableShape:
        """Shape of a list's items (ANY if this shape is unknown)."""
        return self.item or ANY


ANY = VariableShape(kind="any")
TEXT = VariableShape(kind="text")
NUMBER = VariableShape(kind="number")
TRUTH = VariableShape(kind="truth")
NOTHING = VariableShape(kind="nothing")
MARKUP = VariableShape(kind="markup")


def shape_of(value: object, *, closed: bool = False) -> VariableShape:
    """Return the shape of a value. If `closed` is true, the mappings in the value have no fields except those that they
    have now.
    """
    if isinstance(value, bool):
        return TRUTH
    if value is None:
        return NOTHING
    if isinstance(value, Mapping):
        fields = {str(key): shape_of(each, closed=closed) for key, each in value.items()}
        return VariableShape(kind="mapping", fields=fields, closed=closed)
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[1], str) and is_scalar(value[0]):
            return VariableShape(kind="pair")
        items = [shape_of(each, closed=closed) for each in value]
        return VariableShape(kind="list", item=reduce(merge_shapes, items) if items else None)
    return NUMBER if isinstance(value, int | float) else TEXT


def merge_shapes(left: VariableShape, right: VariableShape) -> VariableShape:
    """Return the shape that fits the values of both shapes."""
    if left.kind != right.kind:
        return ANY
    if left.kind == "list":
        items = [each for each in (left.item, right.item) if each is not None]
        return VariableShape(kind="list", item=reduce(merge_shapes, items) if items else None)
    if left.kind != "mapping":
        return left
    names = [*left.fields, *(name for name in right.fields if name not in left.fields)]
    fields, optional = {}, left.optional | right.optional
    for name in names:
        both = [shape.fields[name] for shape in (left, right) if name in shape.fields]
        fields[name] = reduce(merge_shapes, both)
        optional |= {name} if len(both) == 1 else frozenset()
    return VariableShape(kind="mapping", fields=fields, optional=optional, closed=left.closed and right.closed)


def build_variable_shapes(world: WorldPack | None) -> dict[str, VariableShape]:
    """Return the shape of every variable by name. `item` exists only in a block with `each`.

    If `world` is None, the fields of `state`, `status` and `persona` are not known. Otherwise the initial state and the
    persona of `world` are used.
    """
    rich, poor = _variables(_build_sample_pack(), _TASKS), _variables(build_bare_world("specimen"))
    shapes = {name: merge_shapes(shape_of(rich[name], closed=True), shape_of(poor[name], closed=True)) for name in rich}
    shapes["item"] = shape_of(entry_row(_ENTRY), closed=True)
    shapes["quests"] = _open_item_shapes(shape_of(rich["quests"], closed=True))
    shapes |= {"state": ANY, "status": ANY, "persona": VariableShape(kind="mapping")}
    if world is not None:
        variables = _variables(world)
        shapes |= {name: shape_of(variables[name]) for name in ("state", "status", "persona")}
        if variables["quests"]:
            own = merge_shapes(shapes["quests"], shape_of(variables["quests"]))
            shapes["quests"] = replace(own, item=replace(own.each, closed=True))
    return shapes


def _open_item_shapes(rows: VariableShape) -> VariableShape:
    """Return the shapes of rows whose keys are fixed and whose nested values are the author's."""
    steps = rows.each.fields.get("objectives")
    fields = dict(rows.each.fields)
    if steps is not None:
        fields["objectives"] = VariableShape(kind="list", item=replace(steps.each, closed=False))
    return VariableShape(kind="list", item=replace(rows.each, fields=fields))


def _variables(world: WorldPack, tasks: tuple[Task, ...] = ()) -> dict[str, Any]:
    head = SessionHead(
        session_id="specimen",
        world_id=world.world_id,
        branch_id="main",
        turn_id=None,
        depth=0,
        lineage=(),
        version=0,
    )
    state = with_anchors(world.state)
    quests = find_active_quests(state)
    plan = PlanContext(
        triage=Triage.NARRATIVE,
        active_quest_id=quests[0].quest_id if quests else "none",
        current_goal="",
        template_id="chat",
        search_intent=SearchIntent(enabled=True),
    )
    window = SessionWindow(head=head, messages=(), state=state, tasks=tasks)
    request = Turn(
        plan=plan, window=window, world=world, message=Message(role=Role.USER, content=""), config=RuntimeConfig()
    )
    return template_variables(request, state, quests)


_ENTRY = MemoryEntry(
    entry_id="axiom",
    scope=world_scope("specimen"),
    chain=Chain.LORE,
    kind=LoreCategory.AXIOM.value,
    title="t",
    text="t",
)
_TASKS = (
    Task(task_id="first", name="t"),
    Task(task_id="second", name="t", depends_on=("first",), error="t"),
    Task(task_id="done", name="t", status=TaskStatus.COMPLETED),
    *(Task(task_id=f"more-{number}", name="t") for number in range(TASKS_SHOWN)),
)
_QUESTS = {
    "whole": {
        "id": "whole",
        "title": "t",
        "status": "active",
        "progress": "t",
        "objectives": [{"id": "step", "text": "t", "status": "active"}],
    },
    "bare": {"id": "bare", "title": "t", "status": "active"},
}


def _build_sample_pack() -> WorldPack:
    bare = build_bare_world("specimen")
    return replace(bare, lore=(_ENTRY,), state={"quests": _QUESTS}, persona={"name": "t"})


def list_field_names(shape: VariableShape) -> Iterable[str]:
    """Return the fields of a mapping that a template may name."""
    return (name for name in shape.fields if name != META)
