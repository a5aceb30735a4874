"""Writes a prepared turn in one transaction and emits its events. This module must not import a concrete store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jacquard.pipeline.record.events import emit_prepared, emit_usage, emit_woven
from jacquard.pipeline.record.package import context_blocks_of, conversation_blocks_of
from jacquard.pipeline.record.prepared_turn import PreparedTurn, build_record, usages_of
from jacquard.pipeline.turn import Turn
from jacquard.turns.host.waiting import WaitingTurn, agent_of
from jacquard.turns.parts import EngineParts
from jacquard.turns.turn_log import TurnLog
from mnemosyne.core import codec
from mnemosyne.schema.session import Message


async def amend_sent(parts: EngineParts, turn: PreparedTurn) -> None:
    """Rewrite `sent` (the messages that were sent to the model) in the receipt of a pending turn. This is needed if the
    actual model call differed from the prepared one.

    Raises StoreError if the store cannot be read or written. Raises ValueError if the session was continued meanwhile.
    If an error is raised, nothing was written.
    """
    record = await parts.store.turn(turn.session_id, turn.turn_id)
    head = await parts.store.head(turn.session_id, record.branch_id)
    receipt = {**(record.receipt or {}), "sent": codec.to_plain(turn.report.sent)}
    await parts.store.save_prepared(replace(record, receipt=receipt), expected_version=head.version)


async def record_turn(
    parts: EngineParts,
    prompt: PreparedTurn,
    turn: Turn,
    message: Message,
    anchors: Mapping[str, str],
    log: TurnLog,
) -> PreparedTurn:
    """Write the composed turn `prompt` with its evidence and its model calls in one transaction. Return `prompt` with
    the session's new version.

    `turn` contains the inputs of the prompt, and `message` is the input text of the turn in stored form. `anchors` maps
    each anchor that the prompt shows to its place in the state. If the turn waits for a reply, it is added to the cache
    `parts.waiting`.

    Raises VersionConflictError if another writer came first. Raises StoreError if the store cannot be written. If an
    error is raised, nothing was written.
    """
    store, emitter, version = parts.store, log.emitter, turn.window.head.version
    spent = log.calls.usages(turn.turn_id, parts.estimator.estimate)
    report = replace(prompt.report, timings_ms=log.stopwatch.timings_ms())
    prompt = replace(prompt, report=report, usages=(*spent, *prompt.usages))
    await emit_woven(emitter, prompt, turn.config)
    with_report = turn.action is not None or turn.config.observability.include_reports_in_store
    record = build_record(prompt, turn.window, message, turn.fingerprint, anchors, with_report=with_report)
    made, placed = frozenset(report.new_block_ids), prompt.forms.skein.blocks()
    blocks = (
        *context_blocks_of([each for each in placed if each.block.block_id in made]),
        *conversation_blocks_of(placed, turn.turn_id),
    )
    usages = (*log.usages, *usages_of(prompt))
    if turn.action is not None:
        record, usages = replace(record, ops=turn.action.patch), ()
        head = await store.commit_numerical(
            record, turn.window.state, expected_version=version, evidences=prompt.evidences, blocks=blocks
        )
    else:
        head = await store.save_prepared(
            record, expected_version=version, evidences=prompt.evidences, blocks=blocks, usages=usages
        )
        parts.waiting.drop(turn.session_id)
        # Otherwise the store had the turn already, perhaps with its reply.
        if head.version > version:
            slim = replace(record, prompt={"reply_form": prompt.reply_form.value}, receipt={"tags": report.tags})
            agent = agent_of(turn.world)
            parts.waiting.keep(WaitingTurn(record=slim, state=turn.window.state, agent=agent, version=head.version))
    prompt = replace(prompt, version=head.version)
    await emit_prepared(emitter, prompt)
    for usage in usages:
        await emit_usage(emitter, turn.session_id, turn.turn_id, usage)
    return prompt
