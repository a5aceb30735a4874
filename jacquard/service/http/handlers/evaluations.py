"""Handlers for evaluations: runs over the marks of a session, and the reports of runs and plays in the store's folder.

A run is a process of `python -m evals`, so it needs the extra `evals`, does not slow down the service, and gives the figures
that the command gives. Reports contain ids and figures. The texts of an answer are read from the caller's store.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from anyio import to_thread

from jacquard.authoring.marks import export_marks as pack_marks
from jacquard.authoring.marks import input_of
from jacquard.authoring.reports import (
    KEPT_OUT,
    METRICS,
    RESAMPLES,
    EvaluationReport,
    ReportRow,
    compare_reports,
    interval,
    read_evaluation,
)
from jacquard.core.errors import ConfigError
from jacquard.remote.bodies import (
    ComparedQuestion,
    EvaluatedMemory,
    EvaluatedQuestion,
    Evaluation,
    EvaluationComparison,
    EvaluationFigures,
    EvaluationPage,
    EvaluationRequest,
    QuestionPage,
    ScoredMetric,
)
from jacquard.service.answers import Refusal
from jacquard.service.host_paths import hide_places
from jacquard.service.http.call import Call, handles
from mnemosyne.core import codec
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.stores.locate import locate_store
from mnemosyne.values import dataclass

RETRIEVERS = ("hybrid", "bm25", "vector", "rrf")
SELECTORS = ("heuristic", "oracle")
"""Parts of a run that need no model of their own."""

LISTED_METRICS = (*METRICS, KEPT_OUT)
MOST_BYTES = 32_000_000
"""Maximum size of a report."""
MOST_FILES = 10_000
RUN_SECONDS = 600.0
SPARE_SECONDS = 5.0
"""Time that a request keeps for its answer after a run."""
MOST_EXACT = 500
"""Maximum number of questions for which intervals are drawn as often as by the command."""
_FEWER_RESAMPLES = 2_000
_RECALLED = 10
_TEXT_CHARS = 600
_NAME = re.compile(r"[\w][\w .+-]{0,59}")
_running: set[Path] = set()
"""Reports that this process is making."""


@handles
async def run_evaluation(call: Call) -> Evaluation:
    """Score recall and selection on the marks of a session.

    Raises ConfigError if there are no marks, if an option is wrong, if another run is under way, if the run fails, or if it
    takes longer than a request may.
    """
    sent = call.read(EvaluationRequest)
    name = _check(sent)
    marks = await pack_marks(call.runtime.store, call.session_id)
    slug = _slug(call.session_id)
    folder = await to_thread.run_sync(_find_folder, call)
    report = folder / f"{slug}.{name}.json"
    if _running:
        raise ConfigError("Another evaluation is under way; start this one when it has ended.")
    _running.add(report)
    try:
        work = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="jacquard-evaluation-")))
        try:
            await to_thread.run_sync(_unpack, marks, work / slug, folder)
            await _run(call, sent, work, slug, report)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: shutil.rmtree(work, ignore_errors=True))
    finally:
        _running.discard(report)
    return await to_thread.run_sync(lambda: _describe(report, _read(report)))


def _check(sent: EvaluationRequest) -> str:
    """Return the name of a run."""
    if sent.retriever not in RETRIEVERS:
        raise ConfigError(f"retriever is {sent.retriever[:40]!r}; choose from {', '.join(RETRIEVERS)}.")
    if sent.selector not in SELECTORS:
        raise ConfigError(f"selector is {sent.selector[:40]!r}; choose from {', '.join(SELECTORS)}.")
    if not 0 <= (sent.floor or 0) <= 1:
        raise ConfigError(f"floor is {sent.floor}; it must be between 0 and 1.")
    if sent.name and _NAME.fullmatch(sent.name) is None:
        raise ConfigError(f"name is {sent.name[:40]!r}; write up to 60 letters, digits, spaces, and . + - in between.")
    return sent.name or f"{sent.retriever}-{sent.selector}" + (f"-floor-{sent.floor:g}" if sent.floor else "")


def _slug(session_id: str) -> str:
    """Return a session id as a part of a file's name."""
    slug = re.sub(r"[^\w-]", "_", session_id)[:40]
    return slug if slug == session_id else f"{slug}-{hashlib.sha256(session_id.encode()).hexdigest()[:8]}"


