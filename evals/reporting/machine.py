"""Machine and packages of a measurement: without them a latency says nothing."""

from __future__ import annotations

import os
import platform
import resource
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("jacquard-context", "numpy", "lancedb", "sentence-transformers", "torch", "litellm", "ir-measures")
_DEBIAN = "--with-wheel-pkg-dir=/usr/share/python-wheels"
"""Debian and Ubuntu build with PGO and LTO, but configure without the options, and keep the flags out of `sysconfig`."""


def machine() -> dict[str, Any]:
    """Return the processor's name, the cores that this process may use, memory in GB, system and Python."""
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_version()} ({_build()})",
    }


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load() -> float | None:
    """Return how many processes wanted a core in the last minute; None if the system does not report it."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _build() -> str:
    """Return the optimisations of this interpreter; one without profile-guided optimisation (PGO) takes about a tenth longer."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    if _DEBIAN in options:
        return "Debian's build: PGO, LTO"
    found = (("--enable-optimizations", "PGO"), ("--with-lto", "LTO"))
    return ", ".join(name for option, name in found if option in options) or "plain build"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def memory_mb() -> float:
    """Return the present memory of this process; if the system does not report it, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6
    except (OSError, ValueError, IndexError):
        return peak_memory_mb()


def peak_memory_mb() -> float:
    """Return the most that this process ever held."""
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
