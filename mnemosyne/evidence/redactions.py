"""Records with an evidence item or a message what was done to its text before it was stored. The records contain no text.

The record of a redaction (the masking of personal data) has the names of the rules that matched, and the number of changed
fields. The record of degradations has the codes of the steps of ingestion that failed or were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.schema.session import Message

REDACTION = "redaction"
"""Field (in `extra`) with the record of a redaction: `{rules, fields}`."""

DEGRADATIONS = "degradations"
"""Field (in `extra`; in the `metadata` of passages) with the codes of the degradations of an ingestion."""


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


def degradations_field(codes: Iterable[str]) -> dict[str, Any]:
    """Return the field that records the degradations `codes` of an ingestion, or an empty dict if there are none."""
    listed = list(dict.fromkeys(codes))
    return {DEGRADATIONS: listed} if listed else {}


def degradations_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the codes of what was left out when a text was ingested, such as `dedup_skipped`.

    `fields` are the `extra` of its evidence, or the `metadata` of an entry that is a passage of it.
    """
    told = fields.get(DEGRADATIONS)
    return tuple(map(str, told)) if isinstance(told, list | tuple) else ()
