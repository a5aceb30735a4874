"""Templates, from folders to text: sets of files, and the sandbox that renders them.

`sandbox` and `counting` are the only modules that import jinja2; others see this package's own types. It must not import a
stream, a planner or a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jacquard.core.errors import TemplateError
from jacquard.templating.files import TemplateFile, TemplateRoot
from jacquard.templating.files import shipped_templates as shipped_templates
from jacquard.templating.sandbox import SandboxRenderer
from jacquard.templating.sandbox import check_reply as check_reply
from jacquard.templating.sandbox import read_syntax as read_syntax
from jacquard.templating.sandbox import render_reply as render_reply
from jacquard.templating.sets import TemplateSet, faults_of, open_set


def open_templates(roots: Sequence[TemplateRoot]) -> TemplateSet:
    """Return the templates below `roots`, first root first; read again only when a file changed. Looks at the disk."""
    return open_set(roots, SandboxRenderer)


def template_set(files: Mapping[str, TemplateFile]) -> TemplateSet:
    """Return a set of templates that are in memory already."""
    return TemplateSet(files, SandboxRenderer(files))


def validate_templates(root: Path) -> tuple[TemplateError, ...]:
    """Return the faults of every template and manifest below a root; an empty result means that all of them compile."""
    return faults_of(root, SandboxRenderer)


def template_faults(root: Path) -> tuple[str, ...]:
    """Return the faults of `validate_templates` as sentences with file and line."""
    return tuple(str(fault) for fault in validate_templates(root))
