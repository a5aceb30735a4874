"""The commands of `python -m evals`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from evals.bench.forward import run_benchmarks
from evals.compare import compare as compared
from evals.compare import comparison_json, print_comparison, read_report
from evals.dataset import read_all, read_set
from evals.errors import EvalError
from evals.loaders import locomo, longmemeval, membench, perltqa, personamem
from evals.loaders.converted_set import select_sessions, write_set
from evals.options import (
    ApiBaseOption,
    CacheOption,
    CategoryOption,
    CorpusOption,
    CsvOption,
    DataOption,
    EmbedderOption,
    FloorOption,
    JsonFileOption,
    LabelsOption,
    LimitOption,
    ModelOption,
    NoRationaleOption,
    QrelsOption,
    RecallLimitOption,
    RerankerOption,
    RetrieverOption,
    RunFileOption,
    SelectorOption,
    StoreOption,
)
from evals.play.command import play
from evals.reporting.console import STANDARD_OUTPUT, check_place, error_output, fail, keep_json, standard_output
from evals.reporting.csv_tables import write_comparison, write_queries
from evals.reporting.progress import show_progress
from evals.reporting.report import print_report, result_json
from evals.reporting.trec import qrels_lines, run_lines, tag_of, write_lines
from evals.running.ab import ArmTurns, compare_arms, pairs_json, print_pairs, read_arms
from evals.running.annotate import annotate
from evals.running.arms import arms_to_json, compare_with_arms, print_arms, run_arms
from evals.running.gate import read_gate, run_gate, update_baseline
from evals.running.journal import SUFFIX
from evals.running.overview_set import find_falls, kept_shares, overviews_json, print_overviews, run_overviews
from evals.running.parts import Arm, Choice
from evals.running.planner_set import planner_json, print_planner, run_pairs, run_planner
from evals.running.redaction_set import print_redaction, redaction_json, run_redaction
from evals.running.run import DEFAULT_CACHE, Options, run_set
from evals.running.score import score_run
from evals.running.units import RETRIEVERS, compare_units, find_groups, print_units, run_units, units_to_json
from evals.running.world_set import run_world
from jacquard import JacquardError
from jacquard.config import RedactionConfig
from jacquard.config.service import find_store
from jacquard.wiring.parts.ingest import open_redactor
from mnemosyne import MnemosyneError, open_store
from mnemosyne.formats.corpora.corpus import CORPUS_FILE


class Kind(StrEnum):
    """The published benchmarks that can be converted."""

    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"
    MEMBENCH = "membench"
    PERLTQA = "perltqa"
    PERSONAMEM = "personamem"
    PERSONAMEM_V2 = "personamem-v2"


app = typer.Typer(
    name="evals",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Score retrieval and selection on labelled data: a folder with corpus.jsonl and queries.jsonl.",
)
LOADERS = {
    Kind.LOCOMO: locomo.convert,
    Kind.LONGMEMEVAL: longmemeval.convert,
    Kind.MEMBENCH: membench.convert,
    Kind.PERLTQA: perltqa.convert,
    Kind.PERSONAMEM: personamem.convert,
    Kind.PERSONAMEM_V2: personamem.convert_v2,
}
DEFAULT_GATE = Path(__file__).parent / "sets" / "gate.json"
PLANNER_SET = Path(__file__).parent / "sets" / "planner"
OVERVIEW_SET = Path(__file__).parent / "sets" / "overview"
REDACTION_SET = Path(__file__).parent / "sets" / "redaction"


@app.command(
    "bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def bench(context: typer.Context) -> None:
    """Run `python -m benchmarks rivals` with the same options."""
    run_benchmarks(["rivals", *context.args])


app.command("play")(play)


@app.callback()
def evals() -> None:
    """Score retrieval and selection on labelled data."""


@app.command()
def run(
    data: DataOption,
    retriever: RetrieverOption = Arm.HYBRID,
    selector: SelectorOption = Choice.HEURISTIC,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    no_rationale: NoRationaleOption = False,
    reranker: RerankerOption = None,
    embedder: EmbedderOption = "auto",
    limit: LimitOption = None,
    recall_limit: RecallLimitOption = 50,
    floor: FloorOption = 0.0,
    by: CategoryOption = "category",
    corpus: CorpusOption = None,
    labels: LabelsOption = None,
    cache: CacheOption = DEFAULT_CACHE,
    json_file: JsonFileOption = None,
    run_file: RunFileOption = None,
    qrels: QrelsOption = None,
    csv_file: CsvOption = None,
) -> None:
    """Score one configuration on one set.

    Each session of a set is an index of its own; documents without a session belong to all. recall@k, all@k and ndcg@5 are
    of the ranking, precision@5 of the selection (always divided by 5).
    """
    options = Options(
        retriever=retriever,
        selector=selector,
        embedder=embedder,
        model=model,
        api_base=api_base,
        rationale=not no_rationale,
        reranker=reranker,
        recall_limit=recall_limit,
        floor=floor,
        limit=limit,
        cache=cache,
    )
    try:
        for file in (json_file, run_file, qrels, csv_file):
            check_place(file)
        labelled = read_set(data, corpora=corpus or [CORPUS_FILE], labels=labels or ["relevant"], by=by)
        with show_progress(error_output) as progress:
            result = anyio.run(run_set, labelled, options, progress, None, _journal(json_file))
        report = result_json(result)
        _write(report, json_file)
        _write_tables(report, run_file, qrels, csv_file)
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        kept = "vectors made so far" if _journal(json_file) is None else "what was done so far"
        raise fail(f"Stopped; {kept} is kept, and the same command goes on from there.", code=130) from None


@app.command()
def score(
    run_file: Annotated[
        Path, typer.Argument(metavar="RUN", help="Rankings of any system: a run file in the form of trec_eval.")
    ],
    data: DataOption,
    by: CategoryOption = "category",
    corpus: CorpusOption = None,
    labels: LabelsOption = None,
    json_file: JsonFileOption = None,
    qrels: QrelsOption = None,
    csv_file: CsvOption = None,
) -> None:
    """Score the rankings of another system on a set, by the measures of `run`. `compare` and `report` take the result."""
    try:
        for file in (json_file, qrels, csv_file):
            check_place(file)
        labelled = read_set(data, corpora=corpus or [CORPUS_FILE], labels=labels or ["relevant"], by=by)
        report = score_run(labelled, run_file)
        _write(report, json_file)
        _write_tables(report, None, qrels, csv_file)
    except (EvalError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error


@app.command("annotate")
def annotate_session(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session whose turns are marked.")],
    turn: Annotated[str | None, typer.Option("--turn", metavar="ID", help="The turn that the marks belong to.")] = None,
    wanted: Annotated[
        list[str] | None,
        typer.Option("--wanted", metavar="MEMORY", help="Its prompt should have this; may be repeated."),
    ] = None,
    unwanted: Annotated[
        list[str] | None, typer.Option("--unwanted", metavar="MEMORY", help="It should not have this; may be repeated.")
    ] = None,
    take_back: Annotated[
        list[str] | None, typer.Option("--take-back", metavar="MEMORY", help="Remove a mark; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write all marks of the session as a set with a gate.")
    ] = None,
    author: Annotated[str, typer.Option("--author", metavar="NAME", help="Who marks.")] = "host",
    store: StoreOption = None,
) -> None:
    """Mark memories that a turn's prompt should have had, as the studio does, and write the marks as a labelled set."""
    named = ((wanted, True), (unwanted, False), (take_back, None))
    marks = [(memory_id, verdict) for ids, verdict in named for memory_id in ids or ()]
    try:
        address = find_store()[0] if store is None else store
        found = anyio.run(partial(annotate, address, session, turn_id=turn, marks=marks, author=author, out=out))
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    for each in found:
        standard_output().print(Text(f"{each.turn_id}  {'wanted' if each.wanted else 'unwanted'}  {each.memory_id}"))
    if out is not None:
        error_output.print(
            Text(f"{out} is written: score it with `run --data {out}`, keep it with `gate --gate {out}/gate.json`.")
        )


