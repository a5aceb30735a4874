"""Model calls of a turn, with their cost, duration and stop reason."""

from __future__ import annotations

from mnemosyne.documents.views import TURN_ID
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.record import WINDOW_USAGES, TurnRecord

STOP_REASON = "stop_reason"
"""Field of a model call (`extra`) for its stop reason, in the words of its provider."""


async def find_model_calls(store: Store, record: TurnRecord) -> tuple[ModelUsage, ...]:
    """Return the model calls of a turn, oldest first: its preparation's, and the answering model's."""
    newest = (await store.window(record.session_id, message_limit=1, branch_id=record.branch_id)).usages
    found = _calls_of(newest, record)
    if len(newest) < WINDOW_USAGES or (found and found[0] != newest[0]):
        return found
    document = await store.get_session(record.session_id)
    return _calls_of((document.session.model_usage or ()) if document is not None else (), record)


def describe_call(call: ModelUsage) -> str:
    """Return a model call as a line for people."""
    words = [f"{call.stage.value}: {call.model or 'a model'}", f"{call.prompt_tokens} tokens asked"]
    words.append(f"{call.completion_tokens} answered ({call.extra.get('counted', 'reported')})")
    words += [f"first word after {call.first_token_latency_ms} ms"] * (call.first_token_latency_ms is not None)
    words.append(f"{call.latency_ms} ms")
    stopped = call.extra.get(STOP_REASON)
    return ", ".join([*words, f"stopped: {stopped}"] if stopped else words)


def _calls_of(usages: tuple[ModelUsage, ...], record: TurnRecord) -> tuple[ModelUsage, ...]:
    return tuple(each for each in usages if each.extra.get(TURN_ID) == record.turn_id)
