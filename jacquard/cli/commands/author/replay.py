"""Makes recorded prompts again: from their records, with today's templates, or under other settings (`jacquard author
replay`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread
from rich.table import Table
from rich.text import Text

from jacquard.authoring.replay.replay import (
    TemplateComparison,
    TurnDiff,
    changed_settings,
    compare_templates,
    find_differences,
    replay_prompt,
)
from jacquard.authoring.replay.what_if import Baseline, WhatIf
from jacquard.cli.author_folder import author_roots
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    JsonOption,
    StoreOption,
    clean,
    fail,
    open_store,
    out,
    print_json,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.commands.play.explain import find_only_session
from jacquard.cli.language import speak
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import load_config
from jacquard.core.errors import ConfigError, JacquardError, WorldUnavailableError
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot, read_snapshot
from jacquard.templating import open_templates
from jacquard.templating.files import TemplateRoot
from jacquard.wiring.parts.named_parts import open_token_estimator
from jacquard.wiring.runtime import Runtime
from mnemosyne.core import codec
from mnemosyne.core.errors import DamagedRecordError, WorldPackError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.damage import note_of
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

_EVERY = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _ReplayResult:
    """Result for one turn: `faults` if the bytes differ, `templates` if today's templates render it differently."""

    record: TurnRecord
    chars: int
    faults: tuple[str, ...]
    templates: TemplateComparison | None = None
    template_fault: str = ""


def replay(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[TURN|SESSION]", help="A turn, or a whole session (default: the only session there is)."
        ),
    ] = None,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="The session of the turn (default: the only one).")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Replay the turns under this configuration and print what changes."
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", min=1, metavar="TURNS", help="At most this many of the newest turns of a session."
        ),
    ] = _EVERY,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Make recorded prompts again and compare them.

    Without --config, each prompt is made only from the record of its turn. If it differs from the recorded prompt in any
    byte, the exit code is 1. Changes that today's templates would make are printed too.

    With --config, the decisions and tokens of each turn are printed twice: as recorded, and under that configuration.
    """

    async def work() -> None:
        # `--config` applies to the replayed turns, not to the opening of the store.
        async with open_store(store, embedder="none", config=RuntimeConfig()) as runtime:
            place = await _find_turn(runtime, name, session)
            if config is None:
                await _replay_turns(runtime, place, limit, branch, as_json=as_json)
            else:
                other = await to_thread.run_sync(load_config, config)
                await _print_what_if(runtime, place, other, limit, branch, as_json=as_json)

    run(work)


async def _find_turn(runtime: Runtime, name: str | None, session: str) -> tuple[str, str | None]:
    """Return (session, turn); the turn is None for the whole session."""
    if name is not None and not session and name in await runtime.store.sessions():
        return name, None
    return await find_only_session(runtime.store, session), name


async def _records(
    runtime: Runtime, place: tuple[str, str | None], limit: int, branch: str | None
) -> AsyncIterator[tuple[TurnRecord, PromptSnapshot]]:
    """Yield the turns that have a snapshot, oldest first."""
    session, turn = place
    if turn is not None:
        record = await runtime.store.turn(session, turn)
        snapshot = await to_thread.run_sync(read_snapshot, record)
        if snapshot is None:
            raise fail(
                f"Turn {turn} was not recorded with what its prompt was made of: it was imported, or is too old."
            )
        yield record, snapshot
        return
    for listed in await runtime.store.turns(session, limit=limit, branch_id=branch):
        try:
            record = await runtime.store.turn(session, listed.turn_id)
            snapshot = await to_thread.run_sync(read_snapshot, record)
        except DamagedRecordError as error:
            runtime.store.damage_log.add(note_of(error, session_scope(session), "The turn was not replayed"))
            continue
        if snapshot is not None:
            yield record, snapshot


async def _replay_turns(
    runtime: Runtime, place: tuple[str, str | None], limit: int, branch: str | None, *, as_json: bool
) -> None:
    roots: tuple[TemplateRoot, ...] | str
    try:
        roots = await _roots(runtime, place[0])
    except (WorldUnavailableError, WorldPackError) as error:
        roots = str(error)  # The bytes come only from the records; just today's templates cannot be compared.
    done: list[_ReplayResult] = []
    async for record, snapshot in _records(runtime, place, limit, branch):
        done.append(await to_thread.run_sync(_replay_turn, record, snapshot, roots))
    if not done:
        raise fail(f"Session {place[0]!r} has no turn that was recorded with what its prompt was made of.")
    if as_json:
        print_json({"session_id": place[0], "turns": [_replay_to_json(one) for one in done]})
    elif place[1] is not None:
        _show_replay(done[0])
    else:
        _show_session(place[0], done)
    if any(one.faults for one in done) or runtime.store.damage_log.since(scopes={session_scope(place[0])}):
        raise typer.Exit(1)


def _replay_turn(record: TurnRecord, snapshot: PromptSnapshot, roots: Sequence[TemplateRoot] | str) -> _ReplayResult:
    """Return the result of one turn; `roots` are those of today's templates, or a sentence why there are none."""
    templates, fault = None, ""
    try:
        count = _estimator_of(snapshot).estimate
    except ConfigError as error:
        return _ReplayResult(record=record, chars=0, faults=(str(error),))
    try:
        prompt = replay_prompt(snapshot, count)
        faults = find_differences(record, prompt)
        chars = sum(len(message.content) for message in prompt.assembled.messages)
    except JacquardError as error:
        faults, chars = (str(error),), 0
    if isinstance(roots, str):
        return _ReplayResult(record=record, chars=chars, faults=faults, template_fault=roots)
    try:
        templates = compare_templates(snapshot, open_templates(roots), count)
    except JacquardError as error:
        fault = str(error)
    return _ReplayResult(record=record, chars=chars, faults=faults, templates=templates, template_fault=fault)


