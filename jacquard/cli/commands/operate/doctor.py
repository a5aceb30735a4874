"""Checks the health of a store, for the command `jacquard operate doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    ConfigOption,
    JsonOption,
    StoreOption,
    print_json,
    run,
    tell,
)
from jacquard.cli.language import speak
from jacquard.cli.store_options import on_whole_store
from jacquard.service.upkeep.doctor import Doctor
from jacquard.service.upkeep.findings import Diagnosis
from mnemosyne.core.codec import to_plain


@on_whole_store
def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every record and archive too, which may take long.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", metavar="NAME", help="As of `weave`. [service.embedder of the settings, else auto]"),
    ] = None,
    config: ConfigOption = None,
    json_output: JsonOption = False,
) -> None:
    """Check a store, and say what is stale or wrong and what to do about it.

    The size of each tenant and the source of each setting are printed too. Nothing is written. If something is wrong, the
    exit code is 1; stale parts are not a failure.
    """
    found = run(Doctor(store=store, embedder=embedder, config=config, deep=deep).examine)
    if json_output:
        print_json({"ok": found.is_well, **to_plain(found)})
    else:
        _print(found, config)
    if not found.is_well:
        raise typer.Exit(1)


def _print(found: Diagnosis, config: Path | None) -> None:
    revision, ours = found.revisions
    tell(f"store      {found.store} ({found.kind}){'' if found.reachable else ': not reachable'}")
    if revision:
        tell(f"revision   {revision}; this release reads {ours}")
    for figures in found.tenants:
        tell(
            f"tenant     {figures.tenant}: {figures.sessions} sessions ({figures.archived} archived), {figures.entries} entries, "
            f"{figures.worlds} worlds, {figures.stored_bytes:,} bytes"
        )
    for index in found.indexes:
        encoders = f", vectors of {', '.join(index.encoders)}" if index.encoders else ""
        tell(f"index      {index.folder}: {index.tables} tables, {index.file_bytes:,} bytes{encoders}")
    for shared in found.shared:
        vectors = ", ".join(f"{number:,} vectors of {name}" for name, number in sorted(shared.vectors.items()))
        tell(
            f"shared     {shared.tenant}: {vectors or 'no vectors'}, {shared.segments:,} index segments in {shared.scopes:,} scopes"
        )
    for snapshot in found.snapshots:
        tell(
            f"snapshot   {snapshot.world_id} of {snapshot.tenant}: {snapshot.snapshot_id}, {snapshot.entries:,} entries, "
            f"{snapshot.file_bytes:,} bytes, {snapshot.encoder or 'words alone'}"
        )
    for name, holder in found.leases.items():
        tell(f"lease      {name}: {holder}")
    if found.embedder:
        tell(f"embedder   {found.embedder}")
    tell("packages   " + ", ".join(f"{name} {version}" for name, version in found.packages.items() if version))
    for each in found.settings:
        if each.source != "default":
            tell(f"setting    {each.name} = {each.value} ({each.source})")
    for finding in found.findings:
        tell(
            f"{speak(finding.severity.value):<10} {speak(finding.what)} {speak(finding.do)}",
            "red" if finding.severity == "wrong" else "yellow",
        )
    if not found.findings:
        tell("Nothing is stale or wrong.")
