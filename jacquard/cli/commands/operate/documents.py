"""Prints published schemas and the content of addresses, and moves session documents in and out of a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from filament import PayloadError, load_yaml_marked
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    read_bytes,
    run,
    say,
    tell,
)
from jacquard.config import reference
from jacquard.migrate import migrate_document
from mnemosyne.chains.uris import resolve_uri
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError, SchemaValidationError
from mnemosyne.core.faults import Fault, Severity
from mnemosyne.core.json_text import json_text, parse_json
from mnemosyne.core.masking.controls import escape_json_controls
from mnemosyne.documents.archive import describe_tree, export_session, import_session, read_tree, tree_faults
from mnemosyne.documents.json_schema import package_schema, session_schema
from mnemosyne.documents.package_json import is_package, package_faults
from mnemosyne.documents.session_json import document_from_json, document_to_json, read_document
from mnemosyne.documents.shapes import record_of, shown_path
from mnemosyne.evidence.documents import index_documents
from mnemosyne.files import write_file
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.package import ContextPackage
from mnemosyne.shapes import schema_document
from mnemosyne.world import publish
from mnemosyne.world.format.fields import FILES

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
    """Names of the published schemas."""

    SESSION = "session"
    PACKAGE = "package"
    WORLD = "world"
    SETTINGS = "settings"


_FORMS: Mapping[SchemaName, Callable[[], dict[str, Any]]] = {
    SchemaName.SESSION: lambda: record_of(SessionDocument).control(),
    SchemaName.PACKAGE: lambda: record_of(ContextPackage).control(),
    SchemaName.WORLD: lambda: {name: shape.control() for name, shape in FILES.items()},
    SchemaName.SETTINGS: reference.settings_form,
}
_SCHEMAS: Mapping[SchemaName, Callable[[], str]] = {
    SchemaName.SESSION: lambda: schema_document(session_schema()),
    SchemaName.PACKAGE: lambda: schema_document(package_schema()),
    SchemaName.WORLD: publish.schema_text,
    SchemaName.SETTINGS: reference.schema_text,
}


def schema(
    name: Annotated[
        SchemaName, typer.Argument(metavar="[session|package|world|settings]", help="Which one.")
    ] = SchemaName.SESSION,
    form: Annotated[
        bool, typer.Option("--form", help="Print the controls of a form: label, kind, choices, bounds, default, help.")
    ] = False,
) -> None:
    """Print the JSON Schema of session documents, context packages, world packs or settings."""
    if form:
        print_json(_FORMS[name]())
        return
    sys.stdout.buffer.write(_SCHEMAS[name]().encode())
    sys.stdout.flush()


def source(
    uri: Annotated[str, typer.Argument(metavar="URI", help="An address, as in `mnemosyne://session:demo/turn/p001`.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Print the whole content of a `source_uri` as JSON.

    A `source_uri` is the address of an entry of memory, a turn or an item of evidence.
    """

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            print_json(codec.to_plain(await resolve_uri(runtime.store, uri)))

    run(work)


@doc.command()
def validate(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check a session document or a context package.

    All faults are reported at once, each with its path. Warnings do not fail.
    """

    async def work() -> None:
        data = _read(file)
        what = "context package" if is_package(data) else "session document"
        if what == "context package":
            faults = package_faults(data)
        else:
            document, faults = read_document(data)
            if document is not None:
                faults = (*faults, *tree_faults(document))
        faults = _name_lines(faults, file)
        errors = [str(fault) for fault in faults if fault.severity is Severity.ERROR]
        warnings = [str(fault) for fault in faults if fault.severity is Severity.WARNING]
        if as_json:
            print_json({"ok": not errors, "kind": what, "errors": errors, "warnings": warnings})
        else:
            for warning in warnings:
                say(f"warning: {warning}", "yellow")
        if errors:
            if not as_json:
                raise fail("\n".join([*errors, f"{_format_count(len(errors), 'error')} in {file}."]))
            raise typer.Exit(1)
        if not as_json:
            tell(f"{file} is a good {what} ({_format_count(len(warnings), 'warning')}).", "green")

    run(work)


@doc.command()
def export(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session to write out.")],
    branch: BranchOption = None,
    linear: Annotated[
        bool, typer.Option("--linear", help="Write only what the specification has fields for; names what is left out.")
    ] = False,
    out: OutOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write a session as one document.

    Its messages and its state are those of one branch. The field `turn_tree` contains all branches, except with --linear.
    """

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            document = await export_session(runtime.store, session, branch_id=branch, linear=linear)
            missing = describe_tree(await read_tree(runtime.store, session, branch)) if linear else ()
        _write(document_to_json(document), out)
        if missing:
            say(f"left out: {'; '.join(missing)}. Without --linear they are written too.", "yellow")

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
    """Bring a session document into a store.

    If the session exists there and differs, its own version stays as a branch.
    """

    async def work() -> None:
        document = _name_file_in_errors(file, lambda: document_from_json(_read(file)))
        async with open_store(store, embedder="none") as runtime:
            try:
                done = await import_session(runtime.store, document, session_id=session)
            except SchemaValidationError as error:
                raise _build_document_error(file, error) from None
            await index_documents(runtime.store, done.session_id)
        if as_json:
            print_json(codec.to_plain(done))
            return
        messages = _format_count(len(document.session.messages), "message")
        tell(f"Session {done.session_id} holds {messages} on branch {done.branch_id} (version {done.version}).")
        for line in done.left_out:
            say(line, "yellow")

    run(work)


@doc.command()
def migrate(file: FileArgument, out: OutOption = None) -> None:
    """Write a document in the current version of its format.

    FILE is not changed.
    """

    async def work() -> None:
        document = _name_file_in_errors(file, lambda: migrate_document(_read(file)))
        say(f"{file}: version {document.schema_version}", "green")
        _write(document_to_json(document), out)

    run(work)


def _read(file: Path) -> Any:
    return parse_json(read_bytes(file), str(file))


def _name_lines(faults: tuple[Fault, ...], file: Path) -> tuple[Fault, ...]:
    """Return faults with the file and line of each key; as they are if the file uses what YAML reads differently."""
    if not faults:
        return faults
    try:
        lines = {shown_path(path): line for path, line in load_yaml_marked(read_bytes(file).decode())[1].items()}
    except PayloadError:
        return faults
    return tuple(replace(fault, file=str(file), line=_find_line(fault.path, lines)) for fault in faults)


def _find_line(path: str, lines: Mapping[str, int]) -> int:
    """Return the line of a key, or of the nearest one above it."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 1)


def _name_file_in_errors(file: Path, work: Callable[[], SessionDocument]) -> SessionDocument:
    """Add the file's name to the errors of a document."""
    try:
        return work()
    except SchemaValidationError as error:
        raise _build_document_error(file, error) from None


def _build_document_error(file: Path, error: SchemaValidationError) -> CodecError:
    return CodecError("\n".join([f"{file} is no session document:", *error.faults]))


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _write(value: Mapping[str, Any], out: Path | None) -> None:
    """Write a document completely or not at all; exit code 1 if the file cannot be written."""
    data = json_text(value)
    if out is None:
        sys.stdout.buffer.write(escape_json_controls(data.decode("utf-8")).encode("utf-8"))
        sys.stdout.flush()
        return
    try:
        write_file(out, data)
    except OSError as error:
        raise fail(f"{out}: cannot be written: {error.strerror or error}.") from error
    say(f"wrote {out}", "green")
