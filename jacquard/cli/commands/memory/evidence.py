"""Makes memory from the turns of a session (`jacquard memory consolidate`), and from files (`jacquard memory evidence add`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    EmbedderOption,
    JsonOption,
    SessionOption,
    StoreOption,
    fail,
    load_configuration,
    open_store,
    print_json,
    run,
    say,
    sentence,
    tell,
)
from jacquard.cli.progress import indexing
from jacquard.wiring.runtime import Runtime
from mnemosyne.core import codec
from mnemosyne.core.errors import DocumentFileError
from mnemosyne.formats.files.read import KINDS, MOST_BYTES, MOST_SECONDS, read_document_file
from mnemosyne.schema.evidence import EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.ingest import IngestResult
from mnemosyne.schema.memory import Trust

evidence = typer.Typer(name="evidence", no_args_is_help=True, help="What a session knows besides its conversation.")


def consolidate(
    session: SessionOption,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="The small model that writes, as litellm names it (`openai/…`)."),
    ] = None,
    api_base: Annotated[
        str | None, typer.Option("--api-base", metavar="URL", help="The address of the server that has the model.")
    ] = None,
    chapter_ends: Annotated[
        bool, typer.Option("--chapter-ends", help="A chapter ends with the newest turn: write its narrative now.")
    ] = False,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "none",
    as_json: JsonOption = False,
) -> None:
    """Make memory from committed turns, and index it.

    A model writes a summary of each turn, events, and narratives over many turns. The command can be stopped and called
    again at any time: nothing is made twice.
    """
    config = load_configuration({"consolidation": {"model": model, "api_base": api_base}})

    async def work() -> None:
        async with open_store(store, embedder=embedder, config=config) as runtime:
            with indexing("turns") as progress:
                done = await runtime.engine.consolidate(
                    session, branch_id=branch, chapter_ends=chapter_ends, progress=progress
                )
            await runtime.sync(session)
        if as_json:
            print_json(codec.to_plain(done))
        else:
            tell(
                f"Session {done.session_id}, branch {done.branch_id}: {done.summaries} turn summaries, {done.events} events, "
                f"{done.narratives} narratives are new; {done.left} turns are left."
            )
            if done.waiting:
                tell(
                    f"{done.proposed} memories were proposed; {done.waiting} wait for a yes (jacquard memory proposals)."
                )
            for failure in done.failures:
                say(f"failed: {failure}", "yellow")
        if done.failures:
            raise typer.Exit(1)

    run(work)


@evidence.command()
def add(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help=f"Text files, pages or PDFs: {', '.join(KINDS)}.")
    ],
    session: SessionOption,
    trust: Annotated[
        Trust,
        typer.Option("--trust", metavar="LABEL", help="The origin of the texts: authored, user, tool, model or web."),
    ] = Trust.USER,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, metavar="N", help="The longest that reading one file may take.")
    ] = MOST_SECONDS,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Add files to a session as documents. If the settings name a profile, a session that does not exist is started.

    The text of a file is redacted, cut into passages and indexed. Later turns recall the passages that are relevant. An
    unchanged file that is added again changes nothing; a changed file replaces its former text. If a file cannot be read,
    it is named, the others are added, and the exit code is 1.
    """

    async def work() -> None:
        done: dict[str, IngestResult] = {}
        faults: list[str] = []
        async with open_store(store, embedder=embedder) as runtime:
            await runtime.ensure_session(session, index=False)
            for file in files:
                try:
                    done[str(file)] = await _add_file(runtime, session, file, trust, seconds)
                except DocumentFileError as error:
                    faults.append(sentence(error))
            if any(each.is_new for each in done.values()):
                with indexing(f"indexing {session}") as progress:
                    await runtime.sync(session, progress)
        _print_results(done, as_json=as_json)
        if faults:
            raise fail("\n".join(faults))

    run(work)


async def _add_file(runtime: Runtime, session: str, file: Path, trust: Trust, seconds: float) -> IngestResult:
    found = await read_document_file(file, most_bytes=MOST_BYTES, most_seconds=seconds)
    return await runtime.intake.ingestor.ingest(
        session,
        found.text,
        EvidenceSource(kind=SourceKind.RAG, name=found.title, uri=f"file:{file.as_posix()}"),
        EvidenceType.RAG_DOC,
        options=replace(runtime.intake.options, as_document=True, trust=trust),
    )


def _print_results(done: dict[str, IngestResult], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                name: {
                    "evidence_id": each.evidence_id,
                    "is_new": each.is_new,
                    "supersedes": each.supersedes,
                    "redacted": list(each.redaction.rules_applied) if each.redaction is not None else [],
                    "degradations": list(each.degradations),
                }
                for name, each in done.items()
            }
        )
        return
    for name, each in done.items():
        removed = f"; redacted: {', '.join(each.redaction.rules_applied)}" if each.redaction is not None else ""
        replaced = f"; it replaces {each.supersedes}" if each.supersedes is not None else ""
        tell(f"{name}: {each.evidence_id} {'is new' if each.is_new else 'was there already'}{replaced}{removed}")
        for code in each.degradations:
            say(f"{name}: {code}", "yellow")
