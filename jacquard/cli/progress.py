"""Shows the progress of long work as a bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jacquard.cli.command_parts import err

Report = Callable[[int, int], None]


@contextmanager
def indexing(title: str = "indexing") -> Iterator[Report]:
    """Yield a function `(done, total)` that updates a progress bar with the title `title`.

    The bar appears with the first call, and only on a terminal.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=False,
    )
    task = bar.add_task(title, total=None, start=False)
    started = False

    def report(done: int, total: int) -> None:
        nonlocal started
        if not started:
            bar.start()
            bar.start_task(task)
            started = True
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        if started:
            bar.stop()
