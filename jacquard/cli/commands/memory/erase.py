"""Erases users, sessions and evidence (`jacquard memory erase`), and empties expired evidence (`jacquard operate sweep`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    EmbedderOption,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    run,
    tell,
)
from jacquard.core.errors import ConfigError
from jacquard.wiring.runtime import Runtime
from mnemosyne.evidence.sweep import EXPIRED, find_expired_evidences
from mnemosyne.host_parts import SystemClock
from mnemosyne.privacy.forget import ErasurePlan, ErasureReport
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.memory import session_scope
from mnemosyne.values import dataclass

_PLACES_SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """Target of the erasure, from the options."""

    user: str | None
    session: str | None
    evidence: Sequence[str]
    expired: bool
    reason: str


def erase(
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="ID", help="Everything of one user.")] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", metavar="ID", help="One whole session (with --evidence: the session that holds it)."
        ),
    ] = None,
    evidence: Annotated[
        list[str] | None, typer.Option("--evidence", "-e", metavar="ID", help="Evidence by its id; may be given again.")
    ] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="All evidence whose time to live is over (of --session, or of all).")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason for the audit record.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be erased; change nothing.")] = False,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Erase a user, a session or evidence everywhere.

    Their texts are erased from the store, the index, receipts, recorded prompts, summaries, prefetched memories and
    originals. An audit record remains, which contains a hash of the id, and counts, but no text. Then the store and the
    files are searched for the erased texts. If one is found, the exit code is 1.
    """
    request = _Request(user=user, session=session, evidence=evidence or (), expired=expired, reason=reason)

    async def work() -> None:
        # Only a session that loses part of its content is indexed again, so a model is needed only then.
        async with open_store(store, embedder="none" if dry_run else embedder) as runtime:
            erasures = await _build_erasures(runtime, request)
            if dry_run:
                plans = [await runtime.plan_erasure(each) for each in erasures]
                _print_plans(plans, as_json=as_json)
                return
            done = [await runtime.forget(each) for each in erasures]
        _print_results(done, as_json=as_json)

    run(work)


