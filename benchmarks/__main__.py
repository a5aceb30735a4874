"""`python -m benchmarks`: what turns cost, on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.text import Text

from benchmarks import installation as installation_bench
from benchmarks import prefix as prefix_bench
from benchmarks import recall as recall_bench
from benchmarks import rivals as rivals_bench
from benchmarks import skeleton as skeleton_bench
from benchmarks import token_counts as token_counts_bench
from benchmarks import turn_length as turn_length_bench
from benchmarks.costs import costs as costs_bench
from benchmarks.deadline import deadline as deadline_bench
from benchmarks.rivals.command import rivals
from benchmarks.service import hosts as hosts_bench
from benchmarks.service import pages as pages_bench
from benchmarks.service import proxy as proxy_bench
from benchmarks.service import service as service_bench
from benchmarks.service import turns as turns_bench
from benchmarks.snapshots import snapshots as snapshots_bench
from benchmarks.soak import figures as soak_figures
from benchmarks.soak import soak as soak_bench
from benchmarks.starts import first_turns as first_turns_bench
from benchmarks.stores import session_life as session_life_bench
from benchmarks.stores import stores as stores_bench
from evals.errors import EvalError
from evals.reporting.progress import OnProgress, show_progress
from jacquard import JacquardError
from mnemosyne import MnemosyneError

app = typer.Typer(
    name="bench",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure what turns cost. Without a name, every benchmark runs as it stands.",
)
_out = Console(highlight=False, soft_wrap=True, width=None)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

app.command("rivals")(rivals)

EmbedderOption = Annotated[
    str, typer.Option("--embedder", metavar="NAME", help="`none`, `auto`, or a model as everywhere.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON too.")]
Measured = Callable[[Callable[[str], None], OnProgress], Awaitable[dict[str, Any]]]


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    listed: Annotated[bool, typer.Option("--list", help="List the benchmarks and what they measure.")] = False,
) -> None:
    """List the benchmarks, or run them all."""
    if listed:
        for name, module in (
            ("turn_length", turn_length_bench),
            ("deadline", deadline_bench),
            ("prefix", prefix_bench),
            ("skeleton", skeleton_bench),
            ("stores", stores_bench),
            ("session_life", session_life_bench),
            ("recall", recall_bench),
            ("rivals", rivals_bench),
            ("soak", soak_bench),
            ("service", service_bench),
            ("turns", turns_bench),
            ("proxy", proxy_bench),
            ("pages", pages_bench),
            ("starts", first_turns_bench),
            ("cold", first_turns_bench),
            ("hosts", hosts_bench),
            ("snapshots", snapshots_bench),
            ("costs", costs_bench),
            ("install", installation_bench),
            ("tokens", token_counts_bench),
        ):
            first = (module.__doc__ or "").strip().splitlines()[0]
            _out.print(Text(f"{name:12} {first}"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        turn_length()
        deadline()
        stores()


@app.command("turn_length")
def turn_length(
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N", help="Messages of the sessions to compare.")
    ] = "1000,100000",
    turns: Annotated[int, typer.Option("--turns", min=2, help="Turns on each.")] = 60,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Prepare and commit turns on a short and on a long session, in turn, and print the ratio."""
    counts = _sizes(sizes)
    _measure(partial(turn_length_bench.run, counts, turns, embedder), turn_length_bench.show, json_file)


