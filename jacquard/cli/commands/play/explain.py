"""Prints why blocks and memories are, or are not, in a prompt, and traces places of the prompt to their sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jacquard.authoring.replay.model_calls import describe_call, find_model_calls
from jacquard.authoring.replay.provenance import Origin, count_tokens_by_block, find_origin, find_origins
from jacquard.authoring.replay.turn_page import Check, PageSection, PageTurn, Verdict, render_turn_page
from jacquard.authoring.replay.turn_view import view_turn
from jacquard.authoring.why_not import Absence
from jacquard.authoring.why_not import why_not as explain_absence
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    EmbedderOption,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.language import chosen_language, speak
from jacquard.cli.show import show_candidates, show_receipt
from jacquard.core.errors import MemoryNotFoundError
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.prompt_snapshot import read_snapshot
from jacquard.pipeline.record.sent_prompt import as_sent
from jacquard.wiring.runtime import Runtime
from mnemosyne.core import codec
from mnemosyne.files import write_file
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.memory import is_profile_session
from mnemosyne.schema.record import TurnRecord

SessionChoice = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="The session (default: the only one).")
]


def explain(
    turn: Annotated[
        str | None, typer.Argument(metavar="[TURN]", help="The turn (default: the newest that was prepared).")
    ] = None,
    session: SessionChoice = "",
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            min=0,
            metavar="OFFSET",
            help="Trace this character (0-based, counted through all messages) to its source.",
        ),
    ] = None,
    find: Annotated[
        str | None, typer.Option("--find", metavar="TEXT", help="Trace this text to its source, wherever it stands.")
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not", metavar="ID|TEXT", help="Say why the entry of this id, or with these words, is not there."
        ),
    ] = None,
    embedder: EmbedderOption = "auto",
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page with the prompt block by block and all that was left out."
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Print the receipt of a turn: why each block and candidate is, or is not, in the prompt.

    --at and --find trace a place in the prompt to its block, its evidence and its source. --why-not says why an entry is
    not in the prompt. --find does the same if the prompt does not contain the text.
    """
    if why_not is not None and (at is not None or find is not None):
        raise fail("Give --why-not, --at or --find, one of them.", code=2)
    if html is not None and (as_json or at is not None or find is not None or why_not is not None):
        raise fail("Give --html without them: the page shows the whole turn.", code=2)

    async def work() -> None:
        asked = why_not if why_not is not None else find
        async with open_store(store, embedder="none" if asked is None else embedder) as runtime:
            record = await load_recorded_turn(runtime.store, session, turn)
            prepared, calls = turn_from_record(record, 0), await find_model_calls(runtime.store, record)
            if asked is not None and (why_not is not None or not find_origins(prepared, asked, read_snapshot(record))):
                absences = await _find_absences(runtime, record, asked, must_exist=why_not is not None)
                _show_absences(record, asked, absences, as_json=as_json)
                return
        if html is not None:
            _write_page(record, prepared, calls, html)
        elif at is not None or find is not None:
            _trace(record, prepared, at, find, as_json=as_json)
        elif as_json:
            print_json(
                {
                    "turn_id": record.turn_id,
                    "plan": record.plan,
                    "report": codec.to_plain(prepared.report),
                    "tokens_by_block": count_tokens_by_block(prepared),
                    "calls": codec.to_plain(calls),
                }
            )
        else:
            _receipt(prepared, calls)

    run(work)


async def _find_absences(runtime: Runtime, record: TurnRecord, wanted: str, *, must_exist: bool) -> tuple[Absence, ...]:
    try:
        return await explain_absence(runtime.engine, record.session_id, wanted, turn_id=record.turn_id)
    except MemoryNotFoundError:
        if must_exist:
            raise
        return ()


def _show_absences(record: TurnRecord, wanted: str, absences: Sequence[Absence], *, as_json: bool) -> None:
    if as_json:
        print_json({"turn_id": record.turn_id, "origins": [], "why_not": codec.to_plain(tuple(absences))})
        return
    if not absences:
        raise fail(f"{wanted!r} is not in the prompt of turn {record.turn_id}, and no entry has these words.")
    for each in absences:
        title = f"  {each.title}" if each.title else ""
        show(f"{each.entry_id}{title} ({each.chain} {each.kind})" if each.chain else each.entry_id, "bold")
        show(f"  {each.code}: {speak(each.reason)}")


def _write_page(record: TurnRecord, prepared: PreparedTurn, calls: Sequence[ModelUsage], file: Path) -> None:
    """Write the page of one turn; exit code 1 if its receipt has no decisions, or the file cannot be written."""
    _require_decisions(record, prepared)
    said = [(message.role.value, message.content) for message in record.messages]
    checks = _describe_plan(prepared)
    turn = PageTurn(heading=record.turn_id, view=view_turn(prepared), said=said, checks=checks, calls=calls)
    title = speak(f"Turn {record.turn_id} of session {prepared.session_id}")
    page = render_turn_page(title, [PageSection(title="", turns=[turn])], chosen_language())
    try:
        write_file(file, page.encode("utf-8", "replace"))
    except OSError as error:
        raise fail(f"{file} cannot be written ({error.strerror or error}); name another file.") from error
    say(f"{file} is written.")


