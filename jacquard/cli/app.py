"""The `jacquard` command: every command is registered here and lives in a module of its own kind."""

from __future__ import annotations

from jacquard.cli.commands import (
    documents,
    erase,
    explain,
    files,
    index,
    migrate,
    parts,
    replay,
    sessions,
    turns,
)
from jacquard.cli.commands.authoring import packs, templates
from jacquard.cli.commands.memory import evidence, lore, verbs
from jacquard.cli.commands.operations import doctor, housekeeping, service, snapshots, stores
from jacquard.cli.overview import new_app
from jacquard.cli.store_options import add_store_options

app = new_app()

for command in (
    packs.init,
    packs.validate,
    turns.weave,
    turns.commit,
    turns.action,
    sessions.state,
    sessions.history,
    sessions.fork,
    sessions.switch,
    explain.explain,
    replay.replay,
    documents.schema,
    documents.source,
    parts.plugins,
):
    app.command()(command)
app.add_typer(sessions.sessions)
app.command("import")(files.import_)
app.command()(files.export)
app.command()(index.reindex)
app.command()(index.check)
app.command()(erase.erase)
app.command()(erase.sweep)
app.command()(housekeeping.archive)
app.command()(evidence.consolidate)
app.add_typer(documents.doc)
app.add_typer(parts.embedder)
app.add_typer(evidence.evidence)
app.add_typer(lore.lore)
app.add_typer(verbs.memory)
app.add_typer(templates.template)
app.command()(service.serve)
app.command()(service.mcp)
app.command()(migrate.migrate)
app.command()(stores.backup)
app.command()(stores.restore)
app.command()(housekeeping.housekeeping)
app.command()(doctor.doctor)
app.add_typer(service.tokens, name="tokens")
app.add_typer(snapshots.snapshot)
add_store_options(
    app,
    whole_stores=(
        service.serve,
        service.list_tokens,
        service.revoke_token,
        migrate.migrate,
        stores.restore,
        housekeeping.housekeeping,
        doctor.doctor,
        snapshots.publish,
    ),
)


def main() -> None:
    """Run the command line."""
    app()
