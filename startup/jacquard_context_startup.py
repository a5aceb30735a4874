"""Warns where another project's files have replaced ours: its `__init__.py` runs in place of ours, so ours cannot say so.

`jacquard_context.pth` imports this module whenever Python starts. Where nothing was replaced, it only reads four lines.
"""

import os
import sys

_FOLDER = os.path.dirname(__file__)
_BEGINNINGS = {"filament": "Filament: ", "mnemosyne": "Mnemosyne ", "jacquard": "Jacquard ", "evals": "Judges "}


def _is_replaced(package: str) -> bool:
    folder = os.path.join(_FOLDER, package)
    try:
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8", errors="replace") as file:
            return not file.readline().startswith('"""' + _BEGINNINGS[package])
    except OSError:
        # An editable installation has its packages elsewhere, and here at most data (`_templates`).
        return os.path.isdir(folder) and any(name[0] not in "._" for name in os.listdir(folder))


class _Notice:
    """A finder that finds nothing: it warns when a replaced package is first imported."""

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._packages:
            self._packages.remove(name)
            _warn(name)


def _warn(package: str) -> None:
    from runpy import run_path
    from warnings import warn

    # By its file: to import it by its name would import the package that was replaced.
    for folder in sys.path:
        path = os.path.join(folder, "jacquard", "wiring", "installation.py")
        if os.path.isfile(path):
            # Another release, first on the path, may have no such function.
            find_fault = run_path(path).get("find_fault")
            fault = None if find_fault is None else find_fault(package)
            if fault is not None:
                warn(fault, stacklevel=3)
            return


_replaced = {package for package in _BEGINNINGS if _is_replaced(package)}
if _replaced:
    sys.meta_path.insert(0, _Notice(_replaced))
