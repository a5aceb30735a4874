"""Reads sets of template files and renders them in a sandbox, for the prompts of turns.

Terms of this package:

- template: a folder of `.j2` files with a manifest (`template.yaml`), which lists the blocks of a prompt.
- root: a folder with templates, layouts and profiles, or their texts in memory. A file in an earlier root replaces the file of
  the same name in later roots.
- layout: a file that places the blocks in the prompt.
- profile: a file that describes a kind of agent: its template, its layout, and the form of messages and replies.

Only `sandbox` and `counting` import jinja2; other modules see this package's own types. The package must not import a stream, a
planner or a store.
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
    """Return the templates below `roots`. If several roots have a file of the same name, the first root is used.

    The files are read from the disk, and read again only after one of them changed. Raises TemplateError if a file is too
    large, is not UTF-8, or is a link that leads out of its root.
    """
    return open_set(roots, SandboxRenderer)


def template_set(files: Mapping[str, TemplateFile]) -> TemplateSet:
    """Return a set of templates from `files` (name -> file), which are already in memory."""
    return TemplateSet(files, SandboxRenderer(files))


def validate_templates(root: TemplateRoot) -> tuple[TemplateError, ...]:
    """Return the faults of all templates and manifests below `root`. Return an empty tuple if all of them are valid."""
    return find_template_faults(root, SandboxRenderer)


def describe_template_faults(root: TemplateRoot) -> tuple[str, ...]:
    """Return the faults of `validate_templates` as sentences with file and line."""
    return tuple(str(fault) for fault in validate_templates(root))
