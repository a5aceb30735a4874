"""A text that a prompt withholds is withheld in every answer about that prompt."""

from __future__ import annotations

import httpx
import pytest

from jacquard import PruneConfig, RuntimeConfig, open_runtime
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from mnemosyne import EvidenceSource, EvidenceType, IngestOptions, SourceKind

pytestmark = pytest.mark.anyio
GUARDED = "The salary of Ana is 5000, and her mail is ana@example.com."
CONTRADICTS = '{"order_id": "A1", "status": "withdrawn in secret"}'
OPEN = '{"order_id": "A1", "status": "shipped"}'


async def test_no_answer_of_the_service_has_a_text_that_the_prompt_withholds(tmp_path):
    config = RuntimeConfig(profile="assistant", prune=PruneConfig(max_sensitivity="internal"))
    app = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"), config)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        for content, level in ((GUARDED, "confidential"), (CONTRADICTS, "confidential"), (OPEN, "public")):
            body = {
                "content": content,
                "source": {"kind": "rag", "name": f"{level} wages", "uri": f"https://wiki/{len(content)}"},
                "evidence_type": "rag_doc",
                "metadata": {"sensitivity": level},
                "options": {"redact": False},
            }
            assert (await client.post("/sessions/s/evidence", json=body)).status_code == 200
        asked = {"message": "What is the salary of Ana, and the status of order A1?"}
        made = await client.post("/sessions/s/turns", json=asked)
        turn = f"/sessions/s/turns/{made.json()['turn_id']}"
        told = [await client.get(f"{turn}{each}") for each in ("", "/receipt", "/page", "/replay")]
        found = await client.get(f"{turn}/explain", params={"text": "shipped"})
        assert "shipped" in made.text
        assert "[withheld]" in made.text
        for answer in (made, *told, found):
            assert answer.status_code == 200, answer.text
            assert not [word for word in ("5000", "ana@", "in secret", "confidential wages") if word in answer.text]


@pytest.mark.parametrize("mask", [True, False])
async def test_the_receipt_of_a_withheld_text_tells_that_it_is_there(tmp_path, mask):
    prune = PruneConfig(max_sensitivity="internal", mask=mask)
    async with open_runtime(
        tmp_path / "place", embedder="none", config=RuntimeConfig(profile="assistant", prune=prune)
    ) as runtime:
        await runtime.ensure_session("s")
        source = EvidenceSource(kind=SourceKind.RAG, name="wages", uri="https://wiki/1")
        options = IngestOptions(redact=False)
        await runtime.engine.ingestor_of("s").ingest(
            GUARDED, source, EvidenceType.RAG_DOC, metadata={"sensitivity": "confidential"}, options=options
        )
        turn = await runtime.engine.prepare_turn("s", "What is the salary of Ana?")
        (candidate,) = turn.report.evidence
        (decision,) = [each for each in turn.report.decisions if each.block_id.startswith("evidence")]
        assert (candidate.title, candidate.preview) == ("rag_doc", "")
        assert (decision.code, decision.title) == ("masked" if mask else "sensitive", "evidence")
        assert ("[withheld]" in turn.text) is mask