@app.command("deadline")
def deadline(
    turns: Annotated[int, typer.Option("--turns", min=1, help="How many turns.")] = 200,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="How many sessions are played at once.")] = 6,
    messages: Annotated[int, typer.Option("--messages", min=2, help="How long each is before that.")] = 400,
    deadline_ms: Annotated[
        int, typer.Option("--deadline-ms", min=1, help="How long a turn waits for Stream B.")
    ] = 1500,
    think_seconds: Annotated[
        float, typer.Option("--think-seconds", min=0, help="What lies between the turns of a session, in the mean.")
    ] = 1.0,
    reset_seconds: Annotated[
        float, typer.Option("--reset-seconds", min=0, help="The circuit breaker's pause (30 s in use).")
    ] = 3.0,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Prepare turns against a server that is slow, hangs, dies and talks rubbish; print how late they are, and the roads.

    Exits with 1 when a turn took an illegal road, a late result served another scene, or the breaker was not as documented.
    """
    settings = deadline_bench.Settings(
        turns=turns,
        sessions=sessions,
        messages=messages,
        deadline_ms=deadline_ms,
        think_seconds=think_seconds,
        reset_seconds=reset_seconds,
        embedder=embedder,
    )
    figures = _measure(partial(deadline_bench.run, settings), deadline_bench.show, json_file)
    if figures["faults"]:
        raise typer.Exit(1)


@app.command("prefix")
def prefix(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="A set whose corpus holds a conversation.")
    ] = None,
    world: Annotated[
        Path | None, typer.Option("--world", metavar="DIR", help="A world pack, played with made-up inputs.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="NAME", help="The conversation of the set (default: the longest)."),
    ] = None,
    turns: Annotated[int, typer.Option("--turns", min=3, help="How many turns of it.")] = 200,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Fail when a share falls below this one's.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option("--write-baseline", metavar="FILE", help="Write the shares for later runs to keep.")
    ] = None,
    by_turn: Annotated[bool, typer.Option("--by-turn", help="Print every turn with the block that broke it.")] = False,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Play a conversation (default: a made-up chat with lore) in every layout; print what a provider's prefix cache would use
    again, and what broke it.
    """
    kept: list[dict[str, Any]] = []

    async def run(say: Callable[[str], None], progress: OnProgress) -> dict[str, Any]:
        kept.append(await prefix_bench.run(data, world, session, turns, embedder, say, progress))
        return kept[0]

    _measure(run, prefix_bench.show, json_file)
    if by_turn:
        prefix_bench.show_turns(kept[0], _out)
    if write_baseline is not None:
        write_baseline.write_text(json.dumps(prefix_bench.baseline_of(kept[0]), indent=1) + "\n", encoding="utf-8")
    if baseline is not None:
        try:
            find_drops = prefix_bench.find_drops(kept[0], prefix_bench.read_baseline(baseline))
        except EvalError as error:
            find_drops = [str(error)]
        for sentence in find_drops:
            _err.print(Text(f"error: {sentence}", style="bold red"))
        if find_drops:
            raise typer.Exit(1)


