"""Record of a redaction, kept with an evidence item or a message: rules and numbers, no text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.schema.session import Message

REDACTION = "redaction"
"""Field (in `extra`) for the record of a redaction: `{rules, fields}`."""


def redaction_field(rules: tuple[str, ...], fields: int) -> dict[str, Any]:
    """Return the field for an item or a message from which something was removed; no field otherwise."""
    return {REDACTION: {"rules": list(rules), "fields": fields}} if rules else {}


def redaction_of(stored: Evidence | Message) -> RedactionRecord | None:
    """Return the record of the redaction of an item or a message; None if there is none."""
    told = stored.extra.get(REDACTION)
    if not isinstance(told, Mapping):
        return None
    rules, fields = told.get("rules"), told.get("fields")
    return RedactionRecord(
        evidence_id=stored.evidence_id if isinstance(stored, Evidence) else "",
        rules_applied=tuple(map(str, rules)) if isinstance(rules, list | tuple) else (),
        fields_redacted=fields if isinstance(fields, int) else 0,
    )