@app.command()
def arms(
    data: Annotated[
        list[Path], typer.Option("--data", metavar="DIR", help="A set; may be repeated: one table for each.")
    ],
    embedder: Annotated[str, typer.Option("--embedder", metavar="NAME", help="As for `run`.")] = "auto",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="At most N queries a set, spread evenly.")
    ] = None,
    by_session: Annotated[
        bool, typer.Option("--by-session", help="Draw whole sessions: questions of one conversation hang together.")
    ] = False,
    cache: Annotated[Path, typer.Option("--cache", metavar="DIR", help="As for `run`.")] = DEFAULT_CACHE,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the reports go, SET.ARM.json, and arms.json.")
    ] = DEFAULT_CACHE / "arms",
) -> None:
    """Score recall, only words, only vectors, and plain reciprocal rank fusion, on the same queries, with intervals."""
    options = Options(embedder=embedder, limit=limit, cache=cache)
    figures: dict[str, Any] = {}
    try:
        for labelled in read_all(data):
            check_place(out / f"{labelled.name}.json")
            with show_progress(error_output) as progress:
                reports = anyio.run(run_arms, labelled, options, out, keep_json, progress)
            found = compare_with_arms(labelled.name, reports, by_session=by_session)
            figures[labelled.name] = arms_to_json(found)
            print_arms(found, standard_output())
            keep_json(figures, out / "arms.json")
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        raise fail(
            "Stopped; what was done of this arm is kept, and the same command goes on from there.", code=130
        ) from None
    error_output.print(Text(f"every query of every arm: {out}"))


