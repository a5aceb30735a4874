import json
from datetime import UTC, datetime, timedelta

import pytest

from mnemosyne import ConflictPolicy, Evidence, EvidenceSource, EvidenceType, SourceKind, resolve_conflicts
from mnemosyne.evidence.conflicts import claims_of

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
TOOL, LATEST, BOTH = (
    ConflictPolicy.PREFER_TOOL_OVER_RAG,
    ConflictPolicy.PREFER_LATEST_BY_AT,
    ConflictPolicy.KEEP_BOTH_AND_WARN,
)


def evidence(name, content, kind=SourceKind.TOOL, at=AT, **metadata):
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    source = EvidenceSource(kind=kind, name=name)
    return Evidence(
        evidence_id=name, type=EvidenceType.OTHER, source=source, content=text, metadata=metadata, created_at=at
    )


ORDER = evidence("order", {"order_id": "A1", "status": "shipped", "total": 10})
WIKI = evidence("wiki", "状态：待发货", SourceKind.RAG, subject="A1", claims=[{"field": "status", "value": "pending"}])
CACHE = evidence("cache", {"id": "A1", "status": "pending"}, SourceKind.RAG, at=AT + timedelta(hours=1))


def test_a_tool_counts_more_than_a_page():
    settled = resolve_conflicts([ORDER, CACHE], TOOL)
    (record,) = settled.records
    assert (record.evidence_ids, record.field_path, record.subject) == (("order", "cache"), "status", "A1")
    assert (record.resolution, record.preferred) == (TOOL, "order")
    assert record.values == {"order": "shipped", "cache": "pending"}
    assert settled.left_out == {"cache": "prefer_tool_over_rag: order counts instead"}
    assert settled.notices == {}


def test_a_page_that_says_more_stays_with_a_notice():
    settled = resolve_conflicts([ORDER, WIKI], TOOL)
    assert settled.left_out == {}
    assert settled.notices == {"wiki": ("overruled: status is shipped by order",)}


def test_the_latest_counts():
    settled = resolve_conflicts([ORDER, CACHE], LATEST)
    assert settled.records[0].preferred == "cache"
    assert settled.left_out == {}
    assert settled.notices == {"order": ("overruled: status is pending by cache",)}


def test_the_time_that_content_tells_counts():
    old = evidence(
        "old", {"id": "A1", "status": "new", "updated_at": "2026-01-01T00:00:00Z"}, at=AT + timedelta(days=9)
    )
    assert resolve_conflicts([ORDER, old], LATEST).records[0].preferred == "order"


def test_both_stay_and_both_are_marked():
    settled = resolve_conflicts([ORDER, CACHE], BOTH)
    assert (settled.records[0].resolution, settled.records[0].preferred) == (BOTH, None)
    assert settled.left_out == {}
    assert settled.notices == {
        "order": ("conflict: status is pending by cache",),
        "cache": ("conflict: status is shipped by order",),
    }


@pytest.mark.parametrize(
    ("policy", "other"),
    [
        (TOOL, evidence("tool2", {"id": "A1", "status": "lost"})),
        (TOOL, evidence("user", {"id": "A1", "status": "lost"}, SourceKind.USER)),
        (LATEST, evidence("same", {"id": "A1", "status": "lost"})),
        (LATEST, evidence("undated", {"id": "A1", "status": "lost"}, at=None)),
    ],
)
def test_where_a_policy_cannot_tell_both_stay(policy, other):
    settled = resolve_conflicts([ORDER, other], policy)
    assert [record.resolution for record in settled.records] == [BOTH]
    assert settled.left_out == {}
    assert set(settled.notices) == {"order", other.evidence_id}


def test_tools_that_differ_overrule_a_page_and_are_both_kept():
    second = evidence("tool2", {"id": "A1", "status": "lost"})
    settled = resolve_conflicts([ORDER, CACHE, second], TOOL)
    assert [record.resolution for record in settled.records] == [TOOL, BOTH]
    assert set(settled.left_out) == {"cache"}
    assert set(settled.notices) == {"order", "tool2"}


@pytest.mark.parametrize(
    "others",
    [
        [evidence("same", {"id": "A1", "status": " SHIPPED ", "total": "10.0"})],
        [evidence("other", {"id": "B7", "status": "pending"})],
        [evidence("prose", "status: pending", SourceKind.RAG)],
        [evidence("times", {"id": "A1", "updated_at": "2020-01-01T00:00:00Z", "order_id": "x"})],
        [evidence("broken", "{not json", subject="A1")],
        [evidence("deep", "[" * 5_000, subject="A1")],
        [],
    ],
)
def test_what_is_no_conflict(others):
    assert resolve_conflicts([ORDER, *others], BOTH).records == ()


def test_lines_are_read_in_both_languages():
    told = evidence("wiki", "状态：已发货\n- total: 12\nnote without a colon", SourceKind.RAG, subject="A1")
    assert {(claim.field_path, claim.value) for claim in claims_of(told)} == {("状态", "已发货"), ("total", "12")}
    other = evidence("tool", {"id": "A1", "状态": "已签收"})
    (record,) = resolve_conflicts([told, other], TOOL).records
    assert (record.field_path, record.preferred) == ("状态", "tool")