def _describe_plan(prepared: PreparedTurn) -> list[Check]:
    """Return the planner's decisions, as notes of a page in the chosen language."""
    plan, intent = prepared.plan, prepared.plan.search_intent
    notes = {
        "plan": f"{plan.triage.value}, focus {plan.active_quest_id or '-'}, goal {plan.current_goal or '-'}",
        "search": f"keywords {', '.join(intent.focus_keywords) or '-'}; time {intent.temporal_context.value}",
        "tags": ", ".join(f"{name}={value}" for name, value in sorted(prepared.report.tags.items())),
    }
    told = [(label, text) for label, text in notes.items() if text] + [("reason", reason) for reason in plan.reasons]
    return [Check(verdict=Verdict.NOTE, label=speak(label), text=speak(text)) for label, text in told]


async def load_recorded_turn(store: Store, session: str, turn: str | None) -> TurnRecord:
    """Return the turn `turn` of a session (None: the newest turn).

    `session` may be empty if the store has only one session. Exits with code 1 if the session has no turn, or if the turn
    has no receipt.
    """
    name = await find_only_session(store, session)
    if turn is not None:
        record = await store.turn(name, turn)
    else:
        window = await store.window(name, message_limit=1)
        newest = window.pending or window.previous
        if newest is None:
            raise fail(f"Session {name!r} has no turn yet.")
        record = newest
    if record.receipt is None:
        raise fail(f"Turn {record.turn_id} was imported: no prompt was made for it, so there is no receipt.")
    return record


async def find_only_session(store: Store, session: str) -> str:
    """Return `session`, or the only session of the store if `session` is empty.

    Exits with code 2 if `session` is empty and the store has no session or several.
    """
    if session:
        return session
    names = [name for name in await store.sessions() if not is_profile_session(name)]
    if len(names) != 1:
        raise fail(f"Which session? Give --session; there are: {', '.join(names) or 'none'}.", code=2)
    return names[0]


def _receipt(prepared: PreparedTurn, calls: Sequence[ModelUsage]) -> None:
    plan, intent = prepared.plan, prepared.plan.search_intent
    tell(f"plan: {plan.triage.value}, focus {plan.active_quest_id or '-'}, goal {plan.current_goal or '-'}")
    tell(f"      keywords {', '.join(intent.focus_keywords) or '-'}; time {intent.temporal_context.value}")
    for reason in plan.reasons:
        tell(f"      {reason}", "dim")
    if prepared.report.tags:
        tell("tags: " + ", ".join(f"{name}={value}" for name, value in sorted(prepared.report.tags.items())))
    show_candidates(prepared.report.stream_b.candidates)
    show_receipt(as_sent(prepared).report)
    for call in calls:
        tell(f"model call: {describe_call(call)}")


def _trace(record: TurnRecord, prepared: PreparedTurn, at: int | None, find: str | None, *, as_json: bool) -> None:
    if at is not None and find is not None:
        raise fail("Give --at or --find, one of them.", code=2)
    _require_decisions(record, prepared)
    snapshot = read_snapshot(record)
    origins: Sequence[Origin] = (
        (find_origin(prepared, at, snapshot),) if at is not None else find_origins(prepared, find or "", snapshot)
    )
    if as_json:
        print_json({"turn_id": record.turn_id, "origins": [_origin_json(origin) for origin in origins]})
        return
    if not origins:
        raise fail(f"{find!r} is not in the prompt of turn {record.turn_id}.")
    for origin in origins:
        _show_origin(origin)


def _require_decisions(record: TurnRecord, prepared: PreparedTurn) -> None:
    if not prepared.report.spans:
        raise fail(f"The receipt of turn {record.turn_id} was stored without its decisions (include_reports_in_store).")


def _origin_json(origin: Origin) -> dict[str, Any]:
    plain: dict[str, Any] = codec.to_plain(origin)
    return plain


def _show_origin(origin: Origin) -> None:
    span, decision = origin.span, origin.decision
    tell(
        f"message {origin.message} ({origin.role}), characters {origin.start} to {origin.end}: {_line(origin.text)}",
        "bold",
    )
    if origin.line.strip() != origin.text.strip():
        tell(f"  in the line {_line(origin.line)}", "dim")
    if decision is None:
        tell("  frame: a tag, a blank line or the like; the layout and the assembler put it there", "dim")
        return
    tell(f"  block {span.block_id}  {decision.title}  ({span.tokens} tokens, characters {span.start} to {span.end})")
    tell(f"  {decision.action.value} ({decision.code}): {decision.reason}")
    tell(f"  trust: {decision.trust.value}")
    if origin.template:
        known = f", hash {origin.digest}" if origin.digest else ""
        tell(
            f"  template {origin.template}{known}; its values come from the state, the pack and the plan of the turn",
            "green",
        )
    if origin.candidate is not None:
        c = origin.candidate
        tell(f"  candidate {c.entry_id} of chain {c.chain}, rank {c.rank}: {c.code}: {c.reason}", "yellow")
    for evidence in origin.evidences:
        tell(f"  evidence {evidence.evidence_id}: {_line(evidence.content)}", "yellow")
    if origin.uri:
        tell(f"  source {origin.uri}", "cyan")


def _line(text: str) -> str:
    line = " ".join(text.split()) or text
    return repr(line if len(line) <= 100 else line[:99] + "…")
