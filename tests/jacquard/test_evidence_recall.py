"""Every result of a tool or search is a candidate for every prompt, and each that is left out has its line in the receipt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jacquard import EvidenceConfig, RuntimeConfig, open_runtime
from jacquard.pipeline.evidence.candidates import LOOKED_THROUGH
from mnemosyne import Evidence, EvidenceSource, EvidenceType, IngestOptions, SessionStart, SourceKind, ToolCall
from mnemosyne.evidence.relevance import rank_evidence

pytestmark = pytest.mark.anyio

PLACES = ("Arles", "Bergen", "Cadiz", "Delft", "Essen", "Fano", "Graz", "Hilo", "Ivrea", "Jena")
EVERYTHING = RuntimeConfig(evidence=EvidenceConfig(relevance_floor=0))
CHINESE = ("北京", "广州", "成都", "武汉", "西安", "杭州", "南京", "青岛", "大连", "厦门")


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as opened:
        await opened.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        yield opened


async def record(runtime, texts, **options):
    for number, text in enumerate(texts):
        call = ToolCall(tool_call_id=f"c{number}", tool="getWeather", args_digest={"place": text})
        await runtime.engine.record_tool_call(
            "s", call, result=text, options=IngestOptions(**options) if options else None
        )


async def say(runtime, text="On we go."):
    await runtime.engine.prepare_turn("s", text)
    await runtime.engine.commit_assistant_message("s", "Very well.")


@pytest.mark.parametrize(
    ("places", "line", "question"),
    [
        (PLACES, "The weather station of {} reports fog and calm seas.", "What did the station of Arles say?"),
        (CHINESE, "{}气象站报告今天有雾。", "北京那边的气象站说了什么？"),
    ],
)
async def test_the_first_of_ten_results_is_shown_when_it_is_asked_for(runtime, places, line, question):
    await record(runtime, [line.format(place) for place in places])
    await say(runtime)
    turn = await runtime.engine.prepare_turn("s", question, EVERYTHING)
    assert line.format(places[0]) in turn.text
    assert turn.text.count("<result ") == 6
    lines = {each.entry_id: each for each in turn.report.evidence}
    assert len(lines) == 10
    assert sum(each.chosen for each in lines.values()) == 6
    out = [each for each in lines.values() if not each.chosen]
    assert {each.code for each in out} == {"below_cut"}
    assert all("evidence.limit" in each.reason and each.uri for each in out)


async def test_what_came_after_the_last_reply_is_always_shown(runtime):
    await record(runtime, [f"The station of Arles reports fog, the {n}th time." for n in range(8)])
    await say(runtime)
    call = ToolCall(tool_call_id="new", tool="getTime", args_digest={"zone": "UTC"})
    await runtime.engine.record_tool_call("s", call, result="It is noon.")
    turn = await runtime.engine.prepare_turn("s", "What did the station of Arles say about fog?")
    assert "It is noon." in turn.text


async def test_without_shared_words_the_newest_are_shown(runtime):
    await record(runtime, [f"The weather station of {place} reports fog." for place in PLACES])
    await say(runtime)
    turn = await runtime.engine.prepare_turn("s", "Thank you!")
    assert [place for place in PLACES if f"station of {place}" in turn.text] == list(PLACES[6:])
    turn = await runtime.engine.prepare_turn("s", "Thank you!", EVERYTHING)
    assert [place for place in PLACES if f"station of {place}" in turn.text] == list(PLACES[4:])


async def test_an_old_result_behind_hundreds_of_others_is_found(runtime):
    made = [
        Evidence(
            evidence_id=f"e{n}",
            type=EvidenceType.TOOL_RESULT,
            source=EvidenceSource(kind=SourceKind.TOOL, name="log"),
            content="The valve of pump seven leaks." if n == 3 else f"Routine check number {n}.",
            created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n),
        )
        for n in range(300)
    ]
    for each in made:
        await runtime.store.put_evidence("s", each)
    turn = await runtime.engine.prepare_turn("s", "Which pump has the leaking valve?")
    assert "The valve of pump seven leaks." in turn.text
    assert len(turn.report.evidence) <= 60
    (rest,) = (each for each in turn.report.left_out if each.what == "evidence")
    assert rest.count + len(turn.report.evidence) == 300


async def test_memories_do_not_take_the_places_of_found_pages(runtime):
    page = Evidence(
        evidence_id="page",
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG, name="manual", uri="doc://pumps"),
        content="The valve of pump seven leaks.",
    )
    recalled = EvidenceSource(kind=SourceKind.RAG, name="history", uri="mnemosyne://session:s/history/m")
    for each in (page, *(replace(page, evidence_id=f"m{n}", source=recalled) for n in range(LOOKED_THROUGH))):
        await runtime.store.put_evidence("s", each)
    turn = await runtime.engine.prepare_turn("s", "Which pump has the leaking valve?")
    assert "The valve of pump seven leaks." in turn.text
    assert [each.entry_id for each in turn.report.evidence] == ["page"]
    assert "not_searched" not in {each.code for each in turn.report.left_out}


async def test_expired_evidence_has_a_line(runtime):
    await record(runtime, ["The gate code is 4711."], ttl_seconds=0.001)
    turn = await runtime.engine.prepare_turn("s", "What is the gate code?")
    assert "4711" not in turn.text
    (line,) = turn.report.evidence
    assert (line.chosen, line.code) == (False, "expired")
    assert "valid until" in line.reason


async def test_inputs_of_the_user_and_others_are_candidates_too(runtime):
    for kind, source in ((EvidenceType.USER_INPUT, SourceKind.USER), (EvidenceType.OTHER, SourceKind.SYSTEM)):
        await runtime.intake.ingestor.ingest(
            "s", f"A note of kind {kind.value}.", EvidenceSource(kind=source, name="notes"), kind
        )
    turn = await runtime.engine.prepare_turn("s", "Read my notes.")
    assert "A note of kind user_input." in turn.text
    assert "A note of kind other." in turn.text


async def test_a_quota_of_none_leaves_a_line_for_each(runtime):
    await record(runtime, ["The station of Arles reports fog."])
    config = RuntimeConfig(evidence=EvidenceConfig(limit=0))
    turn = await runtime.engine.prepare_turn("s", "What of Arles?", config)
    assert [each.code for each in turn.report.evidence] == ["below_cut"]


async def test_a_pointer_is_found_by_what_describes_it():
    def pointer(name, uri, **metadata):
        source = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri=uri)
        return Evidence(evidence_id=name, type=EvidenceType.RAG_DOC, source=source, metadata=metadata)

    shelf = [
        pointer("mill", "wiki://1", title="The mill by the river"),
        pointer("bridge", "wiki://2", keywords=["bridge", "toll"], summary=7),
        pointer("tower", "wiki://places/old_tower"),
        pointer("bare", "wiki://4"),
    ]
    for word, name in (("river", "mill"), ("toll", "bridge"), ("tower", "tower")):
        ranked = rank_evidence(shelf, {word: 1.0}, since=datetime(2026, 1, 1, tzinfo=UTC))
        assert [each.evidence.evidence_id for each in ranked if each.signals.fts] == [name]
