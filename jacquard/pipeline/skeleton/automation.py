"""Renders the skeleton of a prompt from templates, the state and the conversation (Stream A).

The skeleton is the part of a prompt that follows fixed rules. Equal inputs give equal bytes; only new or changed template files
are read from the disk. This module must not import a store, an index, a model or Stream B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from filament import FilamentError, collect_anchors
from jacquard.core.block_kinds import SUMMARY_SLOT, TEMPLATE_SOURCE
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position
from jacquard.core.degradations import Degradation, DegradationCode
from jacquard.core.errors import JacquardError
from jacquard.core.names import mentions, normalise
from jacquard.core.quests import META, QUESTS_KEY, Quest, drop_quests, find_active_quests
from jacquard.core.receipt import CutPart, LeftOut, StateCut
from jacquard.pipeline.evidence.context_blocks import NO_RESULTS, EvidenceBlocks
from jacquard.pipeline.schedule import INJECTION, list_injected_entries
from jacquard.pipeline.skeleton.history import find_history_start, history_limits, trim_history
from jacquard.pipeline.skeleton.messages import find_speakers, history_blocks, input_block
from jacquard.pipeline.skeleton.naming import rename_duplicates
from jacquard.pipeline.skeleton.state_fit import (
    MOST_CHARS,
    MOST_TOKENS,
    count_goal_tokens,
    fit_state,
    fit_texts,
    is_too_large,
)
from jacquard.pipeline.skeleton.todo import list_open_tasks
from jacquard.pipeline.turn import Turn
from jacquard.templating import open_templates
from jacquard.templating.files import TemplateRoot, template_roots
from jacquard.templating.manifest import BlockSpec
from jacquard.templating.profiles import MessageForm
from jacquard.templating.sets import TemplateSet, VariableHashes
from mnemosyne.chains.asides import drop_asides
from mnemosyne.chains.lore import entries_by_category
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.chains.uris import entry_uri
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.evidence import BlockType
from mnemosyne.schema.memory import LoreCategory, MemoryEntry, Trust
from mnemosyne.schema.session import WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

COUNTS_KEPT = 2048
_AUTHORED = ("instruction", "persona", "summary")


@dataclass(frozen=True, kw_only=True, slots=True)
class SkeletonSource:
    """Inputs from which the template blocks of a skeleton are rendered; equal inputs give equal texts."""

    template_id: str
    locale: str
    variables: Mapping[str, Any]
    """Variables that every template can read."""
    directives: tuple[MemoryEntry, ...]
    """Directives (the author's instructions right before the input) and scheduled texts of this turn."""
    digests: Mapping[str, str]
    """Name of a template file -> short hash of its text."""
    without: tuple[BlockType, ...] = ()
    """Types of blocks that the host does not want."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Skeleton:
    """Result of Stream A."""

    blocks: tuple[Block, ...]
    """Template blocks in their order."""
    history: tuple[Block, ...]
    """Conversation, oldest first."""
    user_input: Block
    anchors: Mapping[str, str]
    """Anchor (the name by which ops address a mapping of the state) -> JSON Pointer of the mapping, for all shown anchors."""
    history_start: str | None
    """Id of the first message of the history (None: no history). The id is recorded, so that the history of the next
    prompt can start with the same message.
    """
    source: SkeletonSource
    """Inputs of the template blocks."""
    state_tokens: int = 0
    """Tokens that the state takes in the prompt."""
    state_cut: StateCut | None = None
    """Parts of the state that are not shown completely (None: all are)."""
    results: EvidenceBlocks = NO_RESULTS
    """Blocks of evidence and of the session's document. `jacquard.pipeline.skeleton.stream` adds them; a preview has
    none.
    """
    degradations: tuple[Degradation, ...] = ()
    """Notes on texts that are not shown completely; `jacquard.pipeline.skeleton.stream` adds the notes on the state."""
    left_out: tuple[LeftOut, ...] = ()
    """Messages of the window that are not shown because they do not belong to the story."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownState:
    """Part of a shortened state that a prompt shows: the status (the state without quests), and the active quests by key."""

    status: Mapping[str, Any]
    quests: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _RenderedBlocks:
    """Template blocks with their inputs; `shown` is None if the state is shown completely."""

    blocks: tuple[Block, ...]
    source: SkeletonSource
    state_tokens: int
    cut: StateCut | None = None
    shown: ShownState | None = None


def _state_tokens(blocks: Iterable[Block]) -> int:
    return sum(block.tokens for block in blocks if block.block_type is BlockType.STATE)


class AutomationStream:
    """Renders skeletons. `shipped` is the folder of the shipped templates. Templates of a pack take precedence over
    shipped templates.

    Token counts of recent texts are cached, because most of a skeleton is the same as in the previous turn.
    """

    def __init__(self, estimator: TokenEstimator, shipped: TemplateRoot) -> None:
        self._count = lru_cache(maxsize=COUNTS_KEPT)(estimator.estimate)
        self._shipped = shipped

    def render(self, turn: Turn, state_tokens: int | None = None, without: tuple[BlockType, ...] = ()) -> Skeleton:
        """Return the skeleton of one turn. The method reads template files, so call it off the event loop.

        Args:
            turn: the turn to render.
            state_tokens: maximum tokens of the state (None: only the size limit of the templates applies).
            without: types of blocks to leave out.

        Raises TemplateError with file and line if a template cannot be rendered.
        """
        templates = open_templates(template_roots((self._shipped,), turn.world))
        return self.render_with(templates, turn, state_tokens, without)

    def render_with(
        self,
        templates: TemplateSet,
        turn: Turn,
        state_tokens: int | None = None,
        without: tuple[BlockType, ...] = (),
    ) -> Skeleton:
        """Return the skeleton of one turn, rendered with `templates` instead of the world's templates.

        This method is for previews and comparisons; see `render` for the other arguments. Raises TemplateError if a
        template cannot be rendered.
        """
        view = view_state(turn.window.state)
        state = view.shown
        quests = find_active_quests(state)
        directives = (
            *select_directives(turn.world, turn.text, turn.lore.gone),
            *list_injected_entries(turn.world, turn.plan),
        )
        variables, directives, cuts = fit_texts(template_variables(turn, state, quests), _AUTHORED, directives)
        source = SkeletonSource(
            template_id=turn.config.template_id or turn.plan.template_id,
            locale=turn.world.locale,
            variables=variables,
            directives=directives,
            digests=templates.digests,
            without=without,
        )
        made = self._render_template_blocks(templates, source, quests, state_tokens)
        start = find_history_start(turn.window)
        shown = turn.shown
        # In the engine, the history of a turn excludes what its summary covers; previews have no summary.
        if turn.history is None:
            shown = trim_history(turn.window.messages, start, history_limits(turn.config), self._count)
        if BlockType.CONVERSATION in without:
            shown = ()
        held, profile = (*turn.pinned, *shown), turn.profile
        told = _drop_old_asides(held) if profile.messages is MessageForm.ESCAPED else held
        left_out = _describe_asides(held, told) if len(told) < len(held) else ()
        held = told
        speakers = find_speakers(
            (*(each.message for each in held), turn.message), turn.world, profile, turn.config.layers.agent
        )
        return Skeleton(
            blocks=made.blocks,
            history=history_blocks(held, turn.world, self._count, turn.session_id, profile, speakers),
            user_input=input_block(turn.message, self._count, profile, speakers),
            anchors={} if BlockType.STATE in without else find_shown_anchors(view, quests, made.shown),
            history_start=shown[0].message.message_id if shown else None,
            left_out=left_out,
            source=made.source,
            state_tokens=made.state_tokens,
            state_cut=made.cut,
            degradations=tuple(map(_describe_cut, cuts)),
        )

    def _render_template_blocks(
        self, templates: TemplateSet, source: SkeletonSource, quests: tuple[Quest, ...], limit_tokens: int | None
    ) -> _RenderedBlocks:
        """Render the template blocks; a state of more than `limit_tokens` is shortened first."""
        goal = str(source.variables["goal"])
        whole_tokens: int | None = None
        if not is_too_large(source.variables):
            blocks = render_blocks(templates, source, self._count)
            whole_tokens = _state_tokens(blocks) + count_goal_tokens(goal, self._count)
            if limit_tokens is None or whole_tokens <= limit_tokens:
                return _RenderedBlocks(blocks=blocks, source=source, state_tokens=whole_tokens)

        def tokens_of(variables: Mapping[str, Any]) -> int:
            """Return the tokens of the state in some variables; the rest of a long goal counts too."""
            shown = replace(source, variables=variables)
            blocks = render_blocks(templates, shown, self._count, only=BlockType.STATE)
            left = self._count(str(variables["goal"])) if count_goal_tokens(goal, len) else 0
            return _state_tokens(blocks) + left

        limit = MOST_TOKENS if limit_tokens is None else limit_tokens
        variables, cut, rows = fit_state(source.variables, quests, limit, tokens_of, whole_tokens)
        source = replace(source, variables=variables)
        return _RenderedBlocks(
            blocks=render_blocks(templates, source, self._count),
            source=source,
            state_tokens=tokens_of(variables),
            cut=cut,
            shown=None if cut is None else ShownState(status=variables["status"], quests=rows),
        )


def _drop_old_asides(held: Sequence[WindowMessage]) -> tuple[WindowMessage, ...]:
    """Return the messages without out-of-story talk, except the newest turn's, so that its wishes are read once."""
    newest = next((place for place, each in enumerate(held) if each.turn_id == held[-1].turn_id), 0)
    return (*drop_asides(held[:newest]), *held[newest:])


def _describe_asides(held: Sequence[WindowMessage], told: Sequence[WindowMessage]) -> tuple[LeftOut, ...]:
    """Return the receipt's lines on messages that are stored and not shown, each by its id."""
    known = {each.message.message_id for each in told}
    reason = "Talk outside of the story is shown in the turn after it alone."
    ids = (each.message.message_id for each in held)
    return tuple(
        LeftOut(what="message", code="aside", reason=reason, first=each, count=1) for each in ids if each not in known
    )


def _describe_cut(cut: CutPart) -> Degradation:
    name = cut.path.lstrip("/").replace("/", ".")
    detail = (
        f"{name} has {cut.total:,} {cut.unit}, and a template takes at most {MOST_CHARS:,} characters of such a text: the first "
        f"{cut.shown:,} {cut.unit} of it are given. Shorten it, or move a part of it to lore/."
    )
    return Degradation(code=DegradationCode.BLOCK_CUT.value, detail=detail)


def render_blocks(
    templates: TemplateSet, source: SkeletonSource, count: Callable[[str], int], *, only: BlockType | None = None
) -> tuple[Block, ...]:
    """Return the blocks that `templates` make of `source`, in the order of the template's manifest.

    If `only` is given, return only blocks of this type.

    If a directive has the same id as a template block, its block gets the id `directive:ID`, even if the template block
    is not rendered. `count` returns the tokens of a text. Raises TemplateError if a template cannot be rendered.
    """
    blocks: list[Block] = []
    specs, hashes = templates.blocks(source.template_id), VariableHashes(source.variables)
    for spec in specs:
        if (only is not None and spec.type is not only) or _is_unwanted(spec, source.without):
            continue
        if spec.each is None:
            blocks += _render_spec(templates, spec, source, hashes, count)
            continue
        for rank, entry in enumerate(source.directives):
            blocks += _render_spec(templates, spec, source, hashes.with_item(entry_row(entry)), count, entry, rank)
    return rename_duplicates(blocks, {spec.block_id for spec in specs})


def make_block_ids_unique(skeleton: Skeleton, others: Sequence[Block]) -> tuple[Skeleton, tuple[Block, ...]]:
    """Return (skeleton, others) with block ids that are unique in the whole prompt. `others` are the blocks of the
    prompt outside of the skeleton.
    """
    blocks, history = skeleton.blocks, skeleton.history
    named = rename_duplicates([skeleton.user_input, *blocks, *history, *others])[1:]
    first, last = len(blocks), len(blocks) + len(history)
    return replace(skeleton, blocks=named[:first], history=named[first:last]), named[last:]


def _render_spec(
    templates: TemplateSet,
    spec: BlockSpec,
    source: SkeletonSource,
    hashes: VariableHashes,
    count: Callable[[str], int],
    entry: MemoryEntry | None = None,
    rank: int = 0,
) -> tuple[Block, ...]:
    """Return the block of a spec, or none if its template prints nothing."""
    content = templates.render(spec.name, hashes).strip("\n")
    if not content.strip():
        return ()
    title = spec.titles.get(source.locale.split("-")[0]) or spec.titles.get("en") or spec.block_id
    kind = _kind(entry)
    block = Block(
        block_id=entry.entry_id if entry else spec.block_id,
        kind=kind,
        block_type=spec.type,
        content=content,
        place=BlockPlace(
            slot=spec.slot,
            placement=_placement(spec, entry),
            layer=spec.layer,
            section=spec.section,
            volatile=spec.volatile,
        ),
        origin=BlockOrigin(
            source=f"{TEMPLATE_SOURCE}{spec.name}",
            title=(entry.title if entry else "") or title,
            entities=entry.entities if entry else (),
            category=LoreCategory.DIRECTIVE if entry else None,
            trust=entry.trust if entry else Trust.AUTHORED,
            uri=entry_uri(entry) if kind is BlockKind.DIRECTIVE and entry else "",
        ),
        priority=spec.priority,
        rank=rank,
        tokens=count(content),
    )
    return (block,)


def _is_unwanted(spec: BlockSpec, without: tuple[BlockType, ...]) -> bool:
    """Return whether a host does not want a block; the summary goes with the conversation."""
    return spec.type in without or (spec.slot == SUMMARY_SLOT and BlockType.CONVERSATION in without)


def _kind(entry: MemoryEntry | None) -> BlockKind:
    if entry is None:
        return BlockKind.TEMPLATE
    return BlockKind.INJECTION if entry.kind == INJECTION else BlockKind.DIRECTIVE


def _placement(spec: BlockSpec, entry: MemoryEntry | None) -> Placement:
    if entry is not None:
        return Placement(position=Position.USER_ANCHOR, priority=entry.priority)
    return Placement(position=Position.SYSTEM, order=spec.order)


def template_variables(turn: Turn, state: Mapping[str, Any], quests: tuple[Quest, ...]) -> dict[str, Any]:
    """Return the variables that every template can read. They are plain values and never contain the user's input.
    `state` is the state without the author's rules, and `quests` are the active quests.
    """
    plan, world, gone = turn.plan, turn.world, turn.lore.gone
    return {
        "instruction": world.instruction,
        "persona": world.persona,
        "axioms": [entry_row(entry) for entry in entries_by_category(world.lore, LoreCategory.AXIOM, gone)],
        "state": state,
        "status": drop_quests(state),
        "quests": [quest_row(quest, focused=quest.quest_id == plan.active_quest_id) for quest in quests],
        "goal": plan.current_goal,
        "tasks": list_open_tasks(turn.window.tasks) if turn.facts.tasks is None else dict(turn.facts.tasks),
        "summary": turn.window.summary.summary.content if turn.window.summary else "",
        "plan": {
            "active_quest_id": plan.active_quest_id,
            "template_id": plan.template_id,
            "temporal_context": plan.search_intent.temporal_context.value,
            "overview": plan.search_intent.overview.value if plan.search_intent.overview else "",
        },
        "world": {"id": world.world_id, "title": world.title},
        "user_name": world.user_name,
        "boundary": turn.boundary,
        "locale": world.locale,
        "zh": world.locale.lower().startswith("zh"),
    }


def entry_row(entry: MemoryEntry) -> dict[str, Any]:
    """Return the fields of an axiom or directive that a template may read."""
    return {"id": entry.entry_id, "title": entry.title, "text": entry.text}


def quest_row(quest: Quest, *, focused: bool) -> dict[str, Any]:
    """Return the fields of an active quest that a template may read. Only the open steps of the quest are included.

    `focused` is true for the quest that the turn is about.
    """
    row: dict[str, Any] = {META: quest.raw.get(META), "id": quest.quest_id}
    if focused:
        row["focus"] = True
    row["status"] = quest.raw.get("status")
    row["title"] = quest.raw.get("title")
    if quest.open_objectives:
        row["objectives"] = [dict(step.raw) for step in quest.open_objectives]
    if quest.raw.get("progress") is not None:
        row["progress"] = quest.raw["progress"]
    return {key: value for key, value in row.items() if value is not None}


def select_directives(world: WorldPack, user_message: str, hidden: frozenset[str]) -> tuple[MemoryEntry, ...]:
    """Return the directives (the author's instructions) of this turn, without directives whose id is in `hidden`.

    A directive belongs to the turn if it is marked `constant`, or if the user's message contains one of its keywords.
    """
    text = normalise(user_message)
    return tuple(
        entry
        for entry in entries_by_category(world.lore, LoreCategory.DIRECTIVE, hidden)
        if entry.metadata.get("constant") is True or any(mentions(text, key) for key in entry.keys)
    )


def find_shown_anchors(view: StateView, quests: tuple[Quest, ...], shown: ShownState | None = None) -> dict[str, str]:
    """Return anchor -> JSON Pointer in the complete state, for each anchor in the part of the state that the prompt
    shows.

    An anchor is the name by which ops address a mapping. The prompt shows the status, the active quests and their open steps;
    of a shortened state it shows only the part `shown` (None: the state is not shortened). Raises JacquardError if two mappings
    of the state have the same anchor.
    """
    try:
        anchors = view.anchors
    except FilamentError as error:
        raise JacquardError(f"The state has ambiguous anchors. {error}") from error
    visible = set(_quest_places(quests, shown))
    if shown is None:
        return {
            anchor: pointer
            for anchor, pointer in anchors.items()
            if pointer in visible or not f"{pointer}/".startswith(f"/{QUESTS_KEY}/")
        }
    status_anchors = collect_anchors(shown.status)
    return {
        anchor: pointer
        for anchor, pointer in anchors.items()
        if pointer in visible or status_anchors.get(anchor) == pointer
    }


def _quest_places(quests: tuple[Quest, ...], shown: ShownState | None) -> Iterator[str]:
    """Yield the JSON Pointers of the active quests and open steps that are shown."""
    for quest in quests:
        row = quest.raw if shown is None else shown.quests.get(quest.key)
        if row is None:
            continue
        place = f"/{QUESTS_KEY}/{quest.key.replace('~', '~0').replace('/', '~1')}"
        yield place
        steps = quest.open_objectives
        if shown is not None:
            steps = steps[: len(row.get("objectives", ()))]
        yield from (f"{place}/objectives/{step.index}" for step in steps)
