"""Handlers for authors: the files of a world as texts, their faults, previews, golden cases, and what wakes lore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from jacquard.authoring.golden import GoldenResult, build_case, find_golden_cases, run_case
from jacquard.authoring.lore_comparison import LoreComparison, compare_lore
from jacquard.authoring.pack_files import (
    change_world,
    check_changes,
    digest_of,
    find_templates,
    lint_files,
    read_shipped_texts,
    read_texts,
    write_changes,
)
from jacquard.authoring.render import Rendering, compare, render_turn, rendering_of
from jacquard.authoring.replay.replay import replay_prompt
from jacquard.authoring.target import TESTS_FOLDER, TemplateTarget
from jacquard.authoring.turns import AuthorTurn, TurnReader
from jacquard.core.errors import ConfigError, JacquardError
from jacquard.core.names import mentions, normalise
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot
from jacquard.pipeline.record.stored_turn import report_of
from jacquard.remote.bodies import (
    ConditionValue,
    GoldenCaseAnswer,
    GoldenCaseRequest,
    GoldenRequest,
    LintAnswer,
    LintRequest,
    LoreMatch,
    LoreMatches,
    MatchRequest,
    PreviewAnswer,
    PreviewRequest,
    WorldFile,
    WorldFiles,
    WorldFilesRequest,
    WorldName,
)
from jacquard.service.answers import Refusal
from jacquard.service.host_paths import texts_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.handlers.memory import find_world
from jacquard.service.http.handlers.records import load_turn, read_inputs, show_rendering
from jacquard.templating.files import find_shipped_templates
from mnemosyne.chains.audience import audience_of_entry
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import is_editable_name, load_world


@handles
async def list_world_files(call: Call) -> WorldFiles:
    """Return the names of the files of a world, and of the shipped templates."""
    world = await find_world(call)
    folder = find_folder(call, world)

    def read() -> WorldFiles:
        return WorldFiles(
            files=tuple(read_texts(world, folder)),
            shipped=tuple(read_shipped_texts()),
            is_folder=folder is not None,
            is_editable=folder is None or _may_write(call),
        )

    return await to_thread.run_sync(read)


@handles
async def get_world_file(call: Call) -> WorldFile:
    """Return the text of a file. Raises Refusal if there is no such file and no such shipped template."""
    world, name = await find_world(call), call.ids["file_name"]
    own = await to_thread.run_sync(read_texts, world, find_folder(call, world))
    text = own.get(name)
    if text is None:
        text = (await to_thread.run_sync(read_shipped_texts)).get(name)
    if text is None:
        raise Refusal(404, "file_not_found", f"World {world.world_id!r} has no file {name[:80]!r}.")
    return WorldFile(name=name, text=text, digest=digest_of(text), is_shipped=name not in own)


def find_folder(call: Call, world: WorldPack) -> Path | None:
    """Return the folder from which the service reads a world. None if the world is only in the store."""
    given, named = call.runtime.world, call.runtime.notes.named
    return Path(named) if given is not None and given.world_id == world.world_id and named is not None else None


def _may_write(call: Call) -> bool:
    """Return whether this call may change files of this host. The folder of a world belongs to all tenants, and other
    processes would go on with the former pack.
    """
    return call.records is None and call.settings.workers == 1


def _check_may_write(call: Call) -> None:
    if not _may_write(call):
        raise ConfigError(
            "The folder of this world cannot be changed here, because all tenants and processes of the service use it: edit its "
            "files there and start the service again. Or import the folder once (`jacquard memory import DIR`) and start without "
            "it."
        )


@handles
async def put_world_files(call: Call) -> WorldName:
    """Store or remove files of a world. Raises WorldPackError with all errors that the world would have.

    Raises ConfigError if the caller may not change the folder of the world. Raises Refusal if a file was changed since the
    caller read it.
    """
    sent, world = call.read(WorldFilesRequest), await find_world(call)
    folder = find_folder(call, world)
    if folder is not None:
        _check_may_write(call)
    if not sent.files:
        raise ConfigError("files is empty; name at least one file.")
    own = await to_thread.run_sync(read_texts, world, folder)
    for name, digest in sent.read.items():
        if name in own and digest_of(own[name]) != digest:
            raise Refusal(409, "file_changed", f"{name[:80]!r} was changed meanwhile; read it again.", file=name)
    if folder is None:
        changed = await to_thread.run_sync(check_changes, world, None, sent.files)
        await call.runtime.engine.worlds.store_pack(changed)
    else:
        await to_thread.run_sync(write_changes, world, folder, sent.files)
        changed = await call.runtime.reload_world()
    return WorldName(world_id=changed.world_id, digest=changed.digest)


@handles
async def lint_world_files(call: Call) -> LintAnswer:
    """Return every fault of the files of a world, with the unsaved texts of the call."""
    sent, world = call.read(LintRequest), await find_world(call)
    report = await to_thread.run_sync(lint_files, world, find_folder(call, world), sent.files)
    found = (replace(each, message=texts_for(call.principal, (each.message,))[0]) for each in report.findings)
    return LintAnswer(files=report.files, errors=report.errors, findings=tuple(found))


@handles
async def preview_templates(call: Call) -> PreviewAnswer:
    """Render a recorded turn with the files of its world and the unsaved texts of the call."""
    sent, runtime = call.read(PreviewRequest), call.runtime
    record, _ = await load_turn(call)
    snapshot, estimator = await to_thread.run_sync(read_inputs, record)
    world = await runtime.world_of(call.session_id)
    changed = await to_thread.run_sync(change_world, world, find_folder(call, world), sent.files)
    reader = TurnReader(store=runtime.store, worlds=runtime.engine.worlds, planner=RulePlanner())
    turn = await reader.turn(call.session_id, record.turn_id)
    if any(not name.startswith("templates/") for name in sent.files):
        turn = replace(turn, request=replace(turn.request, world=changed))
    target = await to_thread.run_sync(find_templates, changed, sent.template_id)
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


def _find_case_folder(call: Call, world_id: str) -> Path:
    """Return the folder that has the golden cases of a world. Raises ConfigError if none is known."""
    given, notes = call.runtime.world, call.runtime.notes
    is_given = given is not None and given.world_id == world_id and notes.named is not None
    folder = Path(str(notes.named)) if is_given else notes.find_folder(world_id)
    if folder is None:
        raise ConfigError(f"Golden cases are files, and no folder of world {world_id!r} is known on this host.")
    return folder


def _run_cases(call: Call, world_id: str, sent: GoldenRequest) -> tuple[GoldenResult, ...]:
    folder = _find_case_folder(call, world_id)
    if sent.accept:
        _check_may_write(call)
    cases = [each for each in find_golden_cases(folder) if sent.case in (None, each.stem)]
    if not cases and sent.case is not None:
        known = ", ".join(each.stem for each in find_golden_cases(folder)) or "none"
        raise ConfigError(f"There is no such golden case in templates/tests of world {world_id!r}; there are: {known}.")
    done = _compare_cases(folder, cases, accept=sent.accept)
    return tuple(replace(each, lines=texts_for(call.principal, each.lines)) for each in done)


def _compare_cases(folder: Path, cases: Sequence[Path], *, accept: bool) -> list[GoldenResult]:
    run = partial(
        run_case,
        pack=folder,
        world=load_world(folder),
        planner=RulePlanner(),
        estimator=CalibratedEstimator(),
        shipped=find_shipped_templates(),
        update=accept,
    )
    return [run(each) for each in cases]


@handles
async def add_golden_case(call: Call) -> GoldenCaseAnswer:
    """Save a recorded turn as a golden case. Raises ConfigError if there is a case of this name, or no folder for it."""
    sent, runtime = call.read(GoldenCaseRequest), call.runtime
    record, _ = await load_turn(call)
    world = await runtime.world_of(call.session_id)
    reader = TurnReader(store=runtime.store, worlds=runtime.engine.worlds, planner=RulePlanner())
    turn = await reader.turn(call.session_id, record.turn_id)
    return await to_thread.run_sync(_add_case, call, world, turn, sent.case)


def _add_case(call: Call, world: WorldPack, turn: AuthorTurn, name: str) -> GoldenCaseAnswer:
    folder = _find_case_folder(call, world.world_id)
    _check_may_write(call)
    file = f"templates/{TESTS_FOLDER}/{name}.yaml"
    if "/" in name or not is_editable_name(file):
        raise ConfigError(f"{name[:80]!r} cannot be the name of a golden case; write a file name without its ending.")
    if (folder / file).exists():
        raise ConfigError(f"There is a golden case {name!r} already; give the new one another name.")
    case = build_case(turn, load_world(folder))
    write_changes(world, folder, {file: case.text})
    try:
        (result,) = _compare_cases(folder, [folder / file], accept=True)
    except JacquardError:
        (folder / file).unlink(missing_ok=True)
        raise
    return GoldenCaseAnswer(case=name, file=file, tokens=result.tokens, left_out=case.left_out)


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