@app.command("skeleton")
def skeleton(
    before: Annotated[
        Path | None, typer.Option("--before", metavar="FILE", help="Figures of a former run (--json) to compare with.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Count the tokens of the skeleton's blocks in the example world, before and after, in both languages."""
    _measure(partial(skeleton_bench.run, before), skeleton_bench.show, json_file)


@app.command("stores")
def stores(
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N", help="Messages of the sessions to compare.")
    ] = "1000,100000",
    rounds: Annotated[int, typer.Option("--rounds", min=2, help="Appends and loads on each.")] = 200,
    only: Annotated[str, typer.Option("--only", metavar="NAME,NAME", help="Which stores.")] = ",".join(
        stores_bench.KINDS
    ),
    postgres: Annotated[
        str | None, typer.Option("--postgres", metavar="URL", help="A server to measure (default: one started for it).")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Append turns to sessions and load their windows, in every store and by hand, and print the ratios."""
    kinds = [kind for kind in stores_bench.KINDS if kind in only.split(",")]
    if not kinds:
        raise typer.BadParameter(f"choose from {', '.join(stores_bench.KINDS)}", param_hint="--only")
    _measure(partial(stores_bench.run, _sizes(sizes), rounds, kinds, postgres), stores_bench.show, json_file)


@app.command("session_life")
def session_life(
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Short sessions beside the played one.")] = 2_000,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns of the played session.")] = 30,
    only: Annotated[str, typer.Option("--only", metavar="NAME,NAME", help="Which stores.")] = ",".join(
        session_life_bench.KINDS
    ),
    postgres: Annotated[
        str | None, typer.Option("--postgres", metavar="URL", help="A server to measure (default: one started for it).")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Say what a session takes, open and archived, and what housekeeping costs for each session."""
    kinds = [kind for kind in session_life_bench.KINDS if kind in only.split(",")]
    if not kinds:
        raise typer.BadParameter(f"choose from {', '.join(session_life_bench.KINDS)}", param_hint="--only")
    _measure(partial(session_life_bench.run, sessions, turns, kinds, postgres), session_life_bench.show, json_file)


def _sizes(text: str, *, least: int = 2, count: int = 2) -> list[int]:
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers", param_hint="--sizes") from error
    if len(sizes) < count or min(sizes) < least:
        raise typer.BadParameter(f"give {count} sizes or more, each of {least} at least", param_hint="--sizes")
    return sizes


@app.command("recall")
def recall(
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N", help="Entries of the indexes; a million takes long to fill.")
    ] = "1000,100000",
    queries: Annotated[int, typer.Option("--queries", min=2, help="Recalls on each.")] = 100,
    memory_rows: Annotated[
        int, typer.Option("--memory-rows", min=0, help="Bigger indexes are searched on disk.")
    ] = 250_000,
    json_file: JsonOption = None,
) -> None:
    """Recall out of small and big indexes without the embedding of the query: times, what is lost, adds, memory."""
    _measure(
        partial(recall_bench.run, _sizes(sizes, least=100, count=1), queries, memory_rows), recall_bench.show, json_file
    )


@app.command("snapshots")
def snapshots(
    entries: Annotated[int, typer.Option("--entries", min=200, help="Entries of the world.")] = 300_000,
    queries: Annotated[int, typer.Option("--queries", min=3, help="Recalls of each process.")] = 100,
    json_file: JsonOption = None,
) -> None:
    """Open a large world on a host: an index of its own against a published one, after a restart, after a change."""
    _measure(partial(snapshots_bench.run, entries, queries), snapshots_bench.show, json_file)


@app.command("soak")
def soak(
    folder: Annotated[
        Path,
        typer.Option("--folder", metavar="DIR", help="Where the store and the rows are; a run there is gone on with."),
    ] = Path(".soak"),
    turns: Annotated[int, typer.Option("--turns", min=10, help="Turns in all.")] = 100_000,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Sessions that they are spread over.")] = 200,
    fault_each: Annotated[
        int, typer.Option("--fault-each", min=0, help="A fault every so many turns (0: none).")
    ] = 500,
    window: Annotated[int, typer.Option("--window", min=5, help="Turns of a row.")] = 1_000,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="How long this part takes at most.")] = 60.0,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Play a hundred thousand turns with faults in between: memory, handles, threads, disk and latency by window.

    Exits with 1 when a turn failed, an acknowledged one is missing, or a quantity is not flat. Writes DIR/soak.png.
    """
    # LanceDB panics at some damaged files. If RUST_BACKTRACE is set, the first panic reads debug information, 36 MB
    # that stay and have nothing to do with turns.
    os.environ["RUST_BACKTRACE"] = "0"
    settings = soak_bench.Settings(
        turns=turns, sessions=sessions, fault_each=fault_each, window=window, minutes=minutes, embedder=embedder
    )
    figures = _measure(partial(soak_bench.run, settings, folder), soak_bench.show, json_file)
    soak_figures.plot(figures, folder / "soak.png")
    if figures["failures"] or not all(each["flat"] for each in figures["drifts"]):
        raise typer.Exit(1)


@app.command("costs")
def costs(
    turns: Annotated[int, typer.Option("--turns", min=3, help="Turns that are counted.")] = 30,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Fail when a count is above this one's.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option("--write-baseline", metavar="FILE", help="Write the counts for later runs to keep.")
    ] = None,
    warm_turns: Annotated[
        int, typer.Option("--warm-turns", min=1, help="Turns before them that are not counted.")
    ] = costs_bench.WARM_TURNS,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Count what a turn does: calls, hops between threads, SQL, JSON values, templates, searches, bytes."""
    figures = _measure(partial(costs_bench.run, turns, embedder, warm_turns=warm_turns), costs_bench.show, json_file)
    if write_baseline is not None:
        kept = json.dumps(costs_bench.baseline_of(figures), indent=1)
        write_baseline.write_text(kept + "\n", encoding="utf-8")
    if baseline is not None:
        try:
            growth = costs_bench.find_growth(figures, costs_bench.read_baseline(baseline))
        except EvalError as error:
            growth = [str(error)]
        for sentence in growth:
            _err.print(Text(f"error: {sentence}", style="bold red"))
        if growth:
            raise typer.Exit(1)


@app.command("install")
def install(
    parts: Annotated[
        str, typer.Option("--parts", metavar="EXTRAS;EXTRAS", help="Installations to weigh; `core` has no extras.")
    ] = ";".join(installation_bench.PARTS),
    python: Annotated[str, typer.Option("--python", metavar="FILE", help="The interpreter.")] = sys.executable,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", metavar="FILE", help="Versions to install. [the newest]")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Install each set of extras into a fresh environment and print its packages and megabytes."""
    run = partial(installation_bench.run, [each for each in parts.split(";") if each], python, constraints)
    _measure(run, installation_bench.show, json_file)


@app.command("tokens")
def tokens(json_file: JsonOption = None) -> None:
    """Count the lore of the example world in English and Chinese, and print our estimate divided by each exact count."""
    _measure(token_counts_bench.run, token_counts_bench.show, json_file)


@app.command("service")
def service(
    turns: Annotated[int, typer.Option("--turns", min=20, help="Turns at half of the capacity, with memory.")] = 20_000,
    compared: Annotated[int, typer.Option("--compared", min=50, help="Turns beside the library.")] = 1_000,
    closed: Annotated[
        bool,
        typer.Option("--closed", help="Play these turns four at once instead, as fast as it goes: a load for memory."),
    ] = False,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Sessions from the start.")] = 200,
    session_turns: Annotated[
        int, typer.Option("--session-turns", min=1, help="Turns after which another session takes the place of one.")
    ] = 50,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes of the service.")] = 1,
    overload: Annotated[
        float, typer.Option("--overload", min=1.0, help="How many times the capacity comes at the end.")
    ] = 3.0,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Play turns over HTTP and in this process at half of the service's capacity, then past it.

    Prints times, memory and refusals; exits with 1 when something acknowledged is lost.
    """
    settings = service_bench.Settings(
        turns=turns,
        is_closed=closed,
        compared_turns=compared,
        sessions=sessions,
        session_turns=session_turns,
        workers=workers,
        overload=overload,
        embedder=embedder,
    )
    figures = _measure(partial(service_bench.run, settings), service_bench.show, json_file)
    if figures["lost"] or figures["failures"]:
        raise typer.Exit(1)


@app.command("turns")
def turns(
    sessions: Annotated[
        str, typer.Option("--sessions", metavar="N,N", help="How many sessions take turns at once.")
    ] = "1,20,50",
    workers: Annotated[
        str, typer.Option("--workers", metavar="N,N", help="Over HTTP with so many processes; 0: in this one.")
    ] = "0",
    number: Annotated[int, typer.Option("--turns", min=1, help="Turns of each row, all sessions together.")] = 300,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Let many sessions take turns without a pause: turns a second, waits, processor time, memory."""
    ways = [int(part) for part in workers.split(",") if part.strip().isdigit()]
    run = partial(turns_bench.run, _sizes(sessions, least=1, count=1), ways, number, embedder)
    figures = _measure(run, turns_bench.show, json_file)
    if any(row["refused"] for row in figures["rows"]):
        raise typer.Exit(1)


@app.command("pages")
def pages(
    messages: Annotated[
        int, typer.Option("--messages", min=400, help="Messages of the long session, two a turn.")
    ] = 100_000,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Other sessions of the store.")] = 1_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often each page is fetched.")] = 20,
    json_file: JsonOption = None,
) -> None:
    """Fetch the pages of the studio over a long session, and paint a turn in Chromium, if there is one."""
    _measure(partial(pages_bench.run, messages, sessions, rounds), pages_bench.show, json_file)


@app.command("starts")
def starts(
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N", help="Messages of the sessions.")] = "1000",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Fresh processes of each kind.")] = 5,
    embedder: EmbedderOption = "auto",
    json_file: JsonOption = None,
) -> None:
    """Start fresh processes and print what each step takes until the first prompt, and which packages it imported."""
    states = (first_turns_bench.KEPT, first_turns_bench.NONE)
    run = partial(first_turns_bench.run, _sizes(sizes, least=1, count=1), states, rounds, embedder)
    _measure(run, first_turns_bench.show_starts, json_file)