async def _run(call: Call, sent: EvaluationRequest, work: Path, slug: str, report: Path) -> None:
    most = call.settings.limits.request_seconds
    seconds = min(RUN_SECONDS, max(most / 2, most - SPARE_SECONDS))
    command = (
        *(sys.executable, "-P", "-m", "evals", "run", f"--data={work / slug}", f"--json={report}"),
        *(f"--retriever={sent.retriever}", f"--selector={sent.selector}", f"--floor={sent.floor or 0}"),
        # Vectors of texts would outlive an erasure of the texts.
        *(f"--embedder={call.settings.embedder}", f"--cache={work / 'cache'}"),
    )
    paths = os.pathsep.join(each for each in sys.path if each)
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}
    with anyio.move_on_after(seconds):
        done = await anyio.run_process(
            command, check=False, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environment
        )
        if done.returncode:
            lines = [each for each in done.stderr.decode("utf-8", "replace").splitlines() if each.strip()]
            fault = hide_places((lines or ["no reason given"])[-1].strip()[:600].removeprefix("error: "))
            raise ConfigError(f"The evaluation failed: {fault}")
        return
    raise ConfigError(
        f"The evaluation took longer than {seconds:.0f} seconds. Start it again, and it continues with the next question; or "
        "export the marks and run `python -m evals run --data DIR`."
    )


def _unpack(marks: bytes, data: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(marks)) as pack:
        pack.extractall(data)


def _find_folder(call: Call) -> Path:
    """Return the folder of the caller's reports, next to the index of the store. Raises ConfigError if there is no such place."""
    index = locate_store(call.settings.store, call.principal.tenant).index
    if index is None:
        raise ConfigError("A store in memory has no folder for reports; use a store on disk.")
    return index.with_name("reports".join(index.name.rsplit("index", 1)))


@handles
async def list_evaluations(call: Call) -> EvaluationPage:
    """List the reports, newest first."""
    folder, offset, limit = await to_thread.run_sync(_find_folder, call), call.query["offset"], call.query["limit"]
    return await to_thread.run_sync(_list, folder, offset, limit)


def _list(folder: Path, offset: int, limit: int) -> EvaluationPage:
    files = _list_files(folder)
    items = []
    for file in files[offset : offset + limit]:
        try:
            items.append(_describe(file, _read(file)))
        except ConfigError as error:
            fault = str(error)[:300]
            items.append(Evaluation(run_id=file.stem, kind="", at=_changed_at(file), fault=fault))
    return EvaluationPage(items=tuple(items), next=offset + limit if len(files) > offset + limit else None)


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a folder that may be reports, newest first."""
    found: list[tuple[float, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    found.append((-entry.stat(follow_symlinks=False).st_mtime, entry.name))
                if len(found) >= MOST_FILES:
                    break
    except FileNotFoundError:
        return []
    return [folder / name for _, name in sorted(found)]


def _changed_at(file: Path) -> datetime:
    return datetime.fromtimestamp(file.lstat().st_mtime, UTC)


def _read(file: Path) -> EvaluationReport:
    """Return a report. Raises ConfigError if the file is too large, or is not a report."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"The report cannot be read ({error.strerror}).") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"The report is larger than {MOST_BYTES:,} bytes.")
    return read_evaluation(data)


def _open(folder: Path, run_id: str) -> tuple[Evaluation, EvaluationReport]:
    """Return a report by its id. Raises Refusal if there is no such report."""
    file = next((each for each in _list_files(folder) if each.stem == run_id), None)
    if file is None:
        raise Refusal(404, "evaluation_not_found", "There is no such report.", run_id=run_id)
    report = _read(file)
    return _describe(file, report), report


def _describe(file: Path, report: EvaluationReport) -> Evaluation:
    config = report.config
    return Evaluation(
        run_id=file.stem,
        kind="run" if report.queries else "plays",
        at=_changed_at(file),
        data=config.data.name,
        retriever=config.retriever,
        selector=config.selector,
        embedder=config.embedder,
        floor=config.floor,
        questions=len(report.queries) or sum(len(each.turns) for each in report.plays),
        scored=len(report.scored),
        metrics={name: report.metrics[name] for name in LISTED_METRICS if name in report.metrics},
    )


