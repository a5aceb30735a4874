"""Reads the receipt (why each block is in the prompt) and the plan of a stored turn. Pure.

A store returns receipt and plan as plain JSON values. The functions raise DamagedRecordError if a value cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ConfigError
from jacquard.core.plan import PlanContext, plan_from_json
from jacquard.core.receipt import Report
from mnemosyne.core import codec
from mnemosyne.core.errors import DamagedRecordError
from mnemosyne.protocols import Store
from mnemosyne.schema.record import TurnRecord

SNAPSHOT_KEY = "tape"
"""Field of a recorded prompt that contains its snapshot."""
_MOST_NOTES = 20


def report_of(record: TurnRecord) -> Report:
    """Return the receipt of a recorded turn.

    Raises DamagedRecordError if the receipt is missing or cannot be read.
    """
    with report_damage(record, "receipt"):
        return codec.from_plain(dict(record.receipt or {}), Report)


def plan_of(record: TurnRecord) -> PlanContext:
    """Return the plan of a recorded turn.

    Raises DamagedRecordError if the plan is missing or cannot be read.
    """
    with report_damage(record, "plan"):
        return plan_from_json(record.plan or {})


def viewer_of(record: TurnRecord) -> str | None:
    """Return the viewer for whom a turn was prepared. Return None if the turn has no viewer, or if its prompt cannot be
    read.
    """
    snapshot = (record.prompt or {}).get(SNAPSHOT_KEY)
    config: Any = snapshot.get("config") if isinstance(snapshot, Mapping) else None
    viewer = config.get("viewer") if isinstance(config, Mapping) else None
    return viewer if isinstance(viewer, str) else None


def damage_codes(store: Store, mark: int, *scopes: str) -> list[str]:
    """Return a degradation (`code: sentence`) for each damaged record that reads of `store` have skipped since `mark`,
    a position in the store's damage log. Only records of `scopes` (sessions and worlds) and records without a scope
    count.
    """
    notes = store.damage_log.since(mark, {"", *scopes})
    # Without the path of the store, which readers of a receipt must not see.
    codes = [f"{DegradationCode.RECORD_DAMAGED}: {replace(note, path='').sentence}" for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        more = f"{len(notes) - _MOST_NOTES} more records are damaged; `jacquard operate check` names them."
        codes.append(f"{DegradationCode.RECORD_DAMAGED}: {more}")
    return codes


@contextmanager
def report_damage(record: TurnRecord, part: str) -> Iterator[None]:
    """Raise DamagedRecordError if the code in the `with` block finds a missing or wrong value in `part` of a turn's record."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DamagedRecordError(
            "", f"The {part} of turn {record.turn_id!r} of session {record.session_id!r}", reason
        ) from error
