"""Records a redaction with an evidence item or a message: which rules matched and in how many fields, without any text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.schema.session import Message

REDACTION = "redaction"
"""Field (in `extra`) with the record of a redaction: `{rules, fields}`."""


def redaction_field(rules: tuple[str, ...], fields: int) -> dict[str, Any]:
    """Return the field that records a redaction by `rules` in `fields` fields, or an empty dict if no rule matched."""
    return {REDACTION: {"rules": list(rules), "fields": fields}} if rules else {}


def redaction_of(stored: Evidence | Message) -> RedactionRecord | None:
    """Return the record of the redaction of an evidence item or a message, or None if there is none."""
    told = stored.extra.get(REDACTION)
    if not isinstance(told, Mapping):
        return None
    rules, fields = told.get("rules"), told.get("fields")
    return RedactionRecord(
        evidence_id=stored.evidence_id if isinstance(stored, Evidence) else "",
        rules_applied=tuple(map(str, rules)) if isinstance(rules, list | tuple) else (),
        fields_redacted=fields if isinstance(fields, int) else 0,
    )