@handles
async def get_evaluation(call: Call) -> EvaluationFigures:
    """Return the figures of a report. Raises Refusal if there is no such report."""
    folder = await to_thread.run_sync(_find_folder, call)
    return await to_thread.run_sync(_show, folder, call.ids["run_id"])


def _show(folder: Path, run_id: str) -> EvaluationFigures:
    evaluation, report = _open(folder, run_id)
    groups: dict[str, list[Mapping[str, float]]] = {"": []}
    for row in report.scored:
        groups[""].append(row.metrics or {})
        groups.setdefault(row.category or "(none)", []).append(row.metrics or {})
    if len(groups) == 2:
        groups = {"": groups[""]}
    asked = [float(turn.answered) for play in report.plays for turn in play.turns if turn.answered is not None]
    return EvaluationFigures(
        evaluation=evaluation,
        metrics={name: tuple(_score(rows)) for name, rows in groups.items()} if report.queries else {},
        evidence=report.evidence,
        latency_ms=report.latency_ms,
        plays=report.plays,
        answered=_mean("answered", asked) if asked else None,
    )


def _score(rows: Sequence[Mapping[str, float]]) -> Iterable[ScoredMetric]:
    for metric in LISTED_METRICS:
        if values := [row[metric] for row in rows if metric in row]:
            yield _mean(metric, values)


def _mean(metric: str, values: Sequence[float]) -> ScoredMetric:
    low, high = interval(values, resamples=_resamples(len(values)))
    return ScoredMetric(metric=metric, mean=sum(values) / len(values), low=low, high=high, questions=len(values))


def _resamples(count: int) -> int:
    return RESAMPLES if count <= MOST_EXACT else _FEWER_RESAMPLES


@handles
async def list_questions(call: Call) -> QuestionPage:
    """List the questions of a run, with the texts of their memories. Raises Refusal if there is no such report."""
    folder, query = await to_thread.run_sync(_find_folder, call), call.query
    _, report = await to_thread.run_sync(_open, folder, call.ids["run_id"])
    category = query["category"]
    rows = [
        each
        for each in report.queries
        if (not query["lost"] or _is_lost(each)) and (category is None or each.category == category)
    ]
    after = query["offset"] + query["limit"]
    shown = rows[query["offset"] : after]
    texts = await _read_texts(call, shown, {each.id: _names_of(each) for each in shown})
    return QuestionPage(
        items=tuple(_show_question(each, texts) for each in shown),
        total=len(rows),
        next=after if len(rows) > after else None,
    )


def _is_lost(row: ReportRow) -> bool:
    unwanted = (name for name, grade in row.relevant.items() if grade <= 0)
    return any(stage != "delivered" for stage in row.evidence.values()) or any(
        each in row.selected for each in unwanted
    )


def _names_of(row: ReportRow) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*row.relevant, *row.retrieved[:_RECALLED], *row.selected)))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Texts:
    """Texts of the caller's store: of turns by (session, turn), and of memories by (session, document of a set)."""

    turns: Mapping[tuple[str, str], str]
    memories: Mapping[tuple[str, str], str]


def _place_of(row: ReportRow) -> tuple[str, str]:
    """Return (session, turn) of a question made of marks, and ('', '') for any other question."""
    end = f":{row.session}"
    if not row.session or not row.id.endswith(end) or len(row.id) == len(end):
        return "", ""
    return row.id.removesuffix(end), row.session


async def _read_texts(call: Call, rows: Iterable[ReportRow], names: Mapping[str, tuple[str, ...]]) -> _Texts:
    """Read the inputs of turns, and the memories `names` of the questions. What is not stored is left out."""
    store = call.runtime.store
    turns: dict[tuple[str, str], str] = {}
    memories: dict[tuple[str, str], str] = {}
    for row in rows:
        session_id, turn_id = place = _place_of(row)
        if not session_id:
            continue
        try:
            turns[place] = input_of(await store.turn(session_id, turn_id))
            own = {name: name.removeprefix(f"{turn_id}/") for name in names[row.id] if name.startswith(f"{turn_id}/")}
            shared = {name: name for name in names[row.id] if name not in own}
            world = world_scope((await store.head(session_id)).world_id)
            for scope, wanted in ((session_scope(session_id), own), (world, shared)):
                found = {each.entry_id: each.text for each in await store.entries(scope, tuple(wanted.values()))}
                memories |= {(session_id, name): found[entry] for name, entry in wanted.items() if entry in found}
        except ContextEngineError:
            continue
    return _Texts(turns=turns, memories=memories)


