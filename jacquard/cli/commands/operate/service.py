"""Runs the service over HTTP (`serve`) and over MCP (`mcp`), and the studio (`studio`), and manages tokens (`tokens`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    StoreOption,
    WorldOption,
    fail,
    name_store,
    print_json,
    run,
    say,
    show,
)
from jacquard.cli.store_options import TenantOption, on_whole_store
from jacquard.core.errors import ConfigError, JacquardError
from jacquard.remote.bodies import TokenRecord
from jacquard.service.access.records import ServiceRecords, using_records
from jacquard.service.values import Principal, Scope
from mnemosyne.core.codec import format_time
from mnemosyne.core.errors import MnemosyneError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.stores.locate import DEFAULT_TENANT

PortOption = Annotated[int | None, typer.Option("--port", metavar="N", help="The port. [8321]")]
UpstreamOption = Annotated[
    str | None,
    typer.Option(
        "--upstream", metavar="URL|NAME", help="The model server of the proxy, or a model as litellm names it."
    ),
]

if TYPE_CHECKING:
    from jacquard.service.running.application import ServicePages
    from jacquard.service.tenants import TenantRuntimes

tokens = typer.Typer(no_args_is_help=True, help="Tokens of the service: who may call it, and for what.")


@on_whole_store
def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="The address to listen on. [127.0.0.1]")
    ] = None,
    port: PortOption = None,
    store: StoreOption = DEFAULT_STORE,
    world: Annotated[
        Path | None, typer.Option("--world", "-w", metavar="DIR", help="The world pack from which new sessions start.")
    ] = None,
    upstream: UpstreamOption = None,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="How many processes. [1]")] = None,
    embedder: Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="As of `weave`. [auto]")] = None,
    tenants: Annotated[
        bool | None, typer.Option("--tenants/--no-tenants", help="Whether every request needs a token. [no]")
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules", metavar="FILE", help="Which calls of chat clients are no turn of a conversation (YAML)."
        ),
    ] = None,
    studio: Annotated[
        bool | None, typer.Option("--studio/--no-studio", help="Whether pages for people are served at `/`. [no]")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve the engine over HTTP.

    The settings of the service are the section `service` of the settings file; options override them.
    """
    _run_server(
        config,
        {
            "host": host,
            "port": port,
            "store": store,
            "world": None if world is None else str(world),
            "upstream": upstream,
            "workers": workers,
            "embedder": embedder,
            "tenants": tenants,
            "proxy.rules": None if rules is None else str(rules),
            "studio": studio,
        },
    )


@on_whole_store
def studio(
    port: PortOption = None,
    store: StoreOption = DEFAULT_STORE,
    world: WorldOption = None,
    upstream: UpstreamOption = None,
    embedder: EmbedderOption = "auto",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the browser. [yes]")] = True,
    config: ConfigOption = None,
) -> None:
    """Serve the studio on this machine and open it in the browser: what the model sees in each turn, and why."""
    given = {
        "host": "127.0.0.1",
        "port": port,
        "store": store,
        "world": None if world is None else str(world),
        "upstream": upstream,
        "embedder": embedder,
        "studio": True,
    }
    _run_server(config, given, opens_browser=browser)


