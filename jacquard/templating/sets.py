"""Sets of templates: the templates of a root, kept in memory, opened again when a file changed, and checked as a whole.

Here is everything about templates that needs no template engine. It must not import jinja2; the renderer is passed in.
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
    fingerprint,
    read_files,
    shipped_templates,
    template_ids,
)
from jacquard.templating.manifest import BlockSpec, block_specs

Files = Mapping[str, TemplateFile]


class Renderer(Protocol):
    """Renders the templates of one set of files, by name; every fault is a TemplateError."""

    def compile(self, name: str) -> None:
        """Compile one template."""
        ...

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the text of one template over its variables."""
        ...


class TemplateSet:
    """The templates of a pack and the shipped ones, in memory, compiled when first used.

    Rendering is pure: same name and variables, same text. `files` holds every file by name, manifests too; `digests` a short
    hash of each one's text, by which a record of a turn notices that a template is another one now.
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
        """Return what a template is made of, in order; TemplateError for an unknown template or a fault in its manifest."""
        if template_id not in self._blocks:
            self._blocks[template_id] = block_specs(self.files, template_id)
        return self._blocks[template_id]

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the rendered text; TemplateError names file, line and source line.

        Variables are plain values (as JSON has them); nothing in them is ever read as a template.
        """
        return self._renderer.render(name, variables)

    def compile(self, name: str) -> None:
        """Compile one template; TemplateError when it has a fault."""
        self._renderer.compile(name)


def text_digest(text: str) -> str:
    """Return a short hash of a template's text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _counts(name: str, files: Files) -> bool:
    """A shipped file has two names only where a pack overrides it; a layout is no template."""
    bare = name.removeprefix(SHIPPED_PREFIX)
    return not bare.startswith("layouts/") and (name == bare or files[bare].text != files[name].text)


_OPENED: dict[tuple[TemplateRoot, ...], tuple[Fingerprint, TemplateSet]] = {}
_MOST_OPEN = 64
"""So many sets are held, the ones used last: versions of packs come and go."""


def open_set(roots: Sequence[TemplateRoot], make: Callable[[Files], Renderer]) -> TemplateSet:
    """Return the set below `roots`, read again only when a file was added, changed or removed."""
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


def faults_of(root: Path, make: Callable[[Files], Renderer]) -> tuple[TemplateError, ...]:
    """Return the faults of every template and manifest below `root`, templates first, by name."""
    try:
        shipped = shipped_templates()
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
