"""What belongs to a turn can be traced: the arms of its experiments, the evidence that a reply cites, and what was redacted."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from engine_parts import small_engine

from jacquard import config_from_yaml, open_runtime
from mnemosyne import EvidenceNotFoundError, Ref, SessionStart, ToolCall

pytestmark = pytest.mark.anyio

ARMS = """
tags: {host: demo}
experiments:
  layout: {classic: {}, cache: {config: {layout: cache_first}}}
"""


class Spans:
    def __init__(self):
        self.facts = {}

    @contextmanager
    def span(self, name, facts=()):
        self.facts.setdefault(name, {}).update(dict(facts))
        yield self

    def put(self, facts):
        pass


async def test_every_event_and_span_of_a_session_has_its_arms():
    spans = Spans()
    async with small_engine(config=config_from_yaml(ARMS), tracing=spans) as (engine, _, told):
        for session in ("s1", "s2", "s3", "s4"):
            turn = await engine.prepare_turn(session, "Where is the lamb?")
            await engine.record_tool_call(session, ToolCall(tool_call_id="c", tool="look"))
            await engine.commit_assistant_message(session, "In the fold.")
            tags = {"host": "demo", "ab.layout": turn.report.tags["ab.layout"]}
            own = [event for event in told.events if event.session_id == session]
            assert len({event.event_type for event in own}) > 5
            assert [event for event in own if dict(event.tags) != tags] == []
            for name in ("jacquard.prepare_turn", "jacquard.commit_assistant_message", "jacquard.record_tool_call"):
                assert spans.facts[name]["jacquard.tag.ab.layout"] == tags["ab.layout"]
                assert spans.facts[name]["jacquard.tag.host"] == "demo"


async def test_a_turn_with_a_configuration_of_its_own_keeps_its_tags_at_the_commit():
    async with small_engine() as (engine, _, told):
        await engine.prepare_turn("s", "Where is the lamb?", config_from_yaml("tags: {trial: b}"))
        await engine.commit_assistant_message("s", "In the fold.")
        assert {dict(event.tags).get("trial") for event in told.of("Persisted")} == {"b"}


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as opened:
        await opened.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        call = ToolCall(tool_call_id="c1", tool="getOrder", args_digest={"id": "A1"})
        await opened.engine.record_tool_call("s", call, result="Order A1, call 13800138000 or li@example.cn.")
        yield opened


async def test_evidence_is_cited_by_the_ids_of_the_package(runtime):
    turn = await runtime.engine.prepare_turn("s", "Where is order A1?")
    (item,) = turn.package.evidence
    (evidence,) = await runtime.store.list_evidences("s")
    assert item.id == f"evidence:{evidence.evidence_id}"
    refs = [
        Ref(evidence_id=item.id),
        Ref(evidence_id=item.source_uri),
        Ref(evidence_id=evidence.evidence_id, selector="chars:0-8"),
    ]
    with pytest.raises(EvidenceNotFoundError):
        await runtime.engine.commit_assistant_message("s", "On its way.", refs=[Ref(evidence_id="evidence:nothing")])
    await runtime.engine.commit_assistant_message("s", "On its way.", refs=refs)
    document = await runtime.store.get_session("s")
    assert [ref.evidence_id for ref in document.session.messages[-1].refs] == [evidence.evidence_id] * 3
    assert document.session.messages[-1].refs[2].selector == "chars:0-8"


async def test_what_was_redacted_stands_in_the_receipt(runtime):
    turn = await runtime.engine.prepare_turn("s", "Where is order A1?")
    (record,) = turn.report.redactions
    assert set(record.rules_applied) == {"phone", "email"}
    assert record.fields_redacted == 1
    assert record.counts == {"phone": 1, "email": 1}
    assert [each.block_id for each in turn.report.decisions if each.block_id == record.block_id] == [record.block_id]
    assert "13800138000" not in str(turn.report)
    again = await runtime.engine.prepare_turn("s", "Where is order A1?")
    assert again.report.redactions == turn.report.redactions