def _run_server(config: Path | None, given: Mapping[str, Any], *, opens_browser: bool = False) -> None:
    """Serve with the given options, without those that are None."""
    try:
        from jacquard.service.running.server import serve as run_server
    except ImportError as error:
        raise fail(explain_missing_package("The service", _package_of(error), "serve")) from error
    options = {name: value for name, value in given.items() if value is not None}
    try:
        run_server(config, options, open_pages=_open_pages, opens_browser=opens_browser)
    except ConfigError as error:
        raise fail(str(error), code=2) from error
    except (JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error


def _open_pages(tenants: TenantRuntimes, records: ServiceRecords | None) -> ServicePages:
    from jacquard.studio.app import open_studio  # loaded only if the studio is on

    return open_studio(tenants, records)


def _package_of(error: ImportError) -> str:
    return (error.name or "a package").partition(".")[0]


def mcp(
    store: StoreOption = DEFAULT_STORE,
    world: WorldOption = None,
    tenant: TenantOption = DEFAULT_TENANT,
    viewer: Annotated[
        str | None, typer.Option("--viewer", metavar="NAME", help="The client sees what this character may know.")
    ] = None,
    scope: Annotated[
        Scope, typer.Option("--scope", metavar="SCOPE", help="`play`, or `author`: also state and lore by hand.")
    ] = Scope.AUTHOR,
    author: Annotated[
        str, typer.Option("--author", metavar="NAME", help="Who makes the edits of memory. [the client's name]")
    ] = "",
    embedder: EmbedderOption = "auto",
    config: ConfigOption = None,
) -> None:
    """Serve the memory over MCP to the program that starts this command.

    The program writes to standard input and reads standard output (docs/en/mcp.md). Over HTTP, `jacquard operate serve`
    answers at /mcp.
    """
    try:
        from jacquard.service.running.stdio import run_stdio
    except ImportError as error:
        raise fail(explain_missing_package("MCP", _package_of(error), "mcp")) from error
    given = {"store": store, "world": None if world is None else str(world), "embedder": embedder}
    name_store()
    caller = Principal(tenant=tenant, scope=scope if viewer is None else Scope.PLAY, viewer=viewer, author=author)
    try:
        run_stdio(caller, config, {name: value for name, value in given.items() if value is not None})
    except ConfigError as error:
        raise fail(str(error), code=2) from error
    except (JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error


@tokens.command("create")
def create_token(
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose sessions it opens.")],
    scope: Annotated[
        Scope, typer.Option("--scope", help="What it allows; each includes those before it.")
    ] = Scope.PLAY,
    viewer: Annotated[
        str | None, typer.Option("--viewer", metavar="ID", help="Only what this character may know; with scope play.")
    ] = None,
    days: Annotated[float | None, typer.Option("--days", metavar="N", min=0.0, help="It ends after so long.")] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What it is for.")] = "",
    store: StoreOption = DEFAULT_STORE,
    json_output: JsonOption = False,
) -> None:
    """Create a token and print it.

    It is printed only this once, because the store keeps only a hash of it.
    """

    async def work() -> tuple[str, TokenRecord]:
        ends = None if days is None else datetime.now(UTC) + timedelta(days=days)
        async with using_records(store) as records:
            return await records.tokens.create(tenant, scope, viewer=viewer, note=note, expires_at=ends)

    token, record = run(work)
    if json_output:
        print_json({"token": token, **describe_token(record)})
        return
    show(token)
    say(f"Token {record.token_id} of tenant {record.tenant}, scope {record.scope.value}. It is not shown again.")


@tokens.command("list")
@on_whole_store
def list_tokens(store: StoreOption = DEFAULT_STORE, json_output: JsonOption = False) -> None:
    """List tokens: what each allows, and whether it is revoked.

    The tokens themselves cannot be shown, because the store keeps only their hashes.
    """

    async def work() -> tuple[TokenRecord, ...]:
        async with using_records(store) as records:
            return await records.tokens.records()

    records = run(work)
    if json_output:
        print_json([describe_token(record) for record in records])
        return
    for record in records:
        told = [record.token_id, record.tenant, record.scope.value]
        told += [f"viewer {record.viewer}"] * (record.viewer is not None)
        told += [f"until {format_time(record.expires_at)}"] if record.expires_at else []
        told += ["revoked"] * record.revoked + [record.note] * bool(record.note)
        show("  ".join(told))
    if not records:
        say("There are no tokens; `jacquard operate tokens create` makes one.")


@tokens.command("revoke")
@on_whole_store
def revoke_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `jacquard operate tokens list` shows.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Revoke a token; a running service refuses it within two seconds."""

    async def work() -> TokenRecord:
        async with using_records(store) as records:
            return await records.tokens.revoke(token_id)

    record = run(work)
    say(f"Token {record.token_id} of tenant {record.tenant} is revoked.")


def describe_token(record: TokenRecord) -> dict[str, Any]:
    """Return the fields of a token's record that are not empty. The record does not contain the token itself."""
    told = {name: getattr(record, name) for name in TokenRecord.__slots__}
    return {name: value for name, value in told.items() if value is not None}
