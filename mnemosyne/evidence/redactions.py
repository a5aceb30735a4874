"""What redaction removed from an evidence item, kept with the item: rules and numbers, no text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.redaction import RedactionRecord

REDACTION = "redaction"
"""The field of an evidence item (in `extra`) that says what redaction removed: `{rules, fields}`."""


def redaction_field(rules: tuple[str, ...], fields: int) -> dict[str, Any]:
    """Return the field for an item from which something was removed; no field otherwise."""
    return {REDACTION: {"rules": list(rules), "fields": fields}} if rules else {}


def redaction_of(evidence: Evidence) -> RedactionRecord | None:
    """Return what redaction removed from an item; None where nothing is recorded."""
    told = evidence.extra.get(REDACTION)
    if not isinstance(told, Mapping):
        return None
    rules, fields = told.get("rules"), told.get("fields")
    return RedactionRecord(
        evidence_id=evidence.evidence_id,
        rules_applied=tuple(map(str, rules)) if isinstance(rules, list | tuple) else (),
        fields_redacted=fields if isinstance(fields, int) else 0,
    )
