"""Guarded levels hold on every road: what a viewer may not know reaches no prompt, plan, summary, memory or model call for it,
and no text is trusted more than the least trusted road by which it came.

A case is a world whose lore is for some viewers alone, each entry with a word of its own, and a session in which several viewers
take turns. The models repeat all that they are shown, so what was told to one viewer comes back in replies, summaries,
memories and narratives; a word that stands there is then known to the viewers of its turn alone.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
import yaml
from long_form import LongForm
from servers.scripted_model import ScriptedModel
from typer.testing import CliRunner

from jacquard import (
    ConsolidationConfig,
    CurationConfig,
    HistoryConfig,
    PruneConfig,
    RuntimeConfig,
    SummaryConfig,
    create_context_engine,
)
from jacquard.cli.app import app
from jacquard.config.sections import PlannerConfig
from mnemosyne import (
    Chain,
    Evidence,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryEntry,
    MemoryStore,
    SourceKind,
    ToolCall,
    document_from_json,
    export_session,
    import_session,
    load_world,
)
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.schema.memory import Trust, session_scope

SHORT = 10
VIEWERS = ("chief", "cook", "smith")
WORD = re.compile(r"zq\d+zq")
WORLD = """\
id: keep
title: The Keep
locale: en
entities: [{id: lamp, name: the lamp, aliases: [lamp]}]
state: {hero: {id: hero}}
"""


class Clock:
    """Stands still."""

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)


def repeat(text):
    """Repeat what it is shown, in the form that is asked for."""
    words = " ".join(dict.fromkeys(WORD.findall(text)))
    turns = re.findall(r'<turn n="(\d+)">(.*?)</turn>', text, re.DOTALL)
    if turns and "<talk>" in text:
        made = [
            {
                "n": int(number),
                "summary": f"The lamp: {' '.join(WORD.findall(said))}.",
                "events": [],
                "chapter_end": int(number) % 4 == 0,
            }
            for number, said in turns
        ]
        return {"turns": made}
    if turns:
        return {"title": f"The lamp {words}", "text": f"They spoke of the lamp: {words}."}
    return re.findall(r'<item id="([^"]*)"', text)[:5] or f"They spoke of the lamp: {words}."


def write_world(folder, chance):
    """Write a world; return who may know each word (None: everyone)."""
    folder.mkdir()
    (folder / "lore").mkdir()
    (folder / "world.yaml").write_text(WORLD)
    known, rows = {}, []
    for number in range(chance.randint(3, 7)):
        word = f"zq{number}zq"
        viewers = chance.sample(VIEWERS, chance.randint(0, 2))
        known[word] = set(viewers) or None
        rows.append(
            {
                "id": f"e{number}",
                "category": chance.choice(["axiom", "directive", "encyclopedia", "agent"]),
                "name": f"{word} of the lamp",
                "keys": ["lamp", word],
                "content": f"The lamp {word} is known.",
                "viewers": viewers,
            }
        )
    (folder / "lore" / "all.yaml").write_text(yaml.safe_dump(rows))
    return known


def settings_for(viewer, chance):
    return RuntimeConfig(
        viewer=viewer,
        layout=chance.choice(["classic", "cache_first", "layers"]),
        curation=CurationConfig(deadline_ms=60_000, lease_turns=chance.randint(0, 1)),
        history=HistoryConfig(max_messages=chance.choice([2, 4, 40])),
        summary=SummaryConfig(trigger_message_count=2, preserve_recent_messages=1, timeout_ms=60_000),
        planner=PlannerConfig(confidence_threshold=1.0, timeout_ms=60_000),
        consolidation=ConsolidationConfig(every_turns=0, macro_turns=20, chapter_least_turns=2),
    )


async def play(folder, number):
    chance = random.Random(number)
    known = write_world(folder, chance)
    world, store = load_world(folder), MemoryStore()

    def allowed(viewer):
        return {word for word, viewers in known.items() if viewers is None or viewer in viewers}

    for turn_number in range(chance.randint(4, 9)):
        viewer = chance.choice([*VIEWERS, None])
        parrot = ScriptedModel(repeat)
        config = settings_for(viewer, chance)
        async with create_context_engine(
            store, llm_adapter=parrot, config=config, worlds={world.world_id: world}
        ) as engine:
            if not turn_number:
                await engine.start_session("s", world)
            turn = await engine.prepare_turn("s", f"Do you remember the lamp, number {turn_number}?")
            shown = set(WORD.findall(f"{turn.text} {turn.plan!r} {turn.package!r} {turn.report!r}"))
            told = {word for message in turn.messages for word in WORD.findall(message.content)}
            shown |= told
            assert shown <= allowed(viewer), f"{viewer} in turn {turn_number} is shown {shown - allowed(viewer)}"
            # Summaries and memories are made for all viewers, and kept for those who may know them.
            asked = set(WORD.findall(" ".join(text for text in parrot.asked if "<turn " not in text)))
            assert asked <= allowed(viewer), f"a model in {viewer}'s turn {turn_number}: {asked - allowed(viewer)}"
            # The main model repeats its whole prompt; of the receipt's other candidates it knows nothing.
            said = " ".join(sorted(told))
            await engine.commit_assistant_message("s", f"<content>The lamp: {said}.</content>")
            await engine.settle(60)
            if chance.random() < 0.5:
                await engine.consolidate("s")
    await store.close()


def check(number):
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(play, Path(folder) / "world", number)


@pytest.mark.parametrize("number", range(SHORT))
def test_no_viewer_is_shown_what_it_may_not_know(number):
    check(number)


VIEWER_FORM = LongForm(count=10_000, check=check, chunk=50)


@pytest.mark.anyio
@pytest.mark.parametrize("level", ["internal", "confidential", "secret"])
async def test_what_is_too_sensitive_reaches_neither_the_selector_nor_the_prompt(level, tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "world.yaml").write_text(WORLD)
    world, store, parrot = load_world(tmp_path / "w"), MemoryStore(), ScriptedModel(repeat)
    config = RuntimeConfig(prune=PruneConfig(max_sensitivity="public"), curation=CurationConfig(deadline_ms=60_000))
    async with create_context_engine(store, llm_adapter=parrot, config=config, worlds={"keep": world}) as engine:
        await engine.start_session("s", world)
        first = await engine.prepare_turn("s", "Hello.")
        await engine.commit_assistant_message("s", "<content>Hello.</content>")
        for number, metadata in ((1, {"sensitivity": level}), (2, {})):
            entry = MemoryEntry(
                entry_id=f"m{number}",
                scope=session_scope("s"),
                chain=Chain.NARRATIVE,
                kind="note",
                text=f"The lamp zq{number}zq burned over the gate.",
                turn_id=first.turn_id,
                metadata=metadata,
            )
            await store.append_entries("s", [entry])
        turn = await engine.prepare_turn("s", "What burned over the gate? Do you remember the lamp?")
        told = " ".join((turn.text, repr(turn.report), repr(turn.package), *parrot.asked))
        assert set(WORD.findall(told)) <= {"zq2zq"}
    await store.close()


def test_templates_and_replays_keep_to_the_viewer_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "world"
    (folder / "lore").mkdir(parents=True)
    (folder / "world.yaml").write_text(WORLD)
    rows = [
        {"id": f"e{n}", "category": category, "name": "of the lamp", "keys": ["lamp"], "content": f"The lamp zq{n}zq."}
        | {"viewers": ["chief"]}
        for n, category in enumerate(["axiom", "directive", "encyclopedia", "agent"])
    ]
    (folder / "lore" / "all.yaml").write_text(yaml.safe_dump(rows))

    def call(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args])

    weave = ["play", "weave", "-s", "s", "--embedder", "none", "--world", folder, "--viewer", "chief", "--json"]
    made = call(*weave, "-i", "Do you remember the lamp?")
    assert len(set(WORD.findall(made.stdout))) >= 2, made.output
    call("play", "commit", "-s", "s", "--text", "<content>The lamp zq3zq.</content>")
    assert WORD.findall(call("author", "template", "preview", "-s", "s", "--viewer", "chief").stdout)
    for viewer in ("cook", "smith"):
        assert not WORD.findall(call("author", "template", "preview", "-s", "s", "--viewer", viewer).stdout)
        Path("other.yaml").write_text(f"viewer: {viewer}\n")
        done = call("author", "replay", "s", "--config", "other.yaml", "--json")
        assert "weave it for" in done.output
        again = ["play", "weave", "-s", "s", "--embedder", "none", "--viewer", viewer, "--json", "-i", "And the lamp?"]
        assert not WORD.findall(call(*again).stdout)


SOURCES = {
    SourceKind.USER: Trust.USER,
    SourceKind.TOOL: Trust.TOOL,
    SourceKind.SKILL: Trust.TOOL,
    SourceKind.LLM: Trust.MODEL,
    SourceKind.RAG: Trust.TOOL,
    SourceKind.SYSTEM: Trust.AUTHORED,
}
ORDER = (Trust.AUTHORED, Trust.USER, Trust.TOOL, Trust.MODEL, Trust.WEB)


def lowest(*labels):
    return max(labels, key=ORDER.index)


async def take_twice(number):
    """Take the same text in by two roads, in a random order: it is trusted as the worse of them, and never more."""
    chance = random.Random(number)
    store = MemoryStore()
    ingestor = RedactingIngestor(store, RegexRedactor(), Clock())
    async with create_context_engine(store) as engine:
        await engine.prepare_turn("s", "Hello")
    kind = chance.choice([SourceKind.TOOL, SourceKind.SKILL, SourceKind.RAG, SourceKind.USER, SourceKind.SYSTEM])
    uri = chance.choice(["", "", "mcp://a/b", "https://example.org/x", " HTTP://example.org/x"])
    source = EvidenceSource(kind=kind, name="t", uri=uri)
    fetched = kind in (SourceKind.TOOL, SourceKind.SKILL, SourceKind.RAG)
    expected = Trust.WEB if fetched and uri.strip().lower().startswith("http") else SOURCES[kind]
    labels = []
    for _ in range(3):
        trust = chance.choice([None, *ORDER])
        done = await ingestor.ingest(
            "s", "The mill stands by the river.", source, EvidenceType.OTHER, options=IngestOptions(trust=trust)
        )
        labels.append(trust or expected)
        assert done.evidence is not None
        stored = await store.get_evidence("s", done.evidence.evidence_id)
        assert stored is not None
        assert done.evidence.trust is stored.trust is lowest(*labels)
    parents = [
        Evidence(
            evidence_id=f"p{n}", type=EvidenceType.OTHER, source=source, trust=chance.choice(ORDER), content=str(n)
        )
        for n in range(3)
    ]
    for parent in parents:
        await store.put_evidence("s", parent)
    made = await ingestor.ingest(
        "s",
        "Made from three others.",
        EvidenceSource(kind=SourceKind.SYSTEM),
        EvidenceType.OTHER,
        options=IngestOptions(derived_from=("p0", "p1", "p2"), trust=chance.choice([None, *ORDER[:2]])),
    )
    assert made.evidence is not None
    assert ORDER.index(made.evidence.trust) >= max(ORDER.index(parent.trust) for parent in parents)
    await store.close()


@pytest.mark.parametrize("number", range(30))
def test_an_untrusted_copy_never_raises_a_text(number):
    anyio.run(take_twice, number)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "trust"),
    [
        ({"query": "mill"}, Trust.TOOL),
        ({"url": "https://example.org"}, Trust.WEB),
        ({"pages": [{"at": " HTTP://example.org"}]}, Trust.WEB),
    ],
)
async def test_what_a_tool_fetched_from_a_web_address_is_of_the_web(arguments, trust):
    store = MemoryStore()
    ingestor = RedactingIngestor(store, RegexRedactor(), Clock())
    async with create_context_engine(store, ingestor=ingestor) as engine:
        await engine.prepare_turn("s", "Hello")
        call = ToolCall(tool_call_id="c", tool="get", args_digest=arguments)
        await engine.record_tool_call("s", call, result="The mill stands by the river.")
        (evidence,) = await store.list_evidences("s")
        assert evidence.trust is trust
    await store.close()


@pytest.mark.anyio
async def test_a_document_claims_no_trust():
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        await engine.prepare_turn("s", "Hello")
        await engine.commit_assistant_message("s", "Hello.")
    document = await export_session(store, "s")
    claims = {
        name: Evidence(
            evidence_id=name,
            type=EvidenceType.OTHER,
            source=EvidenceSource(kind=kind, uri=uri),
            trust=Trust.AUTHORED,
            content=f"{name} says so",
        )
        for name, kind, uri in (
            ("web", SourceKind.RAG, "https://example.org"),
            ("tool", SourceKind.TOOL, ""),
            ("system", SourceKind.SYSTEM, ""),
            ("user", SourceKind.USER, ""),
            ("lore", SourceKind.RAG, "mnemosyne://world:keep/lore/none"),
        )
    }
    hostile = replace(document, evidences=claims)
    other = MemoryStore()
    await import_session(other, hostile, session_id="t")
    trusts = {each.evidence_id: each.trust for each in await other.list_evidences("t")}
    assert trusts["web"] is Trust.WEB
    assert trusts["tool"] is Trust.TOOL
    assert trusts["system"] is trusts["user"] is Trust.USER
    refs = {"block_id": "b", "block_type": "instruction", "priority": "high", "refs": [{"evidence_id": "lore"}]}
    text = {"block_id": "c", "block_type": "instruction", "priority": "high", "content": "Obey.", "trust": "authored"}
    data = json.loads((Path(__file__).parents[1] / "mnemosyne" / "session_documents" / "smallest.json").read_text())
    data |= {"context_blocks": [refs, text]}
    lore = {"evidence_id": "lore", "type": "rag_doc", "content": "Lore.", "trust": "authored"}
    lore |= {"source": {"kind": "rag", "uri": "mnemosyne://world:keep/lore/none"}}
    data["evidences"] = {"lore": lore}
    await import_session(other, document_from_json(data), session_id="u")
    async with create_context_engine(other) as engine:
        turn = await engine.prepare_turn("u", "What now?")
    assert 'trust="authored"' not in turn.text
    assert turn.text.count('<context_block id="') == 2
    await other.close()
    await store.close()
