"""Checks that the import names of this distribution lead to the files of this distribution, not to files of other
projects.

Other projects on the package index use the import names `jacquard`, `mnemosyne`, `filament` and `evals` too. If such a
project is installed in the same environment, the files of both are in one folder, and the later installation replaces
files of the same name. This module must not import the packages that it checks. If `jacquard/__init__.py` itself was
replaced, `startup/` calls this module.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "jacquard-context"

PACKAGES = {
    "filament": ("Filament: ", "boundaries errors markup nodes payload read render reply state"),
    "mnemosyne": (
        "Mnemosyne ",
        "chains core damage documents evidence files formats host_parts plugins privacy protocols retrieval "
        "schema shapes stores testing values world",
    ),
    "jacquard": (
        "Jacquard ",
        "adapters authoring cli client config core integrations memory migrate pipeline remote service studio sync "
        "templating testing turns wiring",
    ),
    "evals": (
        "Judges ",
        "answers app bench compare dataset errors loaders metrics options play plays reporting running sets",
    ),
}
"""Package name -> (beginning of the package's docstring, names of its modules and folders)."""

_INSTALLED = ("site-packages", "dist-packages")


def check_packages(*names: str) -> None:
    """Raise ImportError if one of the packages `names` is missing or contains files of another project."""
    for name in names:
        fault = find_fault(name)
        if fault is not None:
            raise ImportError(fault)


def find_fault(name: str) -> str | None:
    """Return a sentence that names files of another project in the package `name`, with a remedy. Return None if all
    files are ours.

    A missing package is a fault too. Modules of other projects next to ours are searched only in an installed package,
    not in a checkout.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return f"The package {name!r} is missing. {_advise(name)}"
    folder = Path(spec.origin).parent
    docstring, entries = PACKAGES[name]
    with Path(spec.origin).open(encoding="utf-8", errors="replace") as file:
        is_ours = file.readline().startswith(f'"""{docstring}')
    is_installed = folder.parent.name in _INSTALLED
    foreign = _find_foreign(folder, frozenset(entries.split())) if is_installed else ()
    if is_ours and not foreign:
        return None
    which = f"{', '.join(foreign)} in {folder}" if is_ours else spec.origin
    verb = "belong" if is_ours and len(foreign) > 1 else "belongs"
    advice = _advise(name) if is_installed else f"Rename the folder {folder}, or start Python elsewhere."
    return f"{which} {verb} to another project with the import name {name!r}. {advice}"


def _find_foreign(folder: Path, known: frozenset[str]) -> tuple[str, ...]:
    """Return modules and folders that are not ours; names that begin with `_` or `.` do not count."""
    with os.scandir(folder) as found:
        entries = [each.name for each in found if each.is_dir() or each.name.endswith((".py", ".so", ".pyd"))]
    return tuple(sorted(each for each in entries if each[0] not in "_." and each.partition(".")[0] not in known))


def _advise(name: str) -> str:
    # importlib.metadata costs more than the whole check; only an error needs it.
    owners = import_module("importlib.metadata").packages_distributions().get(name, ())
    others = sorted({each for each in owners if each != DISTRIBUTION})
    remove = f"pip uninstall {' '.join(others)}; " if others else ""
    # No index has this distribution yet, so it is installed from a checkout.
    return (
        f"Remove it and install Jacquard again: {remove}pip install --force-reinstall --no-deps . in a checkout of it."
    )
