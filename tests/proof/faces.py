"""Command line and HTTP service: each command and each operation once, as a user types it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import anyio

from jacquard.remote.operations import OPERATIONS
from jacquard.testing.server import ScriptedServer
from tests.proof import fixed
from tests.proof.player import ROOT, Sheets, ask

sys.path.append(str(ROOT / "tests" / "jacquard" / "service"))

from doors import CHAT, PROXY_ROUTES, ROWS, open_doors

WORLDS = ROOT / "examples" / "whispering_forest"
INPUTS = {
    "zh": "那把钥匙是不是开启神庙的?我记得之前提到过。",
    "en": "Is that the key that opens the temple? I remember it came up before.",
}
REPLY = '<content>Aye.</content><state_update>[["SUB", "hero.coins", 1]]</state_update>'


def commands(locale: str) -> list[list[str]]:
    """Return the commands in their order; each works on the store that those before it left."""
    s1, none = ["--session", "s1"], ["--embedder", "none"]
    return [
        ["weave", "--world", "pack", *s1, "--input", INPUTS[locale], *none, "--deadline-ms", "600000", "--json"],
        ["commit", *s1, "--text", REPLY, "--json"],
        ["weave", *s1, "--input", INPUTS[locale], *none, "--dry-run", "--deadline-ms", "600000"],
        ["action", *s1, "--input", {"zh": "吃面包", "en": "eat bread"}[locale], "--json"],
        ["state", *s1],
        ["state", *s1, "--json"],
        ["history", *s1],
        ["history", *s1, "--json"],
        ["explain", *s1],
        ["explain", *s1, "--json"],
        ["explain", *s1, "--why-not", {"zh": "钥匙", "en": "key"}[locale], *none, "--json"],
        ["replay", *s1],
        ["fork", *s1, "--at", "start", "--name", "other", "--json"],
        ["switch", *s1, "--name", "main", "--json"],
        ["memory", "remember", "The boat key hangs behind the clock.", *s1, "--json"],
        ["memory", "search", "boat key", *s1, *none, "--json"],
        ["memory", "log", *s1, "--json"],
        ["evidence", "add", "help.md", *s1, *none, "--json"],
        ["lore", "list", f"whispering_forest_{locale}", "--json"],
        ["sessions", "continue", "s1", "s2", *none, "--json"],
        ["sessions", "list", "--json"],
        ["export", "s1", "--format", "chat"],
        ["export", "s1", "--format", "world-info"],
        ["doc", "export", "s1"],
        ["reindex", *s1, "--json", *none],
        ["sweep", "--json"],
        ["consolidate", *s1, "--json"],
        ["archive", "--session", "s2", "--json"],
        ["migrate", "--json"],
        ["backup", "all.backup", "--json"],
        ["erase", "--session", "s2", "--dry-run", "--json"],
        ["erase", "--session", "s2", "--reason", "asked", "--json"],
        ["check", "--json"],
        ["doctor", "--json", *none],
        ["weave", "--session", "nobody", "--input", "x", *none],
        ["state", "--session", "nobody", "--json"],
    ]


ALONE = (
    ["validate", "pack", "--json"],
    ["validate", "pack"],
    ["template", "lint", "--world", "pack", "--json"],
    ["schema", "session"],
    ["schema", "package"],
    ["schema", "world"],
    ["schema", "settings"],
)
"""Commands without a store."""


def run_command_line(locale: str, sheets: Sheets) -> None:
    """Run each command on the example world."""
    fixed.reset()
    shutil.copytree(WORLDS / locale, "pack")
    Path("help.md").write_text(
        "# Keys\n\nThe boat key opens the shed.\n\n# Hours\n\nWe open at nine.\n", encoding="utf-8"
    )
    for words in commands(locale):
        sheets.write("command_line", ask(words, ["--store", "store"]))
    for words in ALONE:
        sheets.write("command_line", ask(words, []))
    sheets.write("command_line", ask(["restore", "all.backup", "--json"], ["--store", "restored"]))


def run_service(locale: str, sheets: Sheets) -> None:
    """Call each operation of the HTTP API and each route of the proxy once, as an administrator."""
    fixed.reset()
    anyio.run(_call_all, locale, sheets)


async def _call_all(locale: str, sheets: Sheets) -> None:
    with ScriptedServer("text:Noted.") as upstream:
        async with open_doors(Path("service"), upstream, world=str(WORLDS / locale)) as doors:
            for operation in OPERATIONS:
                if operation.name == "stream_events":
                    continue
                fixed.step()
                ids = await doors.prepare_session(f"s-{operation.name}", waits=ROWS[operation.name].waits)
                whole = {"include": "all"} if any(each.name == "include" for each in operation.query) else None
                answer = await doors.call("admin", operation, ids, query=whole)
                sheets.write("http", {"operation": operation.name, "status": answer.status_code, "body": _read(answer)})
            for method, path in PROXY_ROUTES:
                sent = CHAT if method == "POST" else None
                answer = await doors.send("play", method, path.replace("{model:path}", "m"), sent)
                sheets.write("proxy", {"route": f"{method} {path}", "status": answer.status_code})
            sheets.write("upstream", *({"path": each.path, "body": each.body} for each in upstream.requests))
            answer = await doors.send("admin", "GET", "/openapi.json")
            sheets.write("openapi", answer.json())


def _read(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
