"""Finds the folder in which an author edits a world pack, so that template commands read this folder first.

A turn is rendered with the pack in the store. An author, however, wants to see an edit before it is imported into the
store.
"""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from jacquard.cli.command_parts import say
from jacquard.core.errors import ConfigError
from jacquard.templating.files import TemplateRoot, find_shipped_templates, template_roots
from jacquard.wiring.runtime import Runtime

TEMPLATES = "templates"


async def author_folder(runtime: Runtime, world_id: str) -> Path | None:
    """Return the folder from which the pack of world `world_id` was last loaded on this host.

    Return None if no such folder is noted, if it no longer contains a pack, or if the notes cannot be read.
    """
    return await to_thread.run_sync(_folder, runtime, world_id)


async def author_roots(runtime: Runtime, world_id: str) -> tuple[TemplateRoot, ...]:
    """Return the folders of a world's templates in the order of the search; the shipped templates come last.

    The world's own templates are those of the author's folder. If this folder is not known, the templates of the pack
    in the store are used. Raises WorldUnavailableError if the store has no pack either.
    """
    folder = await author_folder(runtime, world_id)
    if folder is None:
        world = await runtime.engine.worlds.world(world_id, write=False)
        return template_roots((await to_thread.run_sync(find_shipped_templates),), world)
    return await to_thread.run_sync(folder_roots, folder)


def folder_roots(folder: Path) -> tuple[TemplateRoot, ...]:
    """Return the folders of templates for the pack in `folder`: the folder of the pack's own templates, if there is
    one, and then the folder of the shipped templates.
    """
    own = folder / TEMPLATES
    return (own, find_shipped_templates()) if own.is_dir() else (find_shipped_templates(),)


def _folder(runtime: Runtime, world_id: str) -> Path | None:
    try:
        return runtime.notes.find_folder(world_id)
    except ConfigError as error:
        say(str(error), "yellow")
        return None