def _estimator_of(snapshot: PromptSnapshot) -> TokenEstimator:
    """Return the token counter of a turn, so that the same text fits into its budget again; raises ConfigError if it is
    unavailable.
    """
    if snapshot.counter == CalibratedEstimator.name:
        return (
            CalibratedEstimator()
        )  # a turn's own configuration may name a counter that its engine was not opened with
    config = snapshot.runtime
    return _open_estimator(config.token_estimator, config.model_hint)


@cache
def _open_estimator(name: str, model_hint: str | None) -> TokenEstimator:
    return open_token_estimator(RuntimeConfig(token_estimator=name, model_hint=model_hint))


async def _roots(runtime: Runtime, session: str) -> tuple[TemplateRoot, ...]:
    return await author_roots(runtime, (await runtime.store.head(session)).world_id)


async def _print_what_if(
    runtime: Runtime,
    place: tuple[str, str | None],
    config: RuntimeConfig,
    limit: int,
    branch: str | None,
    *,
    as_json: bool,
) -> None:
    roots = await _roots(runtime, place[0])
    before = Baseline()
    diffs: list[TurnDiff] = []
    played: set[str] = set()
    unplayed: set[str] = set()
    async for record, snapshot in _records(runtime, place, limit, branch):
        estimator = await to_thread.run_sync(_estimator_of, snapshot)
        rehearsal = WhatIf(store=runtime.store, config=config, estimator=estimator, roots=roots)
        diffs.append(await rehearsal.turn(record, snapshot, before))
        some, others = changed_settings(snapshot, config)
        played |= {*some}
        unplayed |= {*others}
    if not diffs:
        raise fail(f"Session {place[0]!r} has no turn that was recorded with what its prompt was made of.")
    if as_json:
        settings = {"played": sorted(played), "not_played": sorted(unplayed)}
        print_json({"session_id": place[0], "settings": settings, "turns": codec.to_plain(diffs)})
    else:
        _show_diffs(diffs, sorted(played), sorted(unplayed))


