"""Writes and checks world packs, for the commands `jacquard author init` and `jacquard author validate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from jacquard.authoring.opening import find_world_faults
from jacquard.cli.command_parts import (
    JsonOption,
    fail,
    print_json,
    run,
    say,
    tell,
)
from mnemosyne.core.errors import WorldPackError
from mnemosyne.world import describe, examine_world
from mnemosyne.world.scaffold import write_scaffold


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet, or an empty one.")],
    locale: Annotated[
        str, typer.Option("--locale", metavar="TAG", help="`en` or `zh-CN`: the language of the starter pack.")
    ] = "en",
) -> None:
    """Write a small world pack with comments, ready to be played.

    If the folder is not empty, nothing is written.
    """

    async def work() -> None:
        written = write_scaffold(folder, locale)
        for path in written:
            say(f"wrote {path}", "green")
        tell(f"Try it: jacquard play weave --world {folder} --session first --input ...")

    run(work)


def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The world pack.")],
    as_json: JsonOption = False,
) -> None:
    """Check a world pack and its templates.

    All faults are reported at once, each with file, line and key. If there is a fault, the exit code is 1. A warning is
    about something that is allowed but probably a mistake.
    """

    async def work() -> None:
        faults: list[str] = []
        warnings: tuple[str, ...] = ()
        counts: dict[str, object] = {}
        try:
            world, warnings = examine_world(folder, try_patterns=True)
        except WorldPackError as error:
            faults += error.faults
        else:
            counts = dict(describe(world))
            faults += find_world_faults(world)
        if as_json:
            print_json({"ok": not faults, "faults": faults, "warnings": warnings, "counts": counts})
        else:
            for warning in warnings:
                say(f"warning: {warning}", "yellow")
        if faults:
            if not as_json:
                raise fail("\n".join([*faults, f"{len(faults)} fault{'s' * (len(faults) != 1)}."]))
            raise typer.Exit(1)
        if not as_json:
            tell(f"{folder} is a good pack{_count_warnings(len(warnings))}.", "green")
            for name, value in counts.items():
                tell(f"  {name.replace('_', ' ')}: {_show_count(value)}")

    run(work)


def _count_warnings(number: int) -> str:
    return "" if not number else f", with {number} warning{'s' if number > 1 else ''}"


def _show_count(value: object) -> str:
    """Return a count of a pack in words: numbers by kind after their total, and lists with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        kinds = ", ".join(f"{number} {kind}" for kind, number in value.items() if kind != "total" and number)
        return f"{value.get('total', 0)}{f' ({kinds})' if kinds else ''}"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
