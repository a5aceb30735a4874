"""Plays one part of the proof in the current folder and writes what comes out as files of JSON lines."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import anyio
from filelock import FileLock
from typer.testing import CliRunner

from evals.play.script.reading import find_plays, read_play
from evals.play.script.values import Failure, Fork, GivenEvidence, Play, Switch, ToolResult
from jacquard import ContextEngine, RuntimeConfig, load_config, open_runtime
from jacquard.cli.app import GROUPS, app
from jacquard.pipeline.record.prepared_turn import turn_to_json
from jacquard.testing.server import ScriptedRequest, ScriptedServer
from mnemosyne import EvidenceSource, EvidenceType, SourceKind, ToolCall
from mnemosyne.core import codec
from tests.proof import fixed, stored

ROOT = Path(__file__).parents[2]
SESSION = "played"
MODEL_PORT = 18399
"""Settings with an address are recorded, so it is always the same; a lock keeps others away meanwhile."""
PATIENCE_MS = 600_000
LIMITS = {
    "curation": {"deadline_ms": PATIENCE_MS},
    "budget": {"max_input_tokens": 5_200, "reserved_reply_tokens": 1_000},
}
GO_ON = {"en": "And what do we do now?", "zh": "现在我们怎么办?"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One session of the proof: what is played, with which settings, in which kind of store."""

    name: str
    play: str
    locale: str
    settings: dict[str, Any] = field(default_factory=dict)
    has_world: bool = True
    store: str = "sqlite"
    embedder: str = "none"
    has_model: bool = False
    turns: int = 16

    def config(self) -> RuntimeConfig:
        """Return the settings of the engine, read from a file in the current folder."""
        given = {**LIMITS, **({} if self.has_world else {"locale": self.locale}), **self.settings}
        if self.has_model:
            model = {
                "model": "openai/scripted",
                "api_base": f"http://127.0.0.1:{MODEL_PORT}/v1",
                "api_key": "sk-of-nobody",
            }
            for name in ("selector", "planner", "summary"):
                given[name] = {**model, **given.get(name, {})}
            for name in ("planner", "summary"):
                given[name]["timeout_ms"] = PATIENCE_MS
            given["summary"]["background_seconds"] = PATIENCE_MS / 1000
        Path("settings.yaml").write_text(json.dumps(given), encoding="utf-8")
        return load_config("settings.yaml", {})


BY_MACHINE = {"created_us", "file_bytes"}
"""Keys that are left out: a time by the database's clock, and the size of the files of an index."""


class Sheets:
    """The files of one part: each line is a JSON value. Addresses of this machine are written as names."""

    def __init__(self, folder: Path, names: dict[str, str]) -> None:
        self._folder, self._names = folder, names
        folder.mkdir(parents=True)

    def write(self, kind: str, *values: Any) -> None:
        """Add lines to the file of a kind."""
        with (self._folder / f"{kind}.jsonl").open("a", encoding="utf-8") as file:
            for value in values:
                line = json.dumps(_settle(value), ensure_ascii=False)
                for text, name in self._names.items():
                    line = line.replace(text, name)
                file.write(line.encode("utf-8", "backslashreplace").decode() + "\n")


def _settle(value: Any) -> Any:
    """Return a JSON value without what depends on the machine: which of two streams is timed first, and the database's clock."""
    if isinstance(value, list | tuple):
        return [_settle(each) for each in value]
    if not isinstance(value, dict):
        return "timings: …" if isinstance(value, str) and value.startswith("timings: ") else value
    found = {key: _settle(each) for key, each in value.items() if key not in BY_MACHINE}
    return {key: dict(sorted(each.items())) if key.endswith("timings_ms") else each for key, each in found.items()}