def _show_session(session: str, done: Sequence[_ReplayResult]) -> None:
    same = sum(not one.faults for one in done)
    tell(f"session {session}: {same} of {len(done)} recorded turns came out byte for byte", "bold")
    for one in done:
        for fault in one.faults:
            say(f"{one.record.turn_id}: {fault}", "red")
    files = dict.fromkeys(name for one in done if one.templates for name in one.templates.changed)
    touched = sum(bool(one.templates and one.templates.blocks) for one in done)
    if files:
        tell(
            f"templates that are others by now: {', '.join(files)}; they would change {touched} of these prompts",
            "yellow",
        )
    for fault in dict.fromkeys(one.template_fault for one in done if one.template_fault):
        say(fault, "red")


def _show_replay(one: _ReplayResult) -> None:
    for fault in one.faults:
        say(fault, "red")
    if not one.faults:
        tell(f"turn {one.record.turn_id}: {one.chars:,} characters made again from its record, byte for byte", "bold")
    if one.template_fault:
        say(f"today's templates: {one.template_fault}", "red")
    if one.templates is None:
        return
    for word, names in (
        ("changed", one.templates.changed),
        ("new", one.templates.added),
        ("gone", one.templates.removed),
    ):
        for name in names:
            tell(f"template {name}: {word} since", "yellow")
    if not one.templates.blocks:
        tell("today's templates make the same blocks of it", "dim")
    for change in one.templates.blocks:
        before, after = _format_amount(change.before_tokens), _format_amount(change.after_tokens)
        tell(f"block {change.block_id} ({change.file}): {before} → {after} tokens")
        for line in change.diff[2:]:
            show(f"  {line}", {"+": "green", "-": "red"}.get(line[:1], "dim"))


def _format_amount(tokens: int | None) -> str:
    return "none" if tokens is None else str(tokens)


def _show_diffs(diffs: Sequence[TurnDiff], played: Sequence[str], unplayed: Sequence[str]) -> None:
    tell(f"settings that differ: {', '.join(played) or 'none that changes a prompt'}")
    if unplayed:
        said = "these differ too, but plan, memories and summaries stay as recorded, so a replay does not show them"
        tell(f"{said}: {', '.join(unplayed)}", "yellow")
    table = Table(box=None, pad_edge=False)
    for column in ("turn", "tokens", "shared prefix", "what changed"):
        table.add_column(speak(column), justify="left" if column in ("turn", "what changed") else "right")
    for diff in diffs:
        if diff.fault:
            table.add_row(
                Text(clean(diff.turn_id)), f"{diff.before_tokens} → -", "", Text(clean(speak(diff.fault)), style="red")
            )
            continue
        lines = [
            f"{d.block_id}: {d.before or '-'} → {d.after or '-'} ({d.before_tokens} → {d.after_tokens})"
            for d in diff.decisions
        ]
        if diff.moved and not lines:
            lines = [speak("the same blocks in another order")]
        table.add_row(
            Text(clean(diff.turn_id)),
            f"{diff.before_tokens} → {diff.after_tokens}",
            f"{diff.before_shared} → {diff.after_shared}",
            Text(clean("\n".join(lines) or "-")),
        )
    out.print(table)
    sound = [diff for diff in diffs if not diff.fault]
    before, after = sum(d.before_tokens for d in sound), sum(d.after_tokens for d in sound)
    tell(
        f"{len(sound)} turns, {before} → {after} tokens; {sum(bool(d.decisions) for d in sound)} with other decisions",
        "bold",
    )


def _replay_to_json(one: _ReplayResult) -> dict[str, Any]:
    return {
        "turn_id": one.record.turn_id,
        "same": not one.faults,
        "faults": list(one.faults),
        "templates": codec.to_plain(one.templates),
        "template_fault": one.template_fault,
    }
