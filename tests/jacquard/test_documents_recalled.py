"""A document put into a session is recalled by its passages, cited by its span, and erased with its passages and their vectors."""

import pytest
from typer.testing import CliRunner

from jacquard import CurationConfig, RuntimeConfig, open_runtime
from jacquard.cli.app import app
from mnemosyne import (
    Erasure,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    Message,
    Role,
    SessionStart,
    SourceKind,
    SystemClock,
)
from mnemosyne.chains.uris import resolve_uri
from mnemosyne.evidence.blocks.resolve import RefResolver
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio
SHIPPING = "Parcels to Norway need a customs form; the courier is called Heron Post."
HANDBOOK = "\n\n".join(
    (
        "# Refunds",
        "A refund is paid within a fortnight after the goods came back to the shop. " * 6,
        "# Shipping",
        SHIPPING,
        "# Lamps",
        "A lamp is packed in straw and stands upright, away from anything wet. " * 6,
    )
)
PATIENT = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))
QUESTION = "Who is the courier for parcels to Norway?"


async def put_handbook(runtime):
    await runtime.import_session(SessionStart(session_id="s", world_id="bare", locale="en", state={}))
    done = await runtime.intake.ingestor.ingest(
        "s",
        HANDBOOK,
        EvidenceSource(kind=SourceKind.RAG, name="handbook.md", uri="file:handbook.md"),
        EvidenceType.RAG_DOC,
        options=IngestOptions(as_document=True),
    )
    await runtime.sync("s")
    return done.evidence_id


async def test_a_passage_is_recalled_cited_and_resolved(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none", config=PATIENT) as runtime:
        evidence_id = await put_handbook(runtime)
        turn = await runtime.engine.prepare_turn("s", QUESTION)
        (block,) = [each for each in turn.context_blocks if each.refs]
        (ref,) = block.refs
        assert ref.evidence_id == evidence_id
        assert ref.selector.startswith("chars:")
        found = await RefResolver(runtime.store, SystemClock()).resolve("s", ref)
        assert SHIPPING in found.text
        assert len(found.text) < len(HANDBOOK)
        assert found.fault is None
        assert SHIPPING in "".join(each.content for each in turn.messages)
        assert turn.evidences == ()
        (item,) = turn.package.evidence
        assert (item.ref["document_id"], item.ref["section_id"]) == (evidence_id, ref.selector)
        entry = await resolve_uri(runtime.store, item.source_uri)
        assert entry.text == found.text
        assert [each.code for each in turn.report.left_out if each.what == "evidence"] == []
        await runtime.engine.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="Heron Post."))


async def test_erasure_covers_the_passages_and_the_index(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none", config=PATIENT) as runtime:
        evidence_id = await put_handbook(runtime)
        await runtime.engine.prepare_turn("s", QUESTION)
        await runtime.engine.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="I cannot say."))
        done = await runtime.forget(
            Erasure(session_id="s", evidence_ids=(evidence_id,), at=SystemClock().now(), reason="asked")
        )
        assert done.done, done.proof
        assert done.outcome.counts["entries"] >= 2
        assert session_scope("s") in done.scopes
        turn = await runtime.engine.prepare_turn("s", "Which courier brings parcels to Norway?")
        assert [each for each in turn.context_blocks if each.refs] == []
        assert [each for each in turn.report.stream_b.candidates if each.kind == "document"] == []


def test_files_are_put_in_from_the_command_line(tmp_path):
    runner, store = CliRunner(), str(tmp_path / "store")
    pack = "examples/whispering_forest/en"
    assert (
        runner.invoke(
            app, ["memory", "import", pack, "--session", "s", "--store", store, "--embedder", "none"]
        ).exit_code
        == 0
    )
    (tmp_path / "handbook.md").write_text(HANDBOOK, encoding="utf-8")
    command = [
        "memory",
        "evidence",
        "add",
        str(tmp_path / "handbook.md"),
        "--session",
        "s",
        "--store",
        store,
        "--embedder",
        "none",
    ]
    first, again = runner.invoke(app, command), runner.invoke(app, command)
    assert "is new" in first.stdout
    assert "was there already" in again.stdout
    (tmp_path / "handbook.md").write_text(f"{HANDBOOK}\nParcels to Iceland go by ship.\n", encoding="utf-8")
    # The changed file says which document it replaces.
    changed = runner.invoke(app, command)
    former = first.stdout.removesuffix(" is new\n").rpartition(" ")[2]
    assert changed.stdout.endswith(f" is new; it replaces {former}\n")
    (tmp_path / "handbook.md").write_text(f"{HANDBOOK}\nParcels to Malta go by air.\n", encoding="utf-8")
    in_chinese = runner.invoke(app, [*command, "--lang", "zh"])
    latest = changed.stdout.partition(" is new")[0].rpartition(" ")[2]
    assert in_chinese.stdout.endswith(f" 是新的，取代 {latest}\n")
    wrong = runner.invoke(app, [*command[:3], str(tmp_path / "nothing.md"), *command[4:]])
    assert wrong.exit_code == 1
    assert "no such file" in wrong.stderr