@app.command()
def units(
    data: DataOption,
    retrievers: Annotated[
        list[str] | None,
        typer.Option(
            "--retriever",
            metavar="NAME",
            help="As for `run`; may be repeated. The first is compared with the others. [hybrid, bm25, rank-bm25]",
        ),
    ] = None,
    report_files: Annotated[
        list[Path] | None,
        typer.Option("--report", metavar="FILE", help="Count the JSON of a `run` or `score` too; may be repeated."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="FIELD", help="The field of `meta` that names a document's group. [sitting, session_id]"
        ),
    ] = None,
    embedder: EmbedderOption = "auto",
    limit: LimitOption = None,
    recall_limit: RecallLimitOption = 50,
    by_session: Annotated[
        bool, typer.Option("--by-session", help="Draw whole sessions: questions of one conversation hang together.")
    ] = False,
    cache: CacheOption = DEFAULT_CACHE,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the reports go, SET.RETRIEVER.json.")
    ] = DEFAULT_CACHE / "units",
    json_file: JsonFileOption = None,
) -> None:
    """Score recall by turn, by session (any) and by session (all), the three ways of published figures, next to BM25."""
    options = Options(embedder=embedder, limit=limit, recall_limit=recall_limit, cache=cache)
    try:
        check_place(json_file)
        labelled = read_set(data)
        find_groups(labelled, group)
        check_place(out / f"{labelled.name}.json")
        named = tuple(retrievers or (() if report_files else RETRIEVERS))
        given = _name_reports(report_files or [])
        with show_progress(error_output) as progress:
            reports = anyio.run(partial(run_units, labelled, options, named, out, keep_json), progress)
        reports |= given
        found = compare_units(labelled, reports, group, by_session=by_session)
        if keep_json({labelled.name: units_to_json(found)}, json_file):
            print_units(found, standard_output())
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        raise fail("Stopped; what was done is kept, and the same command goes on from there.", code=130) from None


@app.command()
def convert(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"One of {', '.join(Kind)}.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="The file of its authors; perltqa: memory, then questions; personamem: questions, then shared contexts.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The set to write.")],
    sessions: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="NAME", help="Keep only this session of the set; may be repeated."),
    ] = None,
) -> None:
    """Make a set in the normalised format out of the files of a published benchmark."""
    wanted = 2 if kind in (Kind.PERLTQA, Kind.PERSONAMEM) else 1
    if len(files) != wanted:
        raise typer.BadParameter(f"{kind.value} needs {wanted} of them, not {len(files)}", param_hint="FILE…")
    try:
        with show_progress(error_output) as progress:
            found = LOADERS[kind](files, progress)
        if sessions:
            found = select_sessions(found, sessions)
        write_set(found, files, out)
    except EvalError as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    documents = ", ".join(f"{len(lines):,} in {name}" for name, lines in found.corpora.items())
    standard_output().print(Text(f"{out}: {len(found.queries):,} queries; documents: {documents}"))
    for reason, count in found.left_out.items():
        standard_output().print(Text(f"left out: {count:,} {reason}"))


