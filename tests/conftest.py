"""What every test may use."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import pytest
import typer.main
from _pytest.runner import runtestprotocol
from blockbuster import BlockBuster
from hypothesis import settings
from loop_watch import HELD, IS_POSSIBLE, LoopWatch, WatchedLoop

# A deadline is a wall-clock limit: it says how busy the machine is, not whether a law holds. `make full` looks longer.
settings.register_profile("house", deadline=None, max_examples=50)
settings.register_profile("full", deadline=None, max_examples=1_000)
settings.load_profile("house")

# Many tests start processes. Where the environment keeps bytecode out of the tree, each would compile all that it imports
# anew, which takes longer than the tests; here it is kept beside pytest's own cache.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.pycache_prefix, sys.dont_write_bytecode = os.environ["PYTHONPYCACHEPREFIX"], False

# A store waits for the disk with every transaction, and a test removes all that it wrote. In memory neither takes time, and what is
# proved is the same: a process that is killed leaves to the system what it has written, on a disk as well.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30 and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# Commands speak the language of the environment. Tests read English where they name no other language.
os.environ["LC_ALL"] = "C.UTF-8"

# Typer builds every command of an application whenever one is run; a process that runs hundreds needs that once. This stands
# before the first import of `typer.testing`, which takes the function by its name.
typer.main.get_command = functools.cache(typer.main.get_command)

sys.path[:0] = [str(Path(__file__).with_name(name)) for name in ("mnemosyne", "attack")]
pytest_plugins = ["postgres_server"]


def pytest_collection_modifyitems(items):
    """Put tests that load PyTorch side by side: pytest-xdist gives neighbours to one process."""
    items.sort(key=lambda item: item.get_closest_marker("torch") is None)


def pytest_runtest_protocol(item, nextitem):
    """Run a test once more whose one failure is a held event loop: code that holds it does so each time, a stall does not."""
    if not inspect.iscoroutinefunction(getattr(item, "function", None)):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if failed and all(HELD in report.longreprtext for report in failed):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture
def anyio_backend():
    return ("asyncio", {"loop_factory": WatchedLoop}) if IS_POSSIBLE else "asyncio"


@functools.cache
def loop_watch():
    """Return the watch of this process; it is made when the first async test runs."""
    WatchedLoop.watch = LoopWatch()
    return WatchedLoop.watch


@pytest.fixture(autouse=True)
def nothing_holds_the_event_loop(request):
    """In every async test, work of ours that holds the event loop for more than 50 ms of processor time is an error."""
    if not IS_POSSIBLE or not inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        yield
        return
    with loop_watch().on() as watch:
        yield
    assert not watch.held, "\n".join(map(str, watch.held))


@functools.cache
def blocking_calls():
    """Return the watch of blocking calls of this process. It needs the files of modules, and loads none of them."""
    ours = ["mnemosyne", "jacquard", "evals"]
    # LiteLLM runs on a loop of its own, in a thread of its own; what blocks there blocks nobody else. The others are
    # synchronous by contract: a test may call them, an async function of ours may not, and is found by its own frame.
    elsewhere = ["jacquard.adapters.models.litellm_adapter", "mnemosyne.retrieval.embedding.remote"]
    synchronous = [
        "mnemosyne.world",
        "mnemosyne.formats",
        "mnemosyne.stores.locate",
        "mnemosyne.core.optional_packages",
        "jacquard.templating",
        "jacquard.templating.sets",
        "jacquard.templating.files",
        "jacquard.authoring",
        "jacquard.config.settings",
        "jacquard.templating.layouts",
        "jacquard.pipeline.skeleton.automation",
        "jacquard.testing.server",
    ]
    unloaded = [module_from_spec(find_spec(name)) for name in (*elsewhere, *synchronous)]
    return BlockBuster(ours, excluded_modules=unloaded)


@pytest.fixture(autouse=True)
def no_call_blocks_the_event_loop(request):
    """In every async test, a call of ours that blocks the event loop is an error."""
    if not inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        yield
        return
    blocking_calls().activate()
    yield
    blocking_calls().deactivate()