def answer_as_model(request: ScriptedRequest) -> str:
    """Answer a prompt for a small model by the elements in it: select the first two, summarize by the first words."""
    text = request.messages[-1].text
    if "<candidate_pool>" in text:
        return "text:" + json.dumps(re.findall(r'<item id="([^"]+)"', text)[:2], ensure_ascii=False)
    if "<talk>" in text:
        turns = re.findall(r'<turn n="(\d+)">\n(.{0,60})', text)
        return "text:" + json.dumps(
            {"turns": [{"n": int(n), "summary": said} for n, said in turns]}, ensure_ascii=False
        )
    if "<new_talk>" in text:
        former = re.findall(r"<summary_so_far>\n?(.*?)\n?</summary_so_far>", text, re.DOTALL)
        return "text:" + " ".join([*former, *re.findall(r"<turn[^>]*>\n(.{0,40})", text)[:4]])
    if "<quests>" in text:
        return "text:{}"
    return "text:" + json.dumps({"title": "Chapter", "text": text[-200:]}, ensure_ascii=False)


def run_part(part: Part, folder: Path, names: dict[str, str], address: str) -> None:
    """Play a part in the current folder, write its files to `folder/NAME` and its store to `folder/stores/NAME`."""
    fixed.reset()
    script = read_play(find_plays([part.play])[0])
    if script.world is not None and part.has_world:
        shutil.copytree(script.world, "pack")
    sheets = Sheets(folder / part.name, names)
    with ExitStack() as opened:
        config = part.config()
        if part.has_model:
            opened.enter_context(FileLock(Path(gettempdir()) / "jacquard-proof-model.lock"))
            server = opened.enter_context(ScriptedServer(answer_as_model, port=MODEL_PORT))
        anyio.run(_play, part, script, config, address, sheets)
        if part.has_model:
            sheets.write("model_requests", *({"path": each.path, "body": each.body} for each in server.requests))
        _ask_command_line(sheets, address, QUERIES)
        anyio.run(_read_records, part, config, address, sheets)
        stored.write_rows(sheets, address)
        stored.keep(address, folder / "stores" / part.name)
        anyio.run(go_on, part, config, address, sheets.write)


async def _play(part: Part, script: Play, config: RuntimeConfig, address: str, sheets: Sheets) -> None:
    """Play the turns and events of a script; what is prepared and committed is written."""
    async with _open(part, config, address) as runtime:
        await runtime.ensure_session(SESSION)
        for turn in script.turns[: part.turns]:
            for event in script.events:
                if event.before == turn.number:
                    await _act(runtime, event.action, turn.number)
            fixed.step()
            await _play_turn(runtime.engine, turn, sheets)
            await runtime.engine.settle(600)


def _open(part: Part, config: RuntimeConfig, address: str) -> Any:
    world = "pack" if Path("pack").exists() else None
    return open_runtime(address, world=world, embedder=part.embedder, config=config, bare=world is None)


async def _play_turn(engine: ContextEngine, turn: Any, sheets: Sheets) -> None:
    try:
        prepared = await engine.prepare_turn(SESSION, turn.input)
        write_turn(prepared, sheets.write)
        if prepared.reply is None and turn.reply is not None and turn.fails is None:
            done = await engine.commit_assistant_message(SESSION, turn.reply, turn_id=prepared.turn_id)
            sheets.write("commits", codec.to_plain(done))
        elif turn.fails is Failure.CUT_OFF and turn.reply:
            await engine.commit_assistant_chunk(SESSION, turn.reply[:40], 0)
            await engine.abort_assistant_message(SESSION)
    except Exception as error:
        sheets.write("errors", f"{turn.number} {type(error).__name__}: {error}")


def write_turn(prepared: Any, write: Callable[..., None]) -> None:
    """Write the parts of a prepared turn, each to the file of its kind."""
    told = turn_to_json(prepared)
    write("messages", told["messages"])
    write("providers", {"openai": prepared.to_openai(), "anthropic": prepared.to_anthropic()})
    write("texts", told["text"])
    write("receipts", {"plan": told["plan"], **told["report"]})
    write("packages", told["package"])
    write("turns", {key: told[key] for key in ("turn_id", "session_id", "branch_id", "triage", "reply")})