@app.command()
def world(
    pack: Annotated[Path, typer.Option("--world", metavar="DIR", help="The world pack that is played.")],
    queries: Annotated[
        Path, typer.Option("--queries", metavar="FILE", help="Labelled turns; ids are those of the pack.")
    ],
    embedder: Annotated[str, typer.Option("--embedder", metavar="NAME", help="As for `run`.")] = "auto",
    layout: Annotated[str, typer.Option("--layout", metavar="NAME", help="How the prompt is woven.")] = "classic",
    max_input_tokens: Annotated[
        int | None, typer.Option("--max-input-tokens", min=1, metavar="N", help="The model's input limit.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="At most N queries, spread evenly.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON too (`-`: alone).")
    ] = None,
) -> None:
    """Score whole turns of a world: the memories that reached the prompt, the places where evidence was lost, and
    leaked secrets.
    """
    try:
        check_place(json_file)
        with show_progress(error_output) as progress:
            work = partial(run_world, embedder=embedder, layout=layout, max_input_tokens=max_input_tokens, limit=limit)
            report = result_json(anyio.run(partial(work, pack, queries, progress=progress)))
        _write(report, json_file)
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error


@app.command()
def gate(
    file: Annotated[
        Path, typer.Option("--gate", metavar="FILE", help="The gate: sets, tolerance and baseline.")
    ] = DEFAULT_GATE,
    embedder: Annotated[str, typer.Option("--embedder", metavar="NAME", help="As for `run`.")] = "auto",
    update: Annotated[bool, typer.Option("--update", help="Keep what is measured now as the baseline.")] = False,
) -> None:
    """Run the checked-in sets; exit with 1 if a score fell below the baseline or a secret leaked."""
    try:
        kept = read_gate(file)
        with show_progress(error_output) as progress:
            verdicts = anyio.run(run_gate, kept, embedder, progress)
            asked = None
            if kept.overviews:
                asked = overviews_json(anyio.run(run_overviews, file.parent / kept.overviews, embedder, progress))
        if update:
            shares = kept_shares(asked) if asked is not None else {}
            file.write_text(update_baseline(kept, verdicts, shares), encoding="utf-8")
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    console = standard_output()
    for each in verdicts:
        if each.comparison is None:
            print_report(each.report, console)
        else:
            print_comparison(each.comparison, (f"{each.name}, baseline", f"{each.name}, now"), console)
    faults = [f"{each.name}: {fault}" for each in verdicts for fault in each.faults]
    if asked is not None:
        print_overviews(asked, console)
        faults += find_falls(asked, kept.overviews_kept, kept.tolerance)
    if faults and not update:
        raise fail("\n".join(faults))


@app.command()
def planner(
    misses: Annotated[bool, typer.Option("--misses", help="List the wrong plans of the half `tune`.")] = False,
    json_file: JsonFileOption = None,
) -> None:
    """Score the planner's rules on labelled inputs: triage, template, time, and whether memory is searched."""
    try:
        check_place(json_file)
        with show_progress(error_output) as progress:
            report = planner_json(run_planner(PLANNER_SET, progress), run_pairs(PLANNER_SET))
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    if keep_json(report, json_file):
        print_planner(report, standard_output(), misses=misses)


@app.command()
def overviews(
    misses: Annotated[bool, typer.Option("--misses", help="List what is wrong in the half `tune`.")] = False,
    embedder: Annotated[str, typer.Option("--embedder", metavar="NAME", help="As for `run`.")] = "auto",
    json_file: JsonFileOption = None,
) -> None:
    """Score overviews on labelled inputs: which are recognised, which memories are found of those that belong, which do not."""
    try:
        check_place(json_file)
        with show_progress(error_output) as progress:
            report = overviews_json(anyio.run(run_overviews, OVERVIEW_SET, embedder, progress))
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    if keep_json(report, json_file):
        print_overviews(report, standard_output(), misses=misses)


@app.command()
def redaction(
    detector: Annotated[
        str, typer.Option("--detector", metavar="NAME", help="As `redaction.detector` of the settings.")
    ] = "none",
    misses: Annotated[
        bool, typer.Option("--misses", help="List the misses of the halves that rules are written from.")
    ] = False,
    json_file: JsonFileOption = None,
) -> None:
    """Score redaction on labelled texts: what it finds, by class and language, and which harmless texts it touches."""
    try:
        check_place(json_file)
        redactor = open_redactor(RedactionConfig(detector=detector))
        with show_progress(error_output) as progress:
            report = redaction_json(anyio.run(run_redaction, REDACTION_SET, redactor, progress))
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    if keep_json(report, json_file):
        print_redaction(report, standard_output(), misses=misses)


@app.command()
def evidence(
    data: Annotated[
        list[Path], typer.Option("--data", metavar="DIR", help="A set; may be repeated: one table for each.")
    ],
    embedder: EmbedderOption = "auto",
    limit: LimitOption = None,
    by_session: Annotated[
        bool, typer.Option("--by-session", help="Draw whole sessions: questions of one conversation hang together.")
    ] = False,
    cache: CacheOption = DEFAULT_CACHE,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the reports go, SET.memory.json and SET.evidence.json.")
    ] = DEFAULT_CACHE / "evidence",
) -> None:
    """Score recall of the same documents twice: as a session's memory (A), and put into a session as evidence (B)."""
    names = ("memory", "evidence")
    try:
        for labelled in read_all(data):
            reports = []
            for name in names:
                file = out / f"{labelled.name}.{name}.json"
                check_place(file)
                options = Options(embedder=embedder, limit=limit, cache=cache, as_evidence=name == "evidence")
                with show_progress(error_output) as progress:
                    reports.append(result_json(anyio.run(run_set, labelled, options, progress, None, _journal(file))))
                keep_json(reports[-1], file)
            found = compared(*reports, metrics=("recall@5", "recall@10", "recall@50", "ndcg@5"), by_session=by_session)
            standard_output().print(Text(labelled.name))
            print_comparison(found, names, standard_output())
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        raise fail("Stopped; what was done is kept, and the same command goes on from there.", code=130) from None


