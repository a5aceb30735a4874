"""Runs the long form of a property: numbered cases in several processes, resumable, with a journal of its findings.

A case is named by its number alone: the same number gives the same input on every machine, so that a finding can be
repeated with `--case`. The short form of the property checks the first numbers in the suite.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

CHUNKS_AHEAD = 4


@dataclass(frozen=True, kw_only=True)
class LongForm:
    """A property over numbered cases: `check` raises for a number whose case breaks it.

    `count` is how many cases the full form has, `chunk` how many one process checks between two journal entries.
    `workers`: how many processes work side by side.
    """

    count: int
    check: Callable[[int], None]
    chunk: int = 100
    workers: int = 2


@dataclass(kw_only=True)
class Journal:
    """What was done so far: all cases below `done` are checked; `findings` maps a case to what was wrong with it."""

    path: Path
    done: int = 0
    seconds: float = 0.0
    findings: dict[int, str]

    @classmethod
    def opened(cls, path: Path) -> Journal:
        if not path.exists():
            return cls(path=path, findings={})
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            path=path,
            done=kept["done"],
            seconds=kept["seconds"],
            findings={int(number): text for number, text in kept["findings"].items()},
        )

    def save(self) -> None:
        new = self.path.with_suffix(".new")
        kept = {"done": self.done, "seconds": round(self.seconds, 1), "findings": self.findings}
        with new.open("w", encoding="utf-8") as file:
            json.dump(kept, file, ensure_ascii=True, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


def run(place: str, journal: Journal, *, count: int, minutes: float, say: Callable[[str], None]) -> None:
    """Check the cases from `journal.done` to `count` of the form at `place` (`module:NAME`), for at most `minutes`."""
    form = find_form(place)
    started, before = time.monotonic(), journal.seconds
    if journal.done >= count:
        return
    with ProcessPoolExecutor(form.workers, mp_context=get_context("spawn"), initializer=_prepare_process) as pool:
        for done, findings in _in_order(pool, place, range(journal.done, count, form.chunk), count):
            journal.done, journal.seconds = done, before + time.monotonic() - started
            journal.findings.update(findings)
            journal.save()
            say(f"{done} of {count} cases, {len(journal.findings)} findings, {journal.seconds:.0f} s")
            if time.monotonic() - started > 60 * minutes:
                break


def _in_order(pool: ProcessPoolExecutor, place: str, starts: range, count: int) -> Iterator[tuple[int, dict[int, str]]]:
    """Yield the end of each chunk and its findings, in order; chunks begun are ended when the caller stops."""
    waiting: dict[int, Future[dict[int, str]]] = {}
    ahead = iter(starts)
    for start in starts:
        for new in islice(ahead, max(0, CHUNKS_AHEAD - len(waiting))):
            waiting[new] = pool.submit(check_chunk, place, new, min(new + starts.step, count))
        while not waiting[start].done():
            wait([waiting[start]], return_when=FIRST_COMPLETED)
        yield min(start + starts.step, count), waiting.pop(start).result()


def check_chunk(place: str, begin: int, end: int) -> dict[int, str]:
    """Check the cases `begin` to `end` (half-open) in this process; return what was wrong, by case."""
    form = find_form(place)
    findings: dict[int, str] = {}
    for number in range(begin, end):
        if _parent not in (0, os.getppid()):
            os._exit(1)  # The command was killed; the pool would catch SystemExit and wait for the next chunk for ever.
        try:
            form.check(number)
        except Exception as error:
            findings[number] = f"{type(error).__name__}: {error}"[:2_000]
    return findings


def find_form(place: str) -> LongForm:
    module, _, name = place.partition(":")
    found: Any = getattr(import_module(module), name)
    assert isinstance(found, LongForm)
    return found


_parent = 0


def _prepare_process() -> None:
    global _parent
    _parent = os.getppid()
    folder = str(Path(__file__).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
