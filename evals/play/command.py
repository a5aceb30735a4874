"""`python -m evals play`: plays scripts through the engine and scores every prompt against their truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from evals.errors import EvalError
from evals.options import EmbedderOption, JsonFileOption
from evals.play.figures import figures_json, play_json, print_figures, print_play, sum_up
from evals.play.host import play_script
from evals.play.reading import find_plays, read_play
from evals.play.scoring import ScoredTurn, score_play
from evals.play.script import Play
from evals.reporting.console import check_place, error_output, fail, keep_json, standard_output
from evals.reporting.progress import show_progress
from jacquard import JacquardError, RuntimeConfig, load_config
from mnemosyne import MnemosyneError


def play(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLAY…]", help="Folders with a play.yaml, or names of plays of the project."),
    ] = None,
    all_plays: Annotated[bool, typer.Option("--all", help="All plays of the project, with totals.")] = False,
    embedder: EmbedderOption = "auto",
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings of the engine (deadline and budget are the play's)."),
    ] = None,
    json_file: JsonFileOption = None,
) -> None:
    """Play sessions from scripts, and score every prompt: facts, losses, what was recalled, questions, tokens.

    Without --json, every fault is printed after the table: facts and losses where they begin, the others at each turn.
    """
    if not names and not all_plays:
        raise typer.BadParameter("name a play, or give --all", param_hint="PLAY")
    try:
        check_place(json_file)
        config = None if config_file is None else load_config(config_file)
        scripts = [read_play(folder) for folder in find_plays(None if all_plays else names)]
        played = [(script, _play(script, embedder, config)) for script in scripts]
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    everything = [each for _, scored in played for each in scored]
    report: dict[str, Any] = {
        "plays": [play_json(script, scored) for script, scored in played],
        "total": figures_json(sum_up(everything)),
    }
    if not keep_json(report, json_file):
        return
    console = standard_output()
    rows = {script.name: sum_up(scored) for script, scored in played}
    print_figures({**rows, **({"all": sum_up(everything)} if len(rows) > 1 else {})}, console)
    for script, scored in played:
        print_play(script, scored, console)


def _play(script: Play, embedder: str, config: RuntimeConfig | None) -> tuple[ScoredTurn, ...]:
    with show_progress(error_output) as progress:

        async def work() -> tuple[ScoredTurn, ...]:
            played = await play_script(script, embedder=embedder, config=config, progress=progress)
            return score_play(script, played)

        return anyio.run(work)
