"""Handlers for authors: the templates of a world as texts, their faults, previews, golden cases, and what wakes lore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from jacquard.authoring.golden import GoldenResult, find_golden_cases, run_case
from jacquard.authoring.linting.lint import lint_templates as find_faults
from jacquard.authoring.lore_comparison import LoreComparison, compare_lore
from jacquard.authoring.opening import find_world_faults
from jacquard.authoring.render import Rendering, compare, render_turn, rendering_of
from jacquard.authoring.replay.replay import replay_prompt
from jacquard.authoring.target import TemplateTarget
from jacquard.authoring.turns import AuthorTurn, TurnReader
from jacquard.core.errors import ConfigError
from jacquard.core.names import mentions, normalise
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot
from jacquard.pipeline.record.stored_turn import report_of
from jacquard.remote.bodies import (
    ConditionValue,
    GoldenRequest,
    LintAnswer,
    LintRequest,
    LoreMatch,
    LoreMatches,
    MatchRequest,
    PreviewAnswer,
    PreviewRequest,
    TemplateRequest,
    WorldName,
    WorldTemplates,
)
from jacquard.service.host_paths import texts_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.handlers.memory import find_world
from jacquard.service.http.handlers.records import load_turn, read_inputs, show_rendering
from jacquard.templating.files import TextRoot, find_shipped_templates, read_files, template_roots, with_templates
from mnemosyne.chains.audience import audience_of_entry
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import load_world
from mnemosyne.world.pack_json import with_own_digest

MOST_FAULTS = 50


@handles
async def get_templates(call: Call) -> WorldTemplates:
    """Return the texts of the templates of a world, and the names of the shipped ones."""
    world = await find_world(call)
    return await to_thread.run_sync(_read_templates, world, _is_stored(call, world))


def _read_templates(world: WorldPack, is_editable: bool) -> WorldTemplates:
    shipped = read_files((find_shipped_templates(),))
    names = tuple(sorted(name for name in shipped if not name.startswith("shipped/")))
    return WorldTemplates(
        files=dict(with_templates(world).templates or {}),
        shipped={name: shipped[name].text for name in names},
        is_editable=is_editable,
    )


def _is_stored(call: Call, world: WorldPack) -> bool:
    given = call.runtime.world
    return given is None or given.world_id != world.world_id


@handles
async def put_template(call: Call) -> WorldName:
    """Store or remove one template of a world. Raises WorldPackError with all faults that the world would have.

    Raises ConfigError if the world is read from a folder.
    """
    sent, world = call.read(TemplateRequest), await find_world(call)
    if not _is_stored(call, world):
        raise ConfigError(
            f"World {world.world_id!r} is read from a folder (`--world`, or `service.world`): edit its files there. Or import the "
            "folder once (`jacquard memory import DIR`) and start without it."
        )
    files = {call.ids["file_name"]: sent.text}
    changed = await to_thread.run_sync(_checked, world, files)
    await call.runtime.engine.worlds.store_pack(changed)
    return WorldName(world_id=changed.world_id, digest=changed.digest)


def _checked(world: WorldPack, files: Mapping[str, str | None]) -> WorldPack:
    changed = with_own_digest(_replace_files(world, files))
    if faults := find_world_faults(changed):
        raise WorldPackError(tuple(faults[:MOST_FAULTS]))
    return changed


def _replace_files(world: WorldPack, files: Mapping[str, str | None]) -> WorldPack:
    """Return a world with other texts of some templates; a template whose text is None is removed."""
    for name in files:
        parts = name.split("/")
        if len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or "\\" in name:
            raise ConfigError(
                f"{name[:80]!r} cannot be a template; name a folder and a file, such as 'combat/guidance.j2'."
            )
    texts = {**(with_templates(world).templates or {}), **files}
    known = {name: text.replace("\r\n", "\n") for name, text in sorted(texts.items()) if text is not None}
    return replace(world, templates=known, template_root=None)


@handles
async def lint_templates(call: Call) -> LintAnswer:
    """Return every fault of the templates of a world, with the unsaved texts of the call."""
    sent, world = call.read(LintRequest), await find_world(call)
    return await to_thread.run_sync(_lint, call, world, sent.files)


def _lint(call: Call, world: WorldPack, files: Mapping[str, str | None]) -> LintAnswer:
    target = _target_of(_replace_files(world, files))
    report = find_faults(replace(target, own=True), world)
    own = f"{target.roots[0].shown}/" if isinstance(target.roots[0], TextRoot) else ""
    found = (
        replace(each, file=each.file.removeprefix(own), message=texts_for(call.principal, (each.message,))[0])
        for each in report.findings
    )
    return LintAnswer(files=report.files, errors=report.errors, findings=tuple(found))


def _target_of(world: WorldPack, template_id: str | None = None) -> TemplateTarget:
    roots = template_roots((find_shipped_templates(),), world)
    return TemplateTarget(roots=roots, shown=world.world_id, template_id=template_id)


@handles
async def preview_templates(call: Call) -> PreviewAnswer:
    """Render a recorded turn with the templates of its world and the unsaved texts of the call."""
    sent, runtime = call.read(PreviewRequest), call.runtime
    record, _ = await load_turn(call)
    snapshot, estimator = await to_thread.run_sync(read_inputs, record)
    world = await runtime.world_of(call.session_id)
    changed = await to_thread.run_sync(_replace_files, world, sent.files)
    reader = TurnReader(store=runtime.store, worlds=runtime.engine.worlds, planner=RulePlanner())
    turn = await reader.turn(call.session_id, record.turn_id)
    target = await to_thread.run_sync(_target_of, changed, sent.template_id)
    layout = report_of(record).layout
    return await to_thread.run_sync(_preview, turn, target, sent.layout, snapshot, estimator, layout)


def _preview(
    turn: AuthorTurn,
    target: TemplateTarget,
    layout: str | None,
    snapshot: PromptSnapshot,
    estimator: TokenEstimator,
    recorded_layout: str,
) -> PreviewAnswer:
    before = rendering_of(
        replay_prompt(snapshot, estimator.estimate), turn.label, snapshot.source.template_id, recorded_layout
    )
    after: Rendering = render_turn(turn, target, estimator, layout=layout)
    return PreviewAnswer(
        before=show_rendering(before),
        after=show_rendering(after),
        changes=compare(before, after).changes,
        is_same=after.text == turn.recorded,
    )


@handles
async def run_golden_cases(call: Call) -> tuple[GoldenResult, ...]:
    """Render the golden cases in the folder of a world, and compare or accept their prompts."""
    sent, world = call.read(GoldenRequest), await find_world(call)
    return await to_thread.run_sync(_run_cases, call, world.world_id, sent)


def _run_cases(call: Call, world_id: str, sent: GoldenRequest) -> tuple[GoldenResult, ...]:
    given, notes = call.runtime.world, call.runtime.notes
    is_given = given is not None and given.world_id == world_id and notes.named is not None
    folder = Path(str(notes.named)) if is_given else notes.find_folder(world_id)
    if folder is None:
        raise ConfigError(f"Golden cases are files, and no folder of world {world_id!r} is known on this host.")
    cases = [each for each in find_golden_cases(folder) if sent.case in (None, each.stem)]
    if not cases:
        known = ", ".join(each.stem for each in find_golden_cases(folder)) or "none"
        raise ConfigError(f"There is no such golden case in templates/tests of world {world_id!r}; there are: {known}.")
    run = partial(
        run_case,
        pack=folder,
        world=load_world(folder),
        planner=RulePlanner(),
        estimator=CalibratedEstimator(),
        shipped=find_shipped_templates(),
        update=sent.accept,
    )
    done = [run(each) for each in cases]
    return tuple(replace(each, lines=texts_for(call.principal, each.lines)) for each in done)


@handles
async def match_lore(call: Call) -> LoreMatches:
    """Return the lore that a text would wake as the next input of a session, and why. Raises ConfigError for an empty text."""
    sent, engine = call.read(MatchRequest), call.runtime.engine
    if not sent.text.strip():
        raise ConfigError("text is empty; give the input whose lore is to be found.")
    compared = await compare_lore(
        engine.parts, engine.worlds, engine.config, call.session_id, sent.text, sent.branch_id
    )
    window = await engine.parts.store.window(call.session_id, message_limit=1, branch_id=sent.branch_id)
    world = await engine.worlds.world(window.head.world_id, write=False)
    return await to_thread.run_sync(_match, sent.text, world, view_state(window.state), compared)


def _match(text: str, world: WorldPack, view: StateView, compared: LoreComparison) -> LoreMatches:
    said = normalise(text)
    verdicts = {each.entry_id: each for each in compared.entries}
    found: list[LoreMatch] = []
    for entry in world.lore:
        keys = tuple(key for key in entry.keys if mentions(said, key))
        verdict = verdicts.get(entry.entry_id)
        if keys or verdict is not None:
            found.append(
                LoreMatch(
                    entry_id=entry.entry_id,
                    title=entry.title,
                    category=entry.kind,
                    text=entry.text,
                    keys=entry.keys,
                    found_keys=keys,
                    conditions=_values_of(entry, view),
                    viewers=audience_of_entry(entry),
                    sillytavern=None if verdict is None else verdict.sillytavern,
                    recall=None if verdict is None else verdict.recall,
                )
            )
    return LoreMatches(activation=compared.activation, items=tuple(found))


def _values_of(entry: MemoryEntry, view: StateView) -> tuple[ConditionValue, ...]:
    return tuple(
        ConditionValue(
            path=each.path, op=each.op, value=each.value, present=view.read(each.path)[1], holds=view.holds(each)
        )
        for each in entry.when
    )
