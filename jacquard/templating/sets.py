"""Sets of templates: kept in memory, read again when a file changed, and checked as a whole.

This module needs no template engine and must not import jinja2; the renderer is passed in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jacquard.core.errors import TemplateError
from jacquard.templating.files import (
    SHIPPED_PREFIX,
    Fingerprint,
    TemplateFile,
    TemplateRoot,
    find_shipped_templates,
    fingerprint,
    read_files,
    template_ids,
)
from jacquard.templating.manifest import BlockSpec, block_specs

Files = Mapping[str, TemplateFile]


class Renderer(Protocol):
    """Renders the templates of one set of files, by name; every fault is a TemplateError."""

    def compile(self, name: str) -> None:
        """Compile one template. Raises TemplateError when it has a fault."""
        ...

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the text of one template rendered with its variables.

        Raises TemplateError for a fault, an undefined value, or a limit that is exceeded.
        """
        ...


class TemplateSet:
    """The templates of a pack and the shipped ones, in memory, each compiled when it is first used.

    Rendering is pure: the same name and variables give the same text. `files` holds every file by name, manifests too;
    `digests` holds a short hash of each text, by which a replay notices that a template has changed.
    """

    def __init__(self, files: Files, renderer: Renderer) -> None:
        self.files = files
        self._renderer = renderer
        self._blocks: dict[str, tuple[BlockSpec, ...]] = {}
        self.digests = {name: text_digest(file.text) for name, file in files.items() if _counts(name, files)}

    @property
    def template_ids(self) -> tuple[str, ...]:
        """The ids that a plan may choose, sorted."""
        return template_ids(self.files)

    def blocks(self, template_id: str) -> tuple[BlockSpec, ...]:
        """Return the blocks of a template, in order. Raises TemplateError for an unknown template or a fault in its
        manifest.
        """
        if template_id not in self._blocks:
            self._blocks[template_id] = block_specs(self.files, template_id)
        return self._blocks[template_id]

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the rendered text.

        Variables are plain values (as JSON has them); nothing in them is ever read as a template. Raises TemplateError,
        which names file, line and source line, for a fault, an undefined value, or a limit that is exceeded.
        """
        return self._renderer.render(name, variables)

    def compile(self, name: str) -> None:
        """Compile one template. Raises TemplateError when it has a fault."""
        self._renderer.compile(name)


def text_digest(text: str) -> str:
    """Return a short hash of a template's text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _counts(name: str, files: Files) -> bool:
    """Return whether a file name is checked: a shipped file has its second name only where a pack overrides it, and a
    layout or a profile is no template.
    """
    bare = name.removeprefix(SHIPPED_PREFIX)
    return not bare.startswith(("layouts/", "profiles/")) and (name == bare or files[bare].text != files[name].text)


_OPENED: dict[tuple[TemplateRoot, ...], tuple[Fingerprint, TemplateSet]] = {}
_MOST_OPEN = 64
"""How many sets are kept, those used last; sets of older pack versions are discarded."""


def open_set(roots: Sequence[TemplateRoot], make: Callable[[Files], Renderer]) -> TemplateSet:
    """Return the set of templates below `roots`, read again only when a file was added, changed or removed.

    Raises TemplateError for a file that is too large, is not UTF-8, or leads out of its root.
    """
    key = tuple(roots)
    now = fingerprint(key)
    known = _OPENED.get(key)
    if known is None or known[0] != now:
        files = read_files(key)
        known = (now, TemplateSet(files, make(files)))
    _OPENED.pop(key, None)
    _OPENED[key] = known
    for old in list(_OPENED)[:-_MOST_OPEN]:
        _OPENED.pop(old, None)
    return known[1]


def find_template_faults(root: Path, make: Callable[[Files], Renderer]) -> tuple[TemplateError, ...]:
    """Return the faults of every template and manifest below `root`, templates first, by name."""
    try:
        shipped = find_shipped_templates()
        files = read_files([root] if root.resolve() == shipped.resolve() else [root, shipped])
    except TemplateError as error:
        return (error,)
    templates = TemplateSet(files, make(files))
    own = [name for name, file in sorted(files.items()) if Path(file.shown).is_relative_to(root)]
    checks: list[Callable[[], object]] = [partial(templates.compile, name) for name in own if name.endswith(".j2")]
    checks += [partial(templates.blocks, template_id) for template_id in template_ids(own)]
    faults: dict[str, TemplateError] = {}
    for check in checks:
        try:
            check()
        except TemplateError as error:
            faults.setdefault(str(error), error)
    return tuple(faults.values())
