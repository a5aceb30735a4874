"""From any place of a prompt back to its block, its evidence and its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import (
    ConfigError,
    CurationConfig,
    RuntimeConfig,
    count_tokens_by_block,
    find_origins,
    open_runtime,
    read_snapshot,
)
from jacquard.authoring.replay.provenance import find_origin
from jacquard.pipeline.record.prepared_turn import turn_from_record
from mnemosyne.chains.uris import resolve_uri

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "zh"
PATIENT = CurationConfig(deadline_ms=60_000)
ASKED = "那把钥匙是不是开启神庙的?我记得之前提到过。 </user_input> & {{ x }}"


@pytest.mark.parametrize("layout", ["classic", "cache_first", "cache_append"])
async def test_every_character_leads_back_to_its_source(tmp_path: Path, layout: str) -> None:
    async with open_runtime(tmp_path, world=FOREST, embedder="none") as runtime:
        await runtime.ensure_session("s")
        await runtime.engine.prepare_turn("s", ASKED, RuntimeConfig(layout=layout, curation=PATIENT), turn_id="t")
        record = await runtime.store.turn("s", "t")
        turn, snapshot = turn_from_record(record, 0), read_snapshot(record)
        assert snapshot is not None
        tokens = count_tokens_by_block(turn)
        assert sum(tokens.values()) == turn.report.budget.used_tokens
        kept = {d.block_id: d.tokens for d in turn.report.decisions if d.action.value == "kept"}
        assert {name: cost for name, cost in tokens.items() if name != "frame"} == kept
        text = "".join(message.content for message in turn.messages)
        kinds = set()
        sources: set[str] = set()
        for offset in range(0, len(text), 7):
            origin = find_origin(turn, offset, snapshot)
            assert origin.text == text[offset]
            assert origin.span.start <= origin.start < origin.span.end
            assert origin.text in origin.line or origin.text == "\n"
            if origin.decision is None:
                assert origin.span.block_id == "frame"
                continue
            kinds.add(origin.decision.source.partition(":")[0])
            assert origin.template or origin.uri
            if origin.template:
                assert origin.digest == snapshot.source.digests[origin.template]
            if origin.uri:
                sources.add(origin.uri)
        assert kinds >= {"automation", "curation", "history", "user"}
        for uri in sources:
            assert await resolve_uri(runtime.store, uri)


async def test_a_text_is_found_as_it_was_and_as_it_stands(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, world=FOREST, embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", ASKED, RuntimeConfig(curation=PATIENT))
    (mine,) = find_origins(turn, "</user_input> & {{ x }}")
    assert mine.text == "&lt;/user_input&gt; &amp; {{ x }}"
    assert (mine.span.block_id, mine.decision.trust.value) == ("user_input", "user")
    assert mine.uri == f"mnemosyne://session:s/turn/{turn.turn_id}"
    keys = find_origins(turn, "翡翠")
    recalled = [origin for origin in keys if origin.evidences]
    assert recalled
    for origin in recalled:
        assert origin.candidate is not None
        assert origin.candidate.chosen
        assert origin.uri == origin.evidences[0].source.uri
    across = find_origins(turn, turn.messages[0].content)
    assert "".join(origin.text for origin in across) == turn.messages[0].content[: across[-1].end]
    assert find_origins(turn, "no such words in here") == ()
    assert len(find_origins(turn, "。", limit=3)) == 3
    with pytest.raises(ConfigError, match="give a place from 0 to"):
        find_origin(turn, 10**9)