async def _act(runtime: Any, action: Any, number: int) -> None:
    """Do what a host does between turns. Edits are left to the next turn."""
    engine, store = runtime.engine, runtime.store
    if isinstance(action, ToolResult):
        call = ToolCall(tool_call_id=f"call_{number}_{action.name}", tool=action.name, args_digest={"turn": number})
        await engine.record_tool_call(SESSION, call, result=action.text)
    elif isinstance(action, GivenEvidence):
        source = EvidenceSource(kind=SourceKind.RAG, name=action.kind, uri=f"{action.kind}:{number}")
        await runtime.intake.ingestor.ingest(SESSION, action.text, source, EvidenceType.RAG_DOC)
    elif isinstance(action, Fork):
        turns = await store.turns(SESSION, limit=1000)
        place = min(action.at, len(turns))
        await engine.fork(SESSION, turns[place - 1].turn_id if place else None, action.branch)
    elif isinstance(action, Switch):
        await engine.switch(SESSION, action.branch)


async def _read_records(part: Part, config: RuntimeConfig, address: str, sheets: Sheets) -> None:
    """Write all records, states, documents and entries of the session as the store gives them."""
    async with _open(part, config, address) as runtime:
        store = runtime.store
        for head in await store.branches(SESSION):
            sheets.write("branches", codec.to_plain(head))
            for record in await store.turns(SESSION, limit=1000, branch_id=head.branch_id):
                whole = await store.turn(SESSION, record.turn_id)
                sheets.write("records", codec.to_plain(whole))
                if whole.status.value == "committed":
                    sheets.write("states", codec.to_plain(await store.state_at(SESSION, record.turn_id)))
        sheets.write("evidence", *(codec.to_plain(each) for each in await store.list_evidences(SESSION)))


async def go_on(part: Part, config: RuntimeConfig, address: str, write: Callable[..., None]) -> None:
    """Play one more turn and write it with the prefix `next_`."""
    async with _open(part, config, address) as runtime:
        fixed.reset()
        fixed.step(100_000)
        prepared = await runtime.engine.prepare_turn(SESSION, GO_ON[part.locale])
        write_turn(prepared, lambda kind, *values: write(f"next_{kind}", *values))
        done = await runtime.engine.commit_assistant_message(SESSION, "<content>…</content>")
        write("next_commits", codec.to_plain(done))
        await runtime.engine.settle(600)


QUERIES = (
    ("state",),
    ("history",),
    ("explain",),
    ("explain", "--find", "the"),
    ("replay",),
    ("memory", "log"),
    ("memory", "search", "key water 钥匙"),
    ("export", "--format", "chat"),
    ("doc", "export"),
    ("sessions", "list"),
    ("check",),
)
"""Commands that are asked of every session after its play."""
_BARE = {"sessions list", "check"}
_NAMED = {"export", "doc export"}
_PLAIN = {"export", "doc export"}


def ask(arguments: list[str], more: list[str]) -> dict[str, Any]:
    """Run a command as a user types it; return its exit code and what it printed, JSON as a value."""
    fixed.step()
    group = [name for name, each in GROUPS.items() if arguments[0] in each.commands]
    done = CliRunner().invoke(app, [*group, *arguments, *more])
    try:
        printed: Any = json.loads(done.stdout)
    except ValueError:
        printed = done.stdout.splitlines()
    return {"command": " ".join(arguments), "exit_code": done.exit_code, "stdout": printed, "stderr": done.stderr}


def _ask_command_line(sheets: Sheets, address: str, commands: Iterable[tuple[str, ...]]) -> None:
    for words in commands:
        name = " ".join(each for each in words[:2] if each.isalpha())
        asked = [*words]
        if name in _NAMED or words[0] in _NAMED:
            asked.insert(2 if words[0] == "doc" else 1, SESSION)
        elif name not in _BARE:
            asked += ["--session", SESSION]
        if name not in _PLAIN and words[0] not in _PLAIN:
            asked.append("--json")
        if words[0] in ("explain", "memory") and words[:2] != ("memory", "log"):
            asked += ["--embedder", "none"]
        sheets.write("command_line", ask(asked, ["--store", address]))
