"""What somebody told the engine to remember is found beside the lore of a world, and only where it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import CurationConfig, MemoryVerbs, RuntimeConfig, open_runtime
from mnemosyne import EvidenceSource, EvidenceType, IngestOptions, SourceKind

pytestmark = pytest.mark.anyio
WORLDS = Path(__file__).parents[3] / "examples" / "whispering_forest"
SETTINGS = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))
ASKED = {
    "en": (
        ("The boat key hangs behind the blue clock.", "Where is the boat key?"),
        ("Reed is allergic to walnuts.", "What is Reed allergic to?"),
    ),
    "zh": (
        ("船钥匙挂在蓝色的钟后面。", "船钥匙在哪儿?"),
        ("欠郎中四十个银币。", "我们欠郎中多少钱？"),
    ),
}
OTHERS = {
    "en": ("I sit down by the fire.", "What do the fog hounds fear?", "How does the lantern work?"),
    "zh": ("我在火边坐下。", "雾犬怕什么？", "灯笼怎么用？"),
}


async def put(runtime, session_id, text, *, as_document):
    await runtime.ensure_session(session_id)
    if as_document:
        source = EvidenceSource(kind=SourceKind.RAG, name="note.md", uri="file:note.md")
        options = IngestOptions(as_document=True)
        await runtime.intake.ingestor.ingest(session_id, text, source, EvidenceType.RAG_DOC, options=options)
    else:
        await MemoryVerbs(runtime).remember(session_id, text)


async def chosen(runtime, session_id, text):
    turn = await runtime.engine.prepare_turn(session_id, text)
    return [each.preview for each in turn.report.stream_b.candidates if each.chosen]


@pytest.mark.parametrize("as_document", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_single_text_is_chosen_where_it_is_asked_for(tmp_path, language, as_document):
    world = WORLDS / language
    async with open_runtime(tmp_path / "store", world=world, embedder="none", config=SETTINGS) as runtime:
        for number, (fact, question) in enumerate(ASKED[language]):
            await put(runtime, f"asked{number}", fact, as_document=as_document)
            assert fact in await chosen(runtime, f"asked{number}", question)
        fact = ASKED[language][0][0]
        for number, other in enumerate(OTHERS[language]):
            await put(runtime, f"other{number}", fact, as_document=as_document)
            assert fact not in await chosen(runtime, f"other{number}", other)
