"""Checks a framework before an adapter is attached. The framework must be installed, be new enough, and have the hooks
that the adapter needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from jacquard.integrations.core.values import FrameworkError
from mnemosyne.core.optional_packages import install_command
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """Framework that an adapter needs.

    `extra` is the extra that installs the framework together with this package. `distribution` is the framework's name
    on the package index. `floor` is the oldest release that was tested.
    """

    extra: str
    distribution: str
    floor: str

    @property
    def advice(self) -> str:
        """Command that installs the framework."""
        return install_command(self.extra)


def explain_missing(requirement: Requirement, error: ImportError) -> ImportError:
    """Return the error for a framework that cannot be imported: it states the reason and how to install the framework."""
    found = find_version(requirement.distribution)
    if found is None:
        what = f"{requirement.distribution} is not installed"
    elif _numbers(found) < _numbers(requirement.floor):
        what = f"{requirement.distribution} {found} is installed, but {requirement.floor} or later is needed"
    else:
        what = f"{requirement.distribution} {found} is installed, but cannot be imported ({error})"
    kind = ModuleNotFoundError if found is None else ImportError
    return kind(f"{what}. Install it with: {requirement.advice}", name=requirement.distribution)


def find_version(distribution: str) -> str | None:
    """Return the version of an installed distribution. Return None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def check_framework(requirement: Requirement, hooks: Iterable[tuple[object, str]]) -> str:
    """Return the version of the installed framework if an adapter can be attached to it.

    `hooks` contains (owner, name) of every function that the adapter overrides or calls. Raises FrameworkError if the
    framework is not installed, is older than the floor, or lacks a hook. A missing hook must not pass, because its
    replacement would never be called.
    """
    found = find_version(requirement.distribution)
    if found is None:
        raise FrameworkError(f"{requirement.distribution} is not installed. Install it with: {requirement.advice}")
    if _numbers(found) < _numbers(requirement.floor):
        raise FrameworkError(
            f"{requirement.distribution} {found} is older than this adapter needs ({requirement.floor}). "
            f"Install a newer one with: {requirement.advice}"
        )
    for owner, name in hooks:
        if not hasattr(owner, name):
            where = getattr(owner, "__qualname__", type(owner).__qualname__)
            raise FrameworkError(
                f"{requirement.distribution} {found} has no {where}.{name}, which this adapter needs to be called. "
                f"Install a release that has it: {requirement.advice}"
            )
    return found


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release.partition("+")[0])[:3])
