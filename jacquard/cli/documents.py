"""`schema` and `doc`: published schemas; session documents checked, written out, brought in and brought up to date."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from jacquard.build import open_workshop
from jacquard.cli.shared import DEFAULT_STORE, BranchOption, JsonOption, StoreOption, fail, print_json, run, say, show
from mnemosyne.document_fault import Severity
from mnemosyne.document_json import document_faults, document_from_json, document_to_json
from mnemosyne.document_schema import package_schema, schema_text, session_schema
from mnemosyne.errors import CodecError, SchemaValidationError, SessionNotFoundError
from mnemosyne.json_text import json_text, parse_json
from mnemosyne.migrate import migrate as migrate_document
from mnemosyne.schema.document import SessionDocument
from mnemosyne.world import publish

doc = typer.Typer(
    name="doc",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Session documents (schema 1.0): check, export, import and migrate them.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The session document, a JSON file.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write (default: standard output).")
]


class SchemaName(StrEnum):
    """What there is a published schema of."""

    SESSION = "session"
    PACKAGE = "package"
    WORLD = "world"


_SCHEMAS: Mapping[SchemaName, Callable[[], str]] = {
    SchemaName.SESSION: lambda: schema_text(session_schema()),
    SchemaName.PACKAGE: lambda: schema_text(package_schema()),
    SchemaName.WORLD: publish.schema_text,
}


def schema(
    name: Annotated[
        SchemaName, typer.Argument(metavar="[session|package|world]", help="Which one.")
    ] = SchemaName.SESSION,
) -> None:
    """Print a JSON Schema: of the session document, of the context package, or of the files of a world pack."""
    sys.stdout.buffer.write(_SCHEMAS[name]().encode())
    sys.stdout.flush()


@doc.command()
def validate(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check a session document; every fault is told at once with its path. Warnings do not fail."""

    async def work() -> None:
        faults = document_faults(_read(file))
        errors = [str(fault) for fault in faults if fault.severity is Severity.ERROR]
        warnings = [str(fault) for fault in faults if fault.severity is Severity.WARNING]
        if as_json:
            print_json({"ok": not errors, "errors": errors, "warnings": warnings})
        else:
            for warning in warnings:
                say(f"warning: {warning}", "yellow")
        if errors:
            if not as_json:
                raise fail("\n".join([*errors, f"{_counted(len(errors), 'error')} in {file}."]))
            raise typer.Exit(1)
        if not as_json:
            show(f"{file} is a good session document ({_counted(len(warnings), 'warning')}).", "green")

    run(work)


@doc.command()
def export(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session to write out.")],
    branch: BranchOption = None,
    out: OutOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write a session, as its branch tells it, as one document."""

    async def work() -> None:
        async with open_workshop(store, embedder="none") as workshop:
            document = await workshop.store.get_session(session, branch_id=branch)
        if document is None:
            raise SessionNotFoundError(session)
        _write(document_to_json(document), out)

    run(work)


@doc.command("import")
def import_(
    file: FileArgument,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="ID", help="The session to write to (default: the one that it names)."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Bring a session document into a store. What an existing session said otherwise stays there as a branch."""

    async def work() -> None:
        document = _named(file, lambda: document_from_json(_read(file)))
        if session is not None:
            document = replace(document, session=replace(document.session, session_id=session))
        name = document.session.session_id
        async with open_workshop(store, embedder="none") as workshop:
            result = await workshop.store.put_session(name, document)
            head = await workshop.store.head(name)
        if as_json:
            print_json({"session_id": name, "version": result.version, "branch_id": head.branch_id})
        else:
            messages = _counted(len(document.session.messages), "message")
            show(f"Session {name} holds {messages} on branch {head.branch_id} (version {result.version}).")

    run(work)


@doc.command()
def migrate(file: FileArgument, out: OutOption = None) -> None:
    """Bring an older document to the present version; every change is told on standard error. FILE stays as it is."""

    async def work() -> None:
        result = migrate_document(_read(file))
        for change in result.changes:
            say(change, "dim")
        say(f"{file}: {result.from_version} -> {result.to_version}, {_counted(len(result.changes), 'change')}", "green")
        _write(document_to_json(result.doc), out)

    run(work)


def _read(file: Path) -> Any:
    return parse_json(file.read_bytes(), str(file))


def _named(file: Path, work: Callable[[], SessionDocument]) -> SessionDocument:
    """Let the errors of a document say which file it was."""
    try:
        return work()
    except SchemaValidationError as error:
        raise CodecError("\n".join([f"{file} is no session document:", *error.faults])) from None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _write(value: Mapping[str, Any], out: Path | None) -> None:
    """Write a document whole or not at all."""
    data = json_text(value)
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        part.chmod(0o666 & ~_umask())
        part.replace(out)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    say(f"wrote {out}", "green")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