def _show_question(row: ReportRow, texts: _Texts) -> EvaluatedQuestion:
    session_id, turn_id = place = _place_of(row)
    is_known = place in texts.turns
    return EvaluatedQuestion(
        question_id=row.id,
        category=row.category,
        session_id=session_id if is_known else "",
        turn_id=turn_id if is_known else "",
        text=texts.turns.get(place, ""),
        metrics=row.metrics,
        error=(row.error or "")[:_TEXT_CHARS],
        expected=tuple(_show_memory(row, name, texts) for name in row.relevant),
        recalled=tuple(_show_memory(row, name, texts) for name in _names_of(row) if name not in row.relevant),
    )


def _show_memory(row: ReportRow, name: str, texts: _Texts) -> EvaluatedMemory:
    return EvaluatedMemory(
        document_id=name,
        text=texts.memories.get((_place_of(row)[0], name), "")[:_TEXT_CHARS],
        grade=row.relevant.get(name),
        rank=row.retrieved.index(name) + 1 if name in row.retrieved else None,
        selected=name in row.selected,
        stage=row.evidence.get(name, ""),
    )


@handles
async def compare_evaluations(call: Call) -> EvaluationComparison:
    """Compare two runs. Raises ConfigError if they are not of the same questions, and Refusal if there is no such report."""
    folder, query = await to_thread.run_sync(_find_folder, call), call.query
    metric = query["metric"]
    if metric not in LISTED_METRICS:
        raise ConfigError(f"metric is {metric[:40]!r}; choose from {', '.join(LISTED_METRICS)}.")
    (a, before), (b, after) = [
        await to_thread.run_sync(_open, folder, call.ids[name]) for name in ("run_id", "other_id")
    ]
    differences = await to_thread.run_sync(_compare, before, after)
    pairs = await to_thread.run_sync(_pair, before, after, metric)
    end = query["offset"] + query["limit"]
    shown = pairs[query["offset"] : end]
    rows = [one for one, _ in shown]
    names = {one.id: tuple(dict.fromkeys((*one.selected, *other.selected))) for one, other in shown}
    texts = await _read_texts(call, rows, names)
    return EvaluationComparison(
        a=a,
        b=b,
        differences=differences,
        metric=metric,
        items=tuple(_show_pair(one, other, metric, texts) for one, other in shown),
        total=len(pairs),
        next=end if len(pairs) > end else None,
    )


def _compare(before: EvaluationReport, after: EvaluationReport) -> Mapping[str, Any]:
    plain = [codec.to_plain(each) for each in (before, after)]
    return compare_reports(*plain, resamples=_resamples(len(before.queries))).differences


def _pair(before: EvaluationReport, after: EvaluationReport, metric: str) -> list[tuple[ReportRow, ReportRow]]:
    """Return the questions whose scores differ, the largest difference first."""
    others = {each.id: each for each in after.scored if metric in (each.metrics or {})}
    pairs = [(each, others[each.id]) for each in before.scored if each.id in others and metric in (each.metrics or {})]

    def size(pair: tuple[ReportRow, ReportRow]) -> float:
        one, other = pair
        return abs((one.metrics or {})[metric] - (other.metrics or {})[metric])

    return sorted((each for each in pairs if size(each) > 0), key=lambda each: (-size(each), each[0].id))


def _show_pair(one: ReportRow, other: ReportRow, metric: str, texts: _Texts) -> ComparedQuestion:
    shown = _show_question(one, texts)
    return ComparedQuestion(
        question_id=one.id,
        session_id=shown.session_id,
        turn_id=shown.turn_id,
        text=shown.text,
        a=(one.metrics or {})[metric],
        b=(other.metrics or {})[metric],
        only_a=tuple(_show_memory(one, name, texts) for name in one.selected if name not in other.selected),
        only_b=tuple(_show_memory(other, name, texts) for name in other.selected if name not in one.selected),
    )
