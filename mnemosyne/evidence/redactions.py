"""Records a redaction (the masking of personal data) with an evidence item or a message.

The record has the names of the rules that matched, and the number of changed fields. It contains no text.
"""

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
    """Return the record of the redaction of `stored`. Return None if `stored` was not redacted."""
    told = stored.extra.get(REDACTION)
    if not isinstance(told, Mapping):
        return None
    rules, fields = told.get("rules"), told.get("fields")
    return RedactionRecord(
        evidence_id=stored.evidence_id if isinstance(stored, Evidence) else "",
        rules_applied=tuple(map(str, rules)) if isinstance(rules, list | tuple) else (),
        fields_redacted=fields if isinstance(fields, int) else 0,
    )
