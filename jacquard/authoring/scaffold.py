"""Writes the files of a new template for a pack: a manifest, the blocks to change, and a golden case.

The files go into the pack's `templates` folder. Existing files are not overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jacquard.authoring.findings import show_path, suggest_names
from jacquard.authoring.target import FOLDER, TESTS_FOLDER
from jacquard.core.errors import JacquardError
from jacquard.templating import open_templates, read_syntax
from jacquard.templating.files import SHIPPED_PREFIX
from jacquard.templating.manifest import MANIFEST, BlockSpec
from jacquard.templating.sets import TemplateSet
from mnemosyne.files import write_file

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_RESERVED = ("layouts", "profiles", "shipped", "tests")


def new_template(name: str, pack: Path, shipped: Path, *, parent: str, blocks: Sequence[str]) -> tuple[Path, ...]:
    """Write a template that changes `blocks` of the template `parent`, with a golden case. Return the written files.

    If `name` is the name of a shipped template, the new files override it: each block extends the shipped one. `pack`
    is the folder of the pack, and `shipped` the folder of the shipped templates. Raises JacquardError if the name is
    not valid, if the parent or a block is unknown, or if a file exists already.
    """
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        raise JacquardError(
            f"{name!r} cannot be the name of a template; use small letters, digits and `_`: night_watch."
        )
    root = pack / FOLDER
    templates = open_templates((root, shipped) if root.is_dir() else (shipped,))
    overrides = name in templates.template_ids and not (root / name).is_dir()
    base = name if overrides else parent
    if base not in templates.template_ids:
        raise JacquardError(f"There is no template {base!r} to start from{suggest_names(base, templates.template_ids)}")
    specs = {spec.block_id: spec for spec in templates.blocks(base)}
    unknown = [block for block in blocks if block not in specs]
    if unknown:
        raise JacquardError(f"{base!r} has no block {unknown[0]!r}{suggest_names(unknown[0], specs)}")
    chosen = [specs[block] for block in blocks]
    files = {} if overrides else {root / name / MANIFEST: _manifest(name, base, chosen)}
    for spec in chosen:
        files[root / name / Path(spec.name).name] = _child(templates, spec, shipped=overrides)
    files[root / TESTS_FOLDER / f"{name}.yaml"] = _case(name)
    existing = [path for path in files if path.exists()]
    if existing:
        raise JacquardError(f"{show_path(str(existing[0]))} exists already; choose another name, or change it by hand.")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    return tuple(files)


def _manifest(name: str, base: str, specs: Sequence[BlockSpec]) -> str:
    lines = [
        f"# Takes over every block of {base!r}; what stands under `blocks` is changed by its id.",
        f"id: {name}",
        f"title: {{en: {name.replace('_', ' ').capitalize()}}}",
        f"extends: {base}",
        "blocks:" if specs else "blocks: []",
    ]
    lines += [f"  - {{id: {spec.block_id}, file: {Path(spec.name).name}}}" for spec in specs]
    return "\n".join(lines) + "\n"


def _child(templates: TemplateSet, spec: BlockSpec, *, shipped: bool) -> str:
    """Return a template that extends the parent's file and overrides its first block."""
    source = f"{SHIPPED_PREFIX}{spec.name}" if shipped else spec.name
    syntax = read_syntax(templates.files[spec.name])
    parts = [block.text("name") for block in syntax.root.find("Block")]
    lines = [f'{{% extends "{source}" %}}']
    if not parts:
        lines.append("{# This file has no named parts; take the line above away to write all of it. #}")
    for part in parts[-1:]:
        lines += [f"{{% block {part} %}}", "{{ super() -}}", "{% endblock %}"]
    others = ", ".join(parts[:-1])
    if others:
        lines.append(f"{{# Other parts that can be changed: {others}. #}}")
    return "\n".join(lines) + "\n"


def _case(name: str) -> str:
    return "\n".join(
        (
            "# A golden prompt: `jacquard author template test` renders it and holds it against the .txt beside this file.",
            f"template: {name}",
            "input: What do you see?",
            "# layout: cache_first       # classic if left out",
            "# state: {}                 # laid over the pack's state",
            "# messages: [{user: Hi}]    # instead of the prologue's newest",
            "# memories: []              # ids of lore that Stream B brings",
            "# contains: []              # texts that must be there; `lacks` for those that must not; `max_tokens`",
            "",
        )
    )