@app.command("cold")
def cold(
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N", help="Messages of the sessions.")
    ] = "1000,100000,200000",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Fresh processes of each kind.")] = 3,
    embedder: EmbedderOption = "auto",
    json_file: JsonOption = None,
) -> None:
    """Take the first turn on sessions that are not in memory, and the second: time, memories, and the receipt's
    degradations.
    """
    states = (first_turns_bench.KEPT, first_turns_bench.EARLIER, first_turns_bench.NONE)
    run = partial(first_turns_bench.run, _sizes(sizes, least=1, count=1), states, rounds, embedder)
    _measure(run, first_turns_bench.show_cold, json_file)


@app.command("proxy")
def proxy(
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N", help="Messages that clients show.")] = "40,1000,20000",
    calls: Annotated[int, typer.Option("--calls", min=2, help="Calls of each client.")] = 15,
    sessions: Annotated[
        int,
        typer.Option(
            "--sessions", min=0, help="Other conversations without a name, beside the first; after a restart too."
        ),
    ] = 0,
    embedder: EmbedderOption = "none",
    json_file: JsonOption = None,
) -> None:
    """Make calls of chat clients that show few and many messages: what the proxy adds to each, by stage."""
    counts = _sizes(sizes)
    _measure(partial(proxy_bench.run, counts, calls, sessions, embedder), proxy_bench.show, json_file)


