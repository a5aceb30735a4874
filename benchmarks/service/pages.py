"""Times of the studio's pages over a long session, from the request to the last byte, and until Chromium paints a turn.

The service runs in a process of its own over SQLite. Pages are fetched in turn over one kept connection, so that other work on
the machine falls on all of them alike. In Chromium (found as `chromium` or by the variable CHROMIUM; without one, that part is
left out) the turn is opened anew each time, and the time from the last byte of the answer to the first paint is taken in
the same load of the page.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table

from benchmarks.conversation import questions, session_of
from benchmarks.service.http_client import HttpClient
from benchmarks.service.load import OK
from benchmarks.service.service import Settings, serve
from evals.errors import SetupError
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from jacquard import BudgetConfig, RuntimeConfig, open_runtime
from mnemosyne import SessionStart

_CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=12_000))
"""Settings of the turn that is painted. Its prompt has more than 100 blocks."""
SEED = 7
_TIMES = """() => new Promise((done) => new PerformanceObserver((found) => {
    const paint = found.getEntriesByName("first-contentful-paint")[0];
    if (paint) done([paint.startTime, performance.getEntriesByType("navigation")[0].responseEnd]);
}).observe({ type: "paint", buffered: true }))"""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(messages: int, sessions: int, rounds: int, say: Say, progress: Progress) -> dict[str, Any]:
    """Fill a store, fetch each page `rounds` times, and return the figures."""
    with TemporaryDirectory(prefix="jacquard-bench-") as name:
        store, settings = Path(name) / "served", Settings()
        say(f"a session of {messages:,} messages and {sessions:,} others")
        session_id, turn_id = await _fill(store, messages, sessions)
        async with serve(store, settings, studio=True) as (port, _), HttpClient(port) as client:
            addresses = _addresses(session_id, turn_id, messages)
            samples: dict[str, list[float]] = {each: [] for each in addresses}
            for turn in range(rounds + 1):
                for page, path in addresses.items():
                    began = perf_counter()
                    answer = await client.get(path, "text/html")
                    # The first round opens what later ones find open.
                    if turn:
                        samples[page].append(1000 * (perf_counter() - began))
                    if answer.status != OK:
                        raise SetupError(f"{path} answered HTTP {answer.status}: {answer.body[:200].decode()}")
                progress("rounds", turn, rounds)
            blocks = (await client.get(addresses["turn"])).body.count(b'class="block')
            paints = await to_thread.run_sync(_paint, f"http://127.0.0.1:{port}{addresses['turn']}", rounds)
    rows = {
        page: dict(zip(("p50_ms", "p95_ms"), percentiles(each, 50, 95), strict=True)) for page, each in samples.items()
    }
    return {
        "messages": messages,
        "sessions": sessions,
        "blocks": blocks,
        "pages": rows,
        "paint_ms": percentiles(paints, 50, 95) if paints else None,
        "machine": machine(),
        "load": load(),
    }


async def _fill(store: Path, messages: int, sessions: int) -> tuple[str, str]:
    """Write the sessions, with one prepared turn at the end of the long one. Return the ids of the long one and of the turn."""
    async with open_runtime(store, embedder="none", config=_CONFIG) as runtime:
        head = await runtime.import_session(session_of(messages, seed=SEED))
        for number in range(sessions):
            short: SessionStart = session_of(4, seed=number, session_id=f"short-{number:06}")
            await runtime.import_session(short)
        await runtime.sync(head.session_id)
        turn = await runtime.engine.prepare_turn(head.session_id, next(iter(questions(1, SEED))))
        await runtime.engine.commit_assistant_message(head.session_id, "Yes.", turn_id=turn.turn_id)
    return head.session_id, turn.turn_id


def _addresses(session_id: str, turn_id: str, messages: int) -> dict[str, str]:
    session = f"/s/{session_id}"
    return {
        "home": "/",
        "home, search": "/?query=short-0004",
        "turn": f"{session}/t/{turn_id}",
        "turn, diff": f"{session}/t/{turn_id}?view=diff",
        "timeline, newest": f"{session}/timeline",
        "timeline, first turns": f"{session}/timeline?depth=5",
        "timeline, middle": f"{session}/timeline?depth={messages // 4}",
        "memory, first page": f"{session}/memory",
        "memory, middle": f"{session}/memory?cursor=history.{messages // 2}",
        "memory, by kind": f"{session}/memory?kind=message",
        "memory, rare words": f"{session}/memory?words=xyzzy",
        "memory, question": f"{session}/memory?ask=lantern",
        "memory, log": f"{session}/memory/log",
    }


def _paint(address: str, rounds: int) -> list[float]:
    """Return the milliseconds from the last byte of the answer to the first paint, once a round."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    browser_path = next((found for name in names if name and (found := shutil.which(name))), None)
    if browser_path is None:
        return []
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    waits = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        for turn in range(rounds + 1):
            page.goto(address)
            painted, answered = page.evaluate(_TIMES)
            if turn:
                waits.append(painted - answered)
        browser.close()
    return waits


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the figures."""
    table = Table(
        "page", "p50 ms", "p95 ms", title=f"{figures['messages']:,} messages, {figures['sessions']:,} other sessions"
    )
    for page, times in figures["pages"].items():
        table.add_row(page, f"{times['p50_ms']:.1f}", f"{times['p95_ms']:.1f}")
    if figures["paint_ms"] is not None:
        middle, late = figures["paint_ms"]
        table.add_row(f"first paint of {figures['blocks']} blocks after the answer", f"{middle:.1f}", f"{late:.1f}")
    out.print(table)
    out.print(f"{figures['machine']}, load {figures['load']}")
