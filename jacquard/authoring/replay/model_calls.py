"""Finds the model calls of a turn, and describes their cost, duration and stop reason."""

from __future__ import annotations

from mnemosyne.documents.views import TURN_ID
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.record import WINDOW_USAGES, TurnRecord

STOP_REASON = "stop_reason"
"""Field in `ModelUsage.extra` with the reason why the answer ended, in the words of the provider."""


async def find_model_calls(store: Store, record: TurnRecord) -> tuple[ModelUsage, ...]:
    """Return the model calls of a turn, oldest first: the calls of its preparation, and the call that answered it."""
    newest = (await store.window(record.session_id, message_limit=1, branch_id=record.branch_id)).usages
    found = _calls_of(newest, record)
    if len(newest) < WINDOW_USAGES or (found and found[0] != newest[0]):
        return found
    document = await store.get_session(record.session_id)
    return _calls_of((document.session.model_usage or ()) if document is not None else (), record)


def describe_call(call: ModelUsage) -> str:
    """Return one line of text about a model call, for people."""
    words = [f"{call.stage.value}: {call.model or 'a model'}", f"{call.prompt_tokens} tokens asked"]
    words.append(f"{call.completion_tokens} answered ({call.extra.get('counted', 'reported')})")
    words += [f"first word after {call.first_token_latency_ms} ms"] * (call.first_token_latency_ms is not None)
    words.append(f"{call.latency_ms} ms")
    stopped = call.extra.get(STOP_REASON)
    return ", ".join([*words, f"stopped: {stopped}"] if stopped else words)


def _calls_of(usages: tuple[ModelUsage, ...], record: TurnRecord) -> tuple[ModelUsage, ...]:
    return tuple(each for each in usages if each.extra.get(TURN_ID) == record.turn_id)
