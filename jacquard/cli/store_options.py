"""Adds the options `--config` and `--tenant` to commands that have `--store`, and finds the store of the running command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from jacquard.cli.command_parts import CHOSEN, ChosenStore, ConfigOption, fail
from jacquard.config.service import find_store
from jacquard.core.errors import ConfigError
from mnemosyne.stores.locate import DEFAULT_TENANT

Command = Callable[..., Any]
C = TypeVar("C", bound=Command)
TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Whose sessions and worlds, in a store of several tenants.")
]


def on_whole_store(command: C) -> C:
    """Mark a command that works on the whole store, so that it gets no option `--tenant`."""
    _WHOLE_STORE_COMMANDS.add(command)
    return command


_WHOLE_STORE_COMMANDS: set[Command] = set()


def add_store_options(app: typer.Typer) -> None:
    """Add `--config` and `--tenant` to every command of `app` and of its groups that has a parameter `store`.

    Commands that `on_whole_store` marked get no `--tenant`.
    """
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_store_options(group.typer_instance)
    for each in app.registered_commands:
        if each.callback is not None and "store" in inspect.signature(each.callback).parameters:
            each.callback = _with_store(each.callback, has_tenant=each.callback not in _WHOLE_STORE_COMMANDS)


def _with_store(command: Command, *, has_tenant: bool) -> Command:
    own = dict(inspect.signature(command, eval_str=True).parameters)

    @functools.wraps(command)
    def run(**options: Any) -> Any:
        file: Path | None = options.get("config")
        place = ""
        if options["store"] is None:
            try:
                options["store"], place = find_store(file)
            except ConfigError as error:
                raise fail(str(error), code=2) from error
        tenant = options.get("tenant") or DEFAULT_TENANT
        token = CHOSEN.set(ChosenStore(address=options["store"], place=place, config=file, tenant=tenant))
        try:
            return command(**{name: options[name] for name in own})
        finally:
            CHOSEN.reset(token)

    added = {"config": _option("config", ConfigOption, None)}
    if has_tenant:
        added["tenant"] = _option("tenant", TenantOption, DEFAULT_TENANT)
    # None: the option is not given.
    parameters = ({**own, **added} | own | {"store": own["store"].replace(default=None)}).values()
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    )
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option(name: str, annotation: Any, default: str | None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
