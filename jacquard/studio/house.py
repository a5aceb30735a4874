"""House: sessions, worlds, users and erasures, health, settings in force, metrics as plots, and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from anyio import to_thread
from starlette.responses import Response

from jacquard.config.reference import TEXTS, settings_of
from jacquard.config.service import ServiceSettings
from jacquard.config.settings import SERVICE
from jacquard.core.errors import ConfigError
from jacquard.core.sentences import LANGUAGES
from jacquard.core.sentences.pages import read_page_texts
from jacquard.remote.bodies import ErasureAnswer, ErasureRequest, MetricsAnswer, MetricsPoint, TokenAnswer, TokenRequest
from jacquard.remote.operations import BY_NAME
from jacquard.service.answers import answer_file
from jacquard.service.values import Scope
from jacquard.studio.visit import Room, Visit, link, write_json
from mnemosyne.values import dataclass

TABS: Mapping[str, str] = {
    "sessions": "list_conversations",
    "archived": "list_archived",
    "worlds": "list_worlds",
    "users": "list_users",
    "erasures": "list_audits",
    "health": "check_health",
    "settings": "list_settings",
    "metrics": "get_metrics",
    "tokens": "list_tokens",
}
"""Views of the room, each with the operation that it reads. The scope of the operation decides who sees the view."""
MINUTES = (60, 360, 1_440)
"""Times that the plots may show."""
LIFETIMES_DAYS = (0, 1, 30, 365)
"""Times for which a new token may be valid (0: without an end)."""
WIDTH, HEIGHT = 600, 120
"""Size of a plot in its own units."""
COLOURS = 6
"""Number of colours of lines; `studio.css` names them."""
_PAGE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of a plot: its name, the number of its colour, its points as an SVG path, and its newest value."""

    name: str
    colour: int
    path: str
    newest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A plot of several lines over time. `most` is the value at its top, and `unit` is a key of the texts."""

    name: str
    unit: str
    most: float
    lines: tuple[Line, ...]


async def show_sessions(visit: Visit) -> Response:
    """Return a page of open conversations."""
    wanted, after = visit.query.get("query", ""), visit.query.get("after", "")
    found = await visit.ask("list_conversations", query=wanted, after=after)
    return await _show(visit, "sessions", found=found, wanted=wanted)


async def show_archived(visit: Visit) -> Response:
    """Return a page of archived sessions."""
    rows: Sequence[Any] = ()
    fault = ""
    try:
        rows = await visit.ask("list_archived", after=visit.query.get("after", ""), limit=_PAGE + 1)
    except ConfigError as error:
        fault = str(error)
    return await _show(
        visit,
        "archived",
        rows=rows[:_PAGE],
        after=rows[_PAGE - 1].session_id if len(rows) > _PAGE else None,
        fault=fault,
    )


async def change_session(visit: Visit) -> Response:
    """Archive a session, open it again, or lead to its erasure."""
    form = await visit.form()
    do, session_id = form.get("do", ""), form.get("session_id", "")
    if do == "erase":
        return visit.go(link("studio", "house", "erase", session_id=session_id))
    if do == "archive":
        await visit.ask("archive_session", session_id=session_id)
        return visit.go(link("studio", "house", "archived", done="archive"))
    await visit.ask("open_archived", session_id=session_id)
    return visit.go(link("studio", "house", "archived", done="open"))


async def show_erasure(visit: Visit) -> Response:
    """Return what an erasure of a user or a session would remove. Nothing is removed."""
    subject = _subject_of(visit.query)
    answer: ErasureAnswer = await visit.ask("erase", body=_request_for(subject, dry_run=True))
    return await _show(visit, "erase", answer=answer, subject=subject)


async def erase(visit: Visit) -> Response:
    """Erase a user or a session, and return the proof."""
    form = await visit.form()
    subject = _subject_of(form)
    body = _request_for(subject, reason=form.get("reason", ""), dry_run="sure" not in form)
    answer: ErasureAnswer = await visit.ask("erase", body=body)
    return await _show(visit, "erase", answer=answer, subject=subject)


def _subject_of(sent: Mapping[str, str]) -> dict[str, str]:
    return {name: sent[name] for name in ("user_id", "session_id") if sent.get(name)}


def _request_for(subject: Mapping[str, str], *, reason: str = "", dry_run: bool) -> ErasureRequest:
    user_id, session_id = subject.get("user_id"), subject.get("session_id")
    return ErasureRequest(user_id=user_id, session_id=session_id, reason=reason, dry_run=dry_run)


async def show_worlds(visit: Visit) -> Response:
    """Return a page of the worlds."""
    worlds, after = _cut_page(visit, await visit.ask("list_worlds"))
    return await _show(visit, "worlds", worlds=worlds, after=after)


async def save_world(visit: Visit) -> Response:
    """Return the pack of a world as a file that the browser saves."""
    world_id = visit.query.get("world_id", "")
    pack = await visit.ask("get_world", world_id=world_id)
    return answer_file((await to_thread.run_sync(write_json, pack, 1)).encode(), f"{world_id}.json")


async def show_users(visit: Visit) -> Response:
    """Return a page of users."""
    wanted = visit.query.get("query", "")
    found = await visit.ask("list_users", query=wanted, after=visit.query.get("after", ""), limit=_PAGE)
    return await _show(visit, "users", found=found, wanted=wanted)


async def show_user(visit: Visit) -> Response:
    """Return the facts about a user, newest first."""
    user_id = visit.query.get("user_id", "")
    facts, after = _cut_page(visit, (await visit.ask("user_facts", user_id=user_id))[::-1])
    return await _show(visit, "user", user_id=user_id, facts=facts, after=after)


async def show_erasures(visit: Visit) -> Response:
    """Return the records of erasures and the newest audited calls, newest first."""
    records, after = _cut_page(visit, (await visit.ask("list_audits"))[::-1])
    calls = () if visit.service.records is None else (await visit.ask("list_audited_calls"))[::-1]
    return await _show(visit, "erasures", records=records, after=after, calls=calls)


async def show_health(visit: Visit) -> Response:
    """Return the findings of a health check."""
    return await _show(visit, "health", health=await visit.ask("check_health"), is_tenant=_is_tenant(visit))


@cache
def read_setting_docs(language: str) -> Mapping[str, str]:
    """Return the sentence about each setting in a language, by its path. Chinese sentences are those of the reference page."""
    found = {
        ".".join(each.path): each.field.doc for each in (*settings_of(), *settings_of(ServiceSettings, (SERVICE,)))
    }
    if language == LANGUAGES[0]:
        return found
    texts = read_page_texts([TEXTS]).texts
    return {path: texts.get(doc, doc) for path, doc in found.items()}


async def show_settings(visit: Visit) -> Response:
    """Return the settings in force that contain the words of the query."""
    wanted, changed = visit.query.get("query", "").strip(), "changed" in visit.query
    words = wanted.casefold().split()
    docs = await to_thread.run_sync(read_setting_docs, visit.t.language)
    found = [
        each
        for each in await visit.ask("list_settings")
        if all(word in f"{each.name} {each.value} {each.source} {docs.get(each.name)}".casefold() for word in words)
        and not (changed and each.source == "default")
    ]
    rows, after = _cut_page(visit, found)
    return await _show(
        visit,
        "settings",
        rows=rows,
        docs=docs,
        after=after,
        count=len(found),
        wanted=wanted,
        changed=changed,
        is_tenant=_is_tenant(visit),
    )


async def show_metrics(visit: Visit) -> Response:
    """Return plots of the figures of the last hours."""
    minutes = next((each for each in MINUTES if str(each) == visit.query.get("minutes")), MINUTES[0])
    metrics: MetricsAnswer = await visit.ask("get_metrics", minutes=minutes)
    return await _show(visit, "metrics", metrics=metrics, plots=draw_plots(metrics), minutes=minutes, spans=MINUTES)


async def show_tokens(visit: Visit) -> Response:
    """Return the tokens of the tenant, newest first."""
    return await _show_tokens(visit)


async def change_token(visit: Visit) -> Response:
    """Make a token, which only this page shows, or revoke one."""
    form = await visit.form()
    if form.get("do") == "revoke":
        await visit.ask("revoke_token", token_id=form.get("token_id", ""))
        return visit.go(link("studio", "house", "tokens", done="revoke"))
    days = int(form["days"]) if form.get("days", "") in [str(each) for each in LIFETIMES_DAYS] else 0
    body = TokenRequest(
        scope=Scope(form["scope"]) if form.get("scope") in list(Scope) else Scope.PLAY,
        viewer=form.get("viewer", "").strip() or None,
        note=form.get("note", "").strip(),
        expires_at=datetime.now(UTC) + timedelta(days=days) if days else None,
    )
    made: TokenAnswer = await visit.ask("create_token", body=body)
    return await _show_tokens(visit, made)


async def _show_tokens(visit: Visit, made: TokenAnswer | None = None) -> Response:
    rows: Sequence[Any] = ()
    fault, after = "", None
    try:
        rows, after = _cut_page(visit, (await visit.ask("list_tokens"))[::-1])
    except ConfigError as error:
        fault = str(error)
    return await _show(
        visit,
        "tokens",
        rows=rows,
        after=after,
        fault=fault,
        made=made,
        scopes=[each.value for each in Scope],
        lifetimes=LIFETIMES_DAYS,
        now=datetime.now(UTC),
    )


def draw_plots(metrics: MetricsAnswer) -> tuple[Plot, ...]:
    """Return the plots of figures: rates, times of steps, paths, degradations, and the shared beginning of prompts."""
    points, width = metrics.points, metrics.point_minutes
    return tuple(
        each
        for each in (
            _plot("rates", "a_minute", points, {
                "turns": [each.turns / width for each in points],
                "requests": [each.requests / width for each in points],
                "refused": [each.refused / width for each in points],
            }),
            _plot("p50", "ms", points, _times(metrics, "p50_ms")),
            _plot("p95", "ms", points, _times(metrics, "p95_ms")),
            _plot("paths", "turns", points, {
                name: [float(each.paths.get(name, 0)) for each in points] for name in metrics.total.paths
            }),
            _plot("degradations", "times", points, {
                name: [float(each.degradations.get(name, 0)) for each in points]
                for name in _most_frequent(metrics.total.degradations)
            }),
            _plot("prefix", "percent", points, {
                "shared": [100 * each.shared_tokens / each.tokens if each.tokens else 0.0 for each in points],
            } if metrics.total.tokens else {}),
        )
        if each.lines
    )  # fmt: skip


_SLOWEST = 6
"""Maximum number of lines in a plot of times or of degradations."""


def _times(metrics: MetricsAnswer, name: str) -> dict[str, list[float]]:
    steps = sorted(metrics.total.steps.items(), key=lambda each: -each[1].p95_ms)
    return {
        step: [getattr(point.steps[step], name) if step in point.steps else 0.0 for point in metrics.points]
        for step, _ in steps[:_SLOWEST]
    }


def _most_frequent(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))[:_SLOWEST]


def _plot(name: str, unit: str, points: Sequence[MetricsPoint], values: Mapping[str, Sequence[float]]) -> Plot:
    most = max((max(each, default=0.0) for each in values.values()), default=0.0)
    step = WIDTH / max(1, len(points) - 1)
    lines = tuple(
        Line(
            name=each,
            colour=number % COLOURS,
            path="M" + " ".join(
                f"{at * step:.1f},{HEIGHT - HEIGHT * value / most:.1f}" if most else f"{at * step:.1f},{HEIGHT}"
                for at, value in enumerate(numbers)
            ),
            newest=next((value for value in reversed(numbers) if value), 0.0),
        )
        for number, (each, numbers) in enumerate(values.items())
    )  # fmt: skip
    return Plot(name=name, unit=unit, most=most, lines=lines)


def _cut_page(visit: Visit, rows: Sequence[Any]) -> tuple[Sequence[Any], int | None]:
    """Return the rows of the page that the address names, and the number at which the next page begins (None: there is none)."""
    begin = int(text) if (text := visit.query.get("from", "")).isdecimal() and len(text) < 10 else 0
    after = begin + _PAGE
    return rows[begin:after], after if after < len(rows) else None


def _is_tenant(visit: Visit) -> bool:
    return visit.service.records is not None


async def _show(visit: Visit, view: str, **values: Any) -> Response:
    tabs = [name for name, operation in TABS.items() if visit.principal.allows(BY_NAME[operation].scope)]
    may = {name: visit.principal.allows(BY_NAME[name].scope) for name in ("archive_session", "erase", "get_world")}
    return await visit.show(f"house_{view}.html", tabs=tabs, view=view, may=may, **values)


_BASE = "/studio/house"
ROOM = Room(
    name="house",
    pages={
        f"GET {_BASE}": show_sessions,
        f"POST {_BASE}/session": change_session,
        f"GET {_BASE}/archived": show_archived,
        f"GET {_BASE}/erase": show_erasure,
        f"POST {_BASE}/erase": erase,
        f"GET {_BASE}/worlds": show_worlds,
        f"GET {_BASE}/world": save_world,
        f"GET {_BASE}/users": show_users,
        f"GET {_BASE}/user": show_user,
        f"GET {_BASE}/erasures": show_erasures,
        f"GET {_BASE}/health": show_health,
        f"GET {_BASE}/settings": show_settings,
        f"GET {_BASE}/metrics": show_metrics,
        f"GET {_BASE}/tokens": show_tokens,
        f"POST {_BASE}/tokens": change_token,
    },
)