@app.command()
def ab(
    store: StoreOption = None,
    experiment: Annotated[
        str | None,
        typer.Option("--experiment", metavar="NAME", help="One experiment (default: all that receipts name)."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the comparison as JSON too (`-`: alone)."),
    ] = None,
) -> None:
    """Compare the arms of A/B experiments, pair by pair, by the receipts of the turns that were played in them."""

    async def work() -> dict[str, tuple[ArmTurns, ...]]:
        opened = open_store(find_store()[0] if store is None else store, create=False)
        try:
            return await read_arms(opened)
        finally:
            await opened.close()

    try:
        check_place(json_file)
        pairs = compare_arms(anyio.run(work), experiment=experiment)
    except (EvalError, JacquardError, MnemosyneError) as error:
        raise fail(str(error)) from error
    if keep_json({"pairs": pairs_json(pairs)}, json_file):
        print_pairs(pairs, standard_output())


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The JSON of a run: the one to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The JSON of another run on the same queries.")],
    by_session: Annotated[
        bool, typer.Option("--by-session", help="Draw whole sessions: questions of one conversation hang together.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the comparison as JSON too (`-`: to standard output, alone)."
        ),
    ] = None,
    csv_file: CsvOption = None,
) -> None:
    """Say what B gained and lost against A: paired bootstrap over all queries and by category."""
    try:
        check_place(json_file)
        check_place(csv_file)
        found = compared(read_report(a), read_report(b), by_session=by_session)
        if csv_file is not None:
            write_comparison(csv_file, found)
    except EvalError as error:
        raise fail(str(error)) from error
    if keep_json(comparison_json(found), json_file):
        print_comparison(found, (str(a), str(b)), standard_output())


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(metavar="REPORT…", help="The JSON of one or more runs.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page to write. [report.html, if no --figures]")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write the plots as SVG and PDF files.")
    ] = None,
) -> None:
    """Write one HTML page of runs: recall by k and by tokens with intervals, latency, losses of evidence."""
    page_file = Path("report.html") if out is None and figures is None else out
    try:
        check_place(page_file)
        pages, reports = import_module("evals.reporting.page"), _name_reports(files)
        written = [] if figures is None else pages.write_figures(reports, figures)
        if page_file is not None:
            page_file.write_text(pages.page(reports), encoding="utf-8", errors="replace")
            written.append(page_file)
    except EvalError as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"{error.filename or ''}: {error.strerror or error}") from error
    for file in written:
        error_output.print(Text(f"{file} is written."))


def _name_reports(files: list[Path]) -> dict[str, dict[str, Any]]:
    """Return the reports by their shortest distinct names."""
    short = [file.stem for file in files]
    names = short if len(set(short)) == len(short) else [str(file) for file in files]
    return {name: read_report(file) for name, file in zip(names, files, strict=True)}


def _write(report: dict[str, Any], file: Path | None) -> None:
    if keep_json(report, file):
        print_report(report, standard_output())


def _write_tables(report: dict[str, Any], run_file: Path | None, qrels: Path | None, csv_file: Path | None) -> None:
    if run_file is not None:
        write_lines(run_file, run_lines(report, tag_of(report)))
    if qrels is not None:
        write_lines(qrels, qrels_lines(report))
    if csv_file is not None:
        write_queries(csv_file, report)


def _journal(json_file: Path | None) -> Path | None:
    """Return the file in which a run keeps its progress: next to its report; a run without a report keeps nothing."""
    return None if json_file in (None, STANDARD_OUTPUT) else json_file.with_name(json_file.name + SUFFIX)