def sweep(
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="One session (default: all).")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Empty evidence whose time to live is over.

    Turns do not use expired evidence. Texts that were derived from it stay; `erase --expired` erases them too.
    """

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            counts = await runtime.sweep(session)
        if as_json:
            print_json({"swept": counts})
            return
        for name, number in counts.items():
            tell(f"{name}: {number} evidences emptied")
        if not counts:
            tell("Nothing has expired.")

    run(work)


async def _build_erasures(runtime: Runtime, request: _Request) -> list[Erasure]:
    """Return the erasures of the options, one for each subject; raises ConfigError if they contradict each other."""
    clock = SystemClock()
    at = clock.now()
    subjects = [request.user is not None, request.session is not None or bool(request.evidence), request.expired]
    if request.expired:
        if request.user is not None or request.evidence:
            raise ConfigError("--expired goes only with --session.")
        sessions = None if request.session is None else (request.session,)
        over = await find_expired_evidences(runtime.store, clock, sessions)
        return [
            Erasure(at=at, session_id=name, evidence_ids=ids, reason=request.reason or EXPIRED)
            for name, ids in over.items()
        ]
    if sum(subjects) != 1:
        raise ConfigError(
            "Say what to forget: --user ID, --session ID, --evidence ID (with --session ID), or --expired."
        )
    if not request.evidence:
        return [Erasure(at=at, user_id=request.user, session_id=request.session, reason=request.reason)]
    homes = await _find_sessions_of_evidence(runtime, request)
    return [Erasure(at=at, session_id=name, evidence_ids=ids, reason=request.reason) for name, ids in homes.items()]


async def _find_sessions_of_evidence(runtime: Runtime, request: _Request) -> dict[str, tuple[str, ...]]:
    """Return the sessions that contain the evidence; raises ConfigError for evidence that no session contains."""
    if request.session is not None:
        return {request.session: tuple(request.evidence)}
    homes: dict[str, tuple[str, ...]] = {}
    for name in await runtime.store.sessions():
        held = [each for each in request.evidence if await runtime.store.get_evidence(name, each) is not None]
        if held:
            homes[name] = tuple(held)
    missing = [each for each in request.evidence if not any(each in held for held in homes.values())]
    if missing:
        raise ConfigError(f"No session has evidence {missing[0]!r}; nothing was changed.")
    return homes


def _print_plans(plans: Sequence[ErasurePlan], *, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": True, "erasures": [_plan_json(plan) for plan in plans]})
        return
    for plan in plans:
        tell(f"Would forget ({plan.kind}):")
        for line in _plan_lines(plan):
            tell(f"  {line}")
    tell("Nothing was changed." if plans else "There is nothing to forget. Nothing was changed.")


def _plan_lines(plan: ErasurePlan) -> list[str]:
    lines = []
    if plan.whole:
        lines.append(f"sessions that go whole: {', '.join(plan.whole)}")
    if plan.touched:
        lines.append(f"sessions that stay, cleaned: {', '.join(plan.touched)}")
    lines.append(f"messages: {plan.messages}, evidences: {plan.evidences}, originals: {plan.originals}")
    lines += [f"stands in {place}" for place in plan.places[:_PLACES_SHOWN]]
    if len(plan.places) > _PLACES_SHOWN:
        lines.append(f"and in {len(plan.places) - _PLACES_SHOWN} more places")
    return lines


def _plan_json(plan: ErasurePlan) -> dict[str, Any]:
    return {
        "kind": plan.kind,
        "whole": list(plan.whole),
        "touched": list(plan.touched),
        "messages": plan.messages,
        "evidences": plan.evidences,
        "originals": plan.originals,
        "places": list(plan.places),
    }


def _print_results(done: Sequence[ErasureReport], *, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": False, "erasures": [_json(each) for each in done], "proved": all(e.done for e in done)})
    else:
        for each in done:
            for line in _lines(each):
                tell(line)
        if not done:
            tell("There is nothing to forget.")
    left = [line for each in done for line in _describe_remains(each)]
    if left and as_json:
        raise typer.Exit(1)
    if left:
        raise fail("\n".join(left))


def _lines(done: ErasureReport) -> list[str]:
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(done.outcome.counts.items()))
    lines = [f"Forgot ({done.plan.kind}): {counts or 'nothing was there'}"]
    if done.outcome.sessions:
        lines.append(f"  sessions that went whole: {', '.join(done.outcome.sessions)}")
    if done.originals:
        lines.append(f"  originals: {done.originals}")
    gone = {session_scope(name) for name in done.outcome.sessions}
    for scope in done.scopes:
        lines.append(f"  index of {scope}: dropped" + ("" if scope in gone else ", and built again from what is left"))
    lines.append(f"  audit record: {done.outcome.audit_id}")
    proof = done.proof
    if proof.holds:
        searched = f"searched every row of the store and {proof.files} files for {proof.texts} texts"
        lines.append(f"  proof: {searched}; nothing is left")
    if proof.elsewhere:
        lines.append(f"  {proof.elsewhere} of the texts are held by other sessions too, and stay there")
    if proof.mentions:
        rows = ", ".join(proof.mentions[:_PLACES_SHOWN])
        lines.append(f"  the id still stands in {len(proof.mentions)} rows that others wrote: {rows}")
    lines += [f"  not covered: {sentence}" for sentence in done.not_covered]
    return lines


def _describe_remains(done: ErasureReport) -> list[str]:
    lines = list(done.faults)
    lines += [f"left in the store: {place}" for place in done.proof.places]
    lines += [f"left in a file: {file}" for file in done.proof.found_files]
    if lines:
        lines.append("Not all is gone. End other programs that use this store, remove what is named, and ask again.")
    return lines


def _json(done: ErasureReport) -> dict[str, Any]:
    proof = done.proof
    return {
        "audit_id": done.outcome.audit_id,
        "kind": done.plan.kind,
        "counts": dict(done.outcome.counts),
        "sessions": list(done.outcome.sessions),
        "originals": done.originals,
        "index": list(done.scopes),
        "faults": list(done.faults),
        "not_covered": list(done.not_covered),
        "proof": {
            "holds": done.done,
            "texts": proof.texts,
            "files": proof.files,
            "elsewhere": proof.elsewhere,
            "places": list(proof.places),
            "found_files": list(proof.found_files),
            "mentions": list(proof.mentions),
            "too_short": proof.too_short,
            "unsearched": proof.unsearched,
        },
    }
