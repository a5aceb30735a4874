"""The option `--tenant` of all commands that open a store."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from mnemosyne.stores.locate import DEFAULT_TENANT

TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Whose sessions and worlds, in a store of several tenants.")
]

_CHOSEN: ContextVar[str] = ContextVar("tenant", default=DEFAULT_TENANT)


def chosen_tenant() -> str:
    """Return the tenant that the command line names."""
    return _CHOSEN.get()


def add_tenant_option(app: typer.Typer) -> None:
    """Give the option to every command of `app`, and of its groups, that has the option `--store` and not this one."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_tenant_option(group.typer_instance)
    for command in app.registered_commands:
        if command.callback is not None:
            parameters = inspect.signature(command.callback).parameters
            if "store" in parameters and "tenant" not in parameters:
                command.callback = _with_tenant(command.callback)


def _with_tenant(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*args: Any, tenant: str, **options: Any) -> Any:
        _CHOSEN.set(tenant)
        return command(*args, **options)

    option = inspect.Parameter(
        "tenant", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT_TENANT, annotation=TenantOption
    )
    parameters = [*inspect.signature(command, eval_str=True).parameters.values(), option]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