@app.command("hosts")
def hosts(
    sessions: Annotated[
        str, typer.Option("--sessions", metavar="N,N", help="How many sessions to compare.")
    ] = "1000,100000",
    entries: Annotated[int, typer.Option("--entries", min=2, help="Entries of each session.")] = 100,
    opened: Annotated[int, typer.Option("--opened", min=10, help="How many of them a host opens.")] = 300,
    large: Annotated[int, typer.Option("--large", min=2, help="Entries of the session another host opens.")] = 10_000,
    rounds: Annotated[int, typer.Option("--rounds", min=2, help="How often it is opened.")] = 10,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="How long filling takes at most.")] = 60.0,
    postgres: Annotated[
        str | None,
        typer.Option(
            "--postgres", metavar="URL", help="A server that keeps what is filled (default: one for this run)."
        ),
    ] = None,
    embedder: EmbedderOption = "auto",
    json_file: JsonOption = None,
) -> None:
    """Open sessions and take turns on a host, among few and among many sessions; open a large one on another host."""
    settings = hosts_bench.Settings(
        sessions=_sizes(sessions, least=30, count=1),
        entries=entries,
        opened=opened,
        large=large,
        rounds=rounds,
        minutes=minutes,
        embedder=embedder,
    )
    _measure(partial(hosts_bench.run, settings, postgres), hosts_bench.show, json_file)


def _measure(
    run: Measured, show: Callable[[Mapping[str, Any], Console], None], json_file: Path | None
) -> dict[str, Any]:
    try:
        with show_progress(_err) as progress:
            figures = anyio.run(run, _say, progress)
        if json_file is not None:
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except (EvalError, JacquardError, MnemosyneError) as error:
        _err.print(Text(f"error: {error}", style="bold red"))
        raise typer.Exit(1) from error
    show(figures, _out)
    return figures


def _say(text: str) -> None:
    _err.print(Text(text, style="dim"))


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
