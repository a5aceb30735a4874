"""`serve`: the engine for clients in other processes and languages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jacquard.cli.shared import (
    DEFAULT_STORE,
    ConfigOption,
    EmbedderOption,
    StoreOption,
    WorldOption,
    fail,
    load_configuration,
)
from jacquard.core.errors import JacquardError
from jacquard.service.settings import ServiceSettings
from mnemosyne.core.errors import MnemosyneError


def serve(
    host: Annotated[str, typer.Option("--host", metavar="H", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65_535, help="The port.")] = 8321,
    store: StoreOption = DEFAULT_STORE,
    world: WorldOption = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream", metavar="URL|NAME", help="The model server of the proxy, or a model as litellm names it."
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="How many processes.")] = 1,
    embedder: EmbedderOption = "auto",
    config: ConfigOption = None,
) -> None:
    """Serve the engine over HTTP."""
    try:
        from jacquard.service.running.server import serve as run_server
    except ImportError as error:
        raise fail(
            f"The service needs packages that are not installed ({error.name}): pip install 'jacquard-context[serve]'"
        ) from error
    settings = ServiceSettings(
        host=host,
        port=port,
        store=store,
        world=None if world is None else str(Path(world)),
        embedder=embedder,
        upstream=upstream,
        workers=workers,
        engine=load_configuration(config),
    )
    try:
        run_server(settings)
    except (JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
