"""Templates: reads sets of template files and renders them in a sandbox.

Only `sandbox` and `counting` import jinja2; other modules see this package's own types. It must not import a stream, a planner
or a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jacquard.core.errors import TemplateError
from jacquard.templating.files import TemplateFile, TemplateRoot
from jacquard.templating.files import find_shipped_templates as find_shipped_templates
from jacquard.templating.sandbox import SandboxRenderer
from jacquard.templating.sandbox import check_reply as check_reply
from jacquard.templating.sandbox import read_syntax as read_syntax
from jacquard.templating.sandbox import render_reply as render_reply
from jacquard.templating.sets import TemplateSet, find_template_faults, open_set


def open_templates(roots: Sequence[TemplateRoot]) -> TemplateSet:
    """Return the templates below `roots`; the first root that has a file wins. Reads the disk, again only after a file changed.

    Raises TemplateError for a file that is too large, is not UTF-8, or leads out of its root.
    """
    return open_set(roots, SandboxRenderer)


def template_set(files: Mapping[str, TemplateFile]) -> TemplateSet:
    """Return a set of templates that are already in memory."""
    return TemplateSet(files, SandboxRenderer(files))


def validate_templates(root: TemplateRoot) -> tuple[TemplateError, ...]:
    """Return the faults of every template and manifest below a root; empty if all of them compile."""
    return find_template_faults(root, SandboxRenderer)


def describe_template_faults(root: TemplateRoot) -> tuple[str, ...]:
    """Return the faults of `validate_templates` as sentences with file and line."""
    return tuple(str(fault) for fault in validate_templates(root))
