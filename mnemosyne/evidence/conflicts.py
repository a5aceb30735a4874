"""Finds evidence items that contradict each other, field by field, and resolves each conflict by a policy.

Evidence is text from outside: tool results, retrieved passages, documents. Without this module, an outdated page could appear
in a prompt next to the tool result that contradicts the page. Every conflict is reported. The module must not import a store.

A claim is the value that one evidence item gives for one field of one subject. Claims are read from

- `metadata.claims`: a list of `{subject, field, value}`, for prose that the caller has interpreted;
- JSON content: the leaves of an object under its `id` (or its only `…_id` field), or under `metadata.subject`;
- lines `name: value` (`名：值`) of text content, if `metadata.subject` names their subject.

Two claims are compared only if subject and field are the same. A claim without a subject is never compared. Times and
ids are not claims. `Shipped` and `shipped` are the same value, and so are `10` and `10.0`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from mnemosyne.core.json_text import read_json
from mnemosyne.core.normal_forms import normal_form
from mnemosyne.schema.evidence import Evidence, SourceKind
from mnemosyne.schema.ingest import ConflictPolicy, ConflictRecord
from mnemosyne.values import dataclass

_TIMES = ("effective_at", "as_of", "updated_at", "at", "timestamp", "date", "time", "更新时间", "时间")
_COLON = re.compile(r"[:：][ \t]*")
_NAME = re.compile(r"[ \t>*-]*([^\s:：|{}\[\]].*)", re.DOTALL)
_NAME_CHARS, _VALUE_CHARS = 41, 201
_TOOLS = frozenset((SourceKind.TOOL, SourceKind.SKILL))
_MAX_CLAIMS = 200
_MAX_DEPTH = 6
_MAX_NOTICES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """Value that one evidence item gives for one field of a subject."""

    evidence: Evidence
    subject: str
    field_path: str
    value: Any
    at: datetime | None
    """Time of the claim: the time that the evidence states, otherwise the time of ingestion."""
    is_own: bool = True
    """True if the claim was read from the content, False if it was read from `metadata.claims`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictResolution:
    """Result of a search for conflicts."""

    records: tuple[ConflictRecord, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Ids of the evidence items that are left out of the prompt, because all of their claims are overruled; each with the
    reason.
    """
    notices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Remarks to show with an evidence item that stays, by its id."""


def resolve_conflicts(evidences: Sequence[Evidence], policy: ConflictPolicy) -> ConflictResolution:
    """Return all conflicts among `evidences`, in the order of their subjects and fields, each resolved by `policy`.

    - PREFER_TOOL_OVER_RAG: tool results overrule retrieved text.
    - PREFER_LATEST_BY_AT: the latest claim overrules the others.

    The policy may be unable to decide, for example if two tools differ or if a time is unknown. Then both items stay, each
    with a notice. An evidence item is left out if all claims of its content are overruled. If only some of its claims are
    overruled, the item stays with a notice.
    """
    claims = [claim for evidence in evidences for claim in claims_of(evidence)]
    by_field: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        by_field.setdefault((_plain_of(claim.subject), _plain_of(claim.field_path)), []).append(claim)
    records: list[ConflictRecord] = []
    overruled: dict[str, list[tuple[Claim, Claim]]] = {}
    notices: dict[str, list[str]] = {}
    for key in sorted(by_field):
        for record, winner, losers in _resolve_claims(by_field[key], policy):
            records.append(record)
            if winner is None:
                _warn_all(losers, notices)
                continue
            for loser in losers:
                overruled.setdefault(loser.evidence.evidence_id, []).append((loser, winner))
    left_out: dict[str, str] = {}
    for evidence_id, lost in overruled.items():
        own = [claim for claim in claims if claim.evidence.evidence_id == evidence_id]
        if len(lost) == len(own) and all(claim.is_own for claim in own):
            left_out[evidence_id] = f"{policy.value}: {lost[0][1].evidence.evidence_id} counts instead"
        else:
            for loser, winner_claim in lost:
                said = f"{loser.field_path} is {_show_value(winner_claim.value)} by {winner_claim.evidence.evidence_id}"
                notices.setdefault(evidence_id, []).append(f"overruled: {said}")
    joined = {name: tuple(dict.fromkeys(lines)) for name, lines in notices.items() if name not in left_out}
    return ConflictResolution(records=tuple(records), left_out=left_out, notices=joined)


def claims_of(evidence: Evidence) -> tuple[Claim, ...]:
    """Return the claims of `evidence`, at most 200. If a field of a subject occurs more than once, the last claim counts."""
    found: dict[tuple[str, str], Claim] = {}
    for claim in _read_claims(evidence):
        found[claim.subject, claim.field_path] = claim
        if len(found) >= _MAX_CLAIMS:
            break
    return tuple(found.values())


def _read_claims(evidence: Evidence) -> Iterator[Claim]:
    subject = _text_of(evidence.metadata.get("subject"))
    at = _time_of(evidence.metadata) or evidence.created_at
    tree = read_json(evidence.content)
    if tree is not None:
        for item in tree if isinstance(tree, list) else [tree]:
            if isinstance(item, Mapping) and (about := _subject_of(item) or subject):
                when = _time_of(item) or at
                for path, value in _iterate_leaves(item, (), 0):
                    yield Claim(evidence=evidence, subject=about, field_path=path, value=value, at=when)
    elif subject:
        for name, value in _read_named_lines(evidence.content):
            if not _is_time_or_id(name):
                yield Claim(evidence=evidence, subject=subject, field_path=name.strip(), value=value, at=at)
    noted = evidence.metadata.get("claims")
    for each in noted if isinstance(noted, Sequence) and not isinstance(noted, str) else ():
        if isinstance(each, Mapping) and (about := _text_of(each.get("subject")) or subject) and each.get("field"):
            yield Claim(
                evidence=evidence,
                subject=about,
                field_path=str(each["field"]),
                value=each.get("value"),
                at=_time_of(each) or at,
                is_own=False,
            )


def _read_named_lines(content: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line `name: value`, split at the first colon if both parts are short enough."""
    for line in content.split("\n"):
        line = line.rstrip(" \t")
        before = 0
        for colon in _COLON.finditer(line):
            begin, before = before, colon.start() + 1
            value = line[colon.end() : colon.end() + _VALUE_CHARS + 1]
            if not value or value[0].isspace() or len(value) > _VALUE_CHARS:
                continue
            name = _NAME.search(line[begin : colon.start()].rstrip(" \t")[-_NAME_CHARS:])
            if name is not None:
                yield name[1], value
                break


Settled = tuple[ConflictRecord, Claim | None, Sequence[Claim]]


def _resolve_claims(claims: Sequence[Claim], policy: ConflictPolicy) -> Iterator[Settled]:
    """Yield the resolution of the claims on one field: a winner with the claims it overrules, or None with all that
    differ.
    """
    if len({_normalise_value(claim.value) for claim in claims}) < 2:
        return
    left = list(claims)
    winner, losers = _decide_winner(claims, policy)
    if winner is not None and losers:
        detail = f"{winner.evidence.evidence_id} says {_show_value(winner.value)}; {_other_claims(losers)}"
        yield _build_record(claims=[winner, *losers], policy=policy, detail=detail, winner=winner), winner, losers
        gone = {id(claim) for claim in losers}
        left = [claim for claim in claims if id(claim) not in gone]
    if len({_normalise_value(claim.value) for claim in left}) > 1:
        policy_used = ConflictPolicy.KEEP_BOTH_AND_WARN
        yield _build_record(claims=left, policy=policy_used, detail=_other_claims(left), winner=None), None, left


def _decide_winner(claims: Sequence[Claim], policy: ConflictPolicy) -> tuple[Claim | None, list[Claim]]:
    if policy is ConflictPolicy.PREFER_TOOL_OVER_RAG:
        tools = [claim for claim in claims if claim.evidence.source.kind in _TOOLS]
        if not tools:
            return None, []
        winner = max(tools, key=_moment_of)
        retrieved = [claim for claim in claims if claim.evidence.source.kind is SourceKind.RAG]
        said = {_normalise_value(claim.value) for claim in tools}
        return winner, [claim for claim in retrieved if _normalise_value(claim.value) not in said]
    if policy is ConflictPolicy.PREFER_LATEST_BY_AT:
        latest = max(claims, key=_moment_of)
        dated = [claim for claim in claims if claim.at is not None]
        same_time = {_normalise_value(claim.value) for claim in dated if _moment_of(claim) == _moment_of(latest)}
        if latest.at is None or len(same_time) > 1:
            return None, []
        return latest, [
            claim
            for claim in dated
            if _moment_of(claim) < _moment_of(latest)
            and _normalise_value(claim.value) != _normalise_value(latest.value)
        ]
    return None, []


def _build_record(
    *, claims: Sequence[Claim], policy: ConflictPolicy, detail: str, winner: Claim | None
) -> ConflictRecord:
    return ConflictRecord(
        evidence_ids=tuple(dict.fromkeys(claim.evidence.evidence_id for claim in claims)),
        field_path=claims[0].field_path,
        subject=claims[0].subject,
        resolution=policy,
        detail=detail,
        preferred=None if winner is None else winner.evidence.evidence_id,
        values={claim.evidence.evidence_id: claim.value for claim in claims},
    )


def _warn_all(claims: Sequence[Claim], notices: dict[str, list[str]]) -> None:
    """Add to each claim notices of the first _MAX_NOTICES others that differ."""
    values = [_normalise_value(claim.value) for claim in claims]
    lines: dict[Any, list[str]] = {}
    for value in values:
        if value not in lines:
            others = (other for other, said in zip(claims, values, strict=True) if said != value)
            lines[value] = [
                f"conflict: {other.field_path} is {_show_value(other.value)} by {other.evidence.evidence_id}"
                for other in islice(others, _MAX_NOTICES)
            ]
    for claim, value in zip(claims, values, strict=True):
        notices.setdefault(claim.evidence.evidence_id, []).extend(lines[value])


def _other_claims(claims: Sequence[Claim]) -> str:
    return "; ".join(f"{claim.evidence.evidence_id} says {_show_value(claim.value)}" for claim in claims)


def _iterate_leaves(item: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(item, Mapping) and depth < _MAX_DEPTH:
        for key, value in item.items():
            if not _is_time_or_id(str(key)):
                yield from _iterate_leaves(value, (*path, str(key)), depth + 1)
    elif path and (item is None or isinstance(item, str | int | float)):
        yield ".".join(path), item


def _subject_of(item: Mapping[str, Any]) -> str:
    if own := _text_of(item.get("id")):
        return own
    ids = [value for key, value in item.items() if str(key).endswith("_id") and _text_of(value)]
    return _text_of(ids[0]) if len(ids) == 1 else ""


def _is_time_or_id(key: str) -> bool:
    plain = _plain_of(key)
    return plain in _TIMES or plain == "id" or plain.endswith(("_id", "_at"))


def _time_of(item: Mapping[str, Any]) -> datetime | None:
    for name in _TIMES:
        said = item.get(name)
        if isinstance(said, str):
            try:
                at = datetime.fromisoformat(said.strip())
            except ValueError:
                continue
            return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return None


def _moment_of(claim: Claim) -> datetime:
    return claim.at or datetime.min.replace(tzinfo=UTC)


def _normalise_value(value: Any) -> Any:
    """Return the normalised form in which a value is compared."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    text = _plain_of(str(value)).rstrip(".。")
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _plain_of(text: str) -> str:
    return " ".join(normal_form("NFKC", text).casefold().split())


def _text_of(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _show_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
