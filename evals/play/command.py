"""`python -m evals play`: plays scripts and recorded conversations through the engine, and scores every prompt."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from evals.dataset import read_all
from evals.errors import EvalError
from evals.options import CacheOption, EmbedderOption, JsonFileOption
from evals.play.conversations import play_set, questions_json
from evals.play.gate import GATE_FILE, find_regressions, read_plays_gate, write_gate
from evals.play.host import play_script
from evals.play.pages import play_section
from evals.play.scores.figures import (
    PlayFigures,
    figures_json,
    play_json,
    print_figures,
    print_play,
    print_questions,
    sum_up,
)
from evals.play.scores.prompt import ScoredTurn, score_play
from evals.play.script.reading import PLAYS_FOLDER, find_plays, read_play
from evals.play.script.values import DEFAULT_BUDGET_TOKENS, Play
from evals.reporting.console import check_place, error_output, fail, keep_json, standard_output
from evals.reporting.progress import show_progress
from evals.running.run import DEFAULT_CACHE
from jacquard import JacquardError, RuntimeConfig, load_config
from jacquard.authoring.replay.turn_page import render_turn_page
from mnemosyne import MnemosyneError

Played = list[tuple[Play, tuple[ScoredTurn, ...]]]


def play(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLAY…]", help="Folders with a play.yaml, or names of plays of the project."),
    ] = None,
    all_plays: Annotated[bool, typer.Option("--all", help="All plays of the project, with totals.")] = False,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="The short plays of the gate; exit with 1 if a figure is worse than the kept one."),
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="With --gate: keep the figures of now.")] = False,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data", metavar="DIR", help="A labelled set: its conversations and its own questions; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="With --data: at most N questions a set, spread evenly."),
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", min=100, metavar="TOKENS", help="With --data: the most tokens of a prompt.")
    ] = DEFAULT_BUDGET_TOKENS,
    cache: CacheOption = DEFAULT_CACHE,
    embedder: EmbedderOption = "auto",
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings of the engine (deadline and budget are the play's)."),
    ] = None,
    json_file: JsonFileOption = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page that shows every play turn by turn.")
    ] = None,
) -> None:
    """Play sessions from scripts, and score every prompt: facts, losses, what was recalled, questions, tokens.

    Without --json, every fault is printed after the table: facts where they begin to be missing or wrong, losses once, the others
    at each turn.
    """
    if sum(map(bool, (names, all_plays, gate, data))) != 1:
        raise typer.BadParameter("name plays, or give --all, --gate or --data, one of them", param_hint="PLAY")
    try:
        check_place(json_file)
        check_place(html_file)
        config = None if config_file is None else load_config(config_file)
        if data:
            _play_sets(
                data, json_file, budget_tokens=budget, embedder=embedder, cache=cache, limit=limit, config=config
            )
            return
        kept = read_plays_gate(PLAYS_FOLDER / GATE_FILE) if gate else {}
        folders = find_plays(None if all_plays else [*kept] if gate else names)
        played = [(script, _play(script, embedder, config)) for script in [read_play(each) for each in folders]]
        if html_file is not None:
            page = render_turn_page("Plays", [play_section(script, scored) for script, scored in played])
            html_file.write_text(page, encoding="utf-8", errors="replace")
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    figures = {script.name: sum_up(scored) for script, scored in played}
    _report(played, figures, json_file, with_faults=not gate)
    if gate and update:
        write_gate(PLAYS_FOLDER / GATE_FILE, figures, kept)
    elif worse := [text for name in kept for text in find_regressions(name, kept[name], figures[name])]:
        raise fail("\n".join(worse))


def _play_sets(folders: list[Path], json_file: Path | None, **options: Any) -> None:
    reports = []
    for labelled in read_all(folders):
        with show_progress(error_output) as progress:
            asked = anyio.run(partial(play_set, labelled, progress=progress, **options))
        reports.append(questions_json(labelled.name, options["budget_tokens"], asked))
    if keep_json({"sets": reports}, json_file):
        for report in reports:
            print_questions(report, standard_output())


def _play(script: Play, embedder: str, config: RuntimeConfig | None) -> tuple[ScoredTurn, ...]:
    with show_progress(error_output) as progress:

        async def work() -> tuple[ScoredTurn, ...]:
            played = await play_script(script, embedder=embedder, config=config, progress=progress)
            return score_play(script, played)

        return anyio.run(work)


def _report(played: Played, figures: dict[str, PlayFigures], json_file: Path | None, *, with_faults: bool) -> None:
    total = sum_up(*(scored for _, scored in played))
    report: dict[str, Any] = {
        "plays": [play_json(script, scored) for script, scored in played],
        "total": figures_json(total),
    }
    if not keep_json(report, json_file):
        return
    console = standard_output()
    print_figures({**figures, **({"all": total} if len(figures) > 1 else {})}, console)
    for script, scored in played if with_faults else ():
        print_play(script, scored, console)
