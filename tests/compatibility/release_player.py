"""Plays three sessions with whichever release is on the path, and writes what a later one must read.

    PYTHONPATH=RELEASE python release_player.py FOLDER

FOLDER holds `packs` and `settings.yaml`. It gets `store.db` (SQLite), `files` (JSON files), `postgres.sql` (the tables in
PostgreSQL; its rows are those of `store.db`) and `prompts.json`: by kind of store, session and turn the SHA-256 of each prompt
and state.

`zh-cache` has imported turns, refused ops, actions, a fork, a tool result, summaries and a turn that waits for its reply,
`en-classic` a memory by hand, and `en-rests` is archived if the store keeps archives.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import anyio

from jacquard import MemoryVerbs, Runtime, load_config, open_runtime
from jacquard.pipeline.record.prepared_turn import turn_from_record
from mnemosyne import ModelUsage, ModelUsageStage, Store, Task, ToolCall

Turns = tuple[tuple[str, str | None], ...]
ZH: Turns = (
    ("你好,我刚刚到岛上。", "<content>海风很大。</content>"),
    (
        "芬恩老人在哪里?",
        '<content>他在缆绳旁边。</content><state_update>[["SET", "location", "栈桥尽头"], ["SET", "hero.crown", 1]]</state_update>',
    ),
    ("吃面包", None),
    (
        "我想看看灯塔。",
        '<content>白塔立在礁石上。</content><state_update>[["SUB", "hero.coins", 2], ["INSERT", "bag_main", '
        '{"id": "item_rope", "name": "缆绳", "count": 1}]]</state_update>',
    ),
    (
        "我之前把黄铜钥匙放在哪里了?",
        '<content>你记得它挂在门后。</content><state_update>[["SUB", "hero.coins", 50]]</state_update>',
    ),
    ("点亮油灯", None),
    (
        "推开灯塔的门。",
        '<content>门吱呀一声开了。</content><state_update>[["SET", "found.brass_key", true]]</state_update>',
    ),
)
EN: Turns = (
    ("Hello, I have just come ashore.", "<content>The wind is strong.</content>"),
    (
        "Where is old Finn?",
        '<content>By the ropes.</content><state_update>[["SUB", "hero.coins", 1]]</state_update>',
    ),
    ("eat bread", None),
    ("I want to see the <lighthouse> & its {{ keeper }}.", "<content>It stands white on the rock.</content>"),
)


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value, its keys in order."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


async def read_digests(store: Store, session_id: str) -> dict[str, dict[str, str]]:
    """Return by turn the digests of its recorded prompt and of the state after it."""
    found: dict[str, dict[str, str]] = {}
    for head in await store.branches(session_id):
        window = await store.window(session_id, message_limit=1, branch_id=head.branch_id)
        records = await store.turns(session_id, limit=100, branch_id=head.branch_id)
        names = [record.turn_id for record in records] + ([window.pending.turn_id] if window.pending else [])
        for name in names:
            record = await store.turn(session_id, name)
            turn = turn_from_record(record, 0) if record.prompt else None
            found[name] = {
                "messages": digest(turn and turn.messages),
                "text": digest(turn and turn.text),
                "said": digest([message.content for message in record.messages]),
            }
            if record.status.value == "committed":
                found[name]["state"] = digest(await store.state_at(session_id, name))
    return found


async def play(runtime: Runtime, session_id: str, turns: Turns) -> None:
    """Play turns, each with its reply; a numerical one has none."""
    await runtime.ensure_session(session_id)
    for said, reply in turns:
        await runtime.engine.prepare_turn(session_id, said)
        if reply is not None:
            await runtime.engine.commit_assistant_message(session_id, reply)


async def play_in_chinese(address: str, folder: Path) -> None:
    """Play `zh-cache`."""
    config = load_config(folder / "settings.yaml", {})
    async with open_runtime(address, world=folder / "packs" / "zh", embedder="none", config=config) as runtime:
        name, engine = "zh-cache", runtime.engine
        await play(runtime, name, ZH[:6])
        await engine.upsert_tasks(name, [Task(task_id="t1", name="找到钥匙"), Task(task_id="t2", name="回到栈桥")])
        call = ToolCall(tool_call_id="c1", tool="map", task_id="t1")
        await engine.record_tool_call(name, call, result="灯塔在岛的北端,离栈桥三百步。")
        before = (await runtime.store.head(name)).turn_id
        await play(runtime, name, ZH[6:])
        usage = ModelUsage(model_usage_id="u1", model="big", stage=ModelUsageStage.ANSWER, prompt_tokens=900)
        await engine.record_model_usage(name, usage)
        await play(runtime, name, (("地图上怎么说?", "<content>北端,三百步。</content>"),))
        await engine.fork(name, before, "other")
        await engine.switch(name, "other")
        await play(runtime, name, (("还是先问问芬恩。", "<content>他摇摇头。</content>"),))
        await engine.switch(name, "main")
        await engine.summarize(name)
        await engine.prepare_turn(name, "还有别的路吗?")


async def play_in_english(address: str, folder: Path, *, archives: bool) -> None:
    """Play `en-classic` and `en-rests`."""
    async with open_runtime(address, world=folder / "packs" / "en", embedder="none") as runtime:
        await play(runtime, "en-classic", EN[:2])
        await MemoryVerbs(runtime).remember("en-classic", "Finn is afraid of the cellar.", key="cellar")
        await play(runtime, "en-classic", EN[2:])
        await play(runtime, "en-rests", EN[:2])
        if archives:
            await runtime.archive_session("en-rests")


async def record(address: str, folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Play into a new store, and return the digests of its open sessions."""
    await play_in_chinese(address, folder)
    await play_in_english(address, folder, archives=not address.startswith("file:"))
    async with open_runtime(address, embedder="none") as runtime:
        return {name: await read_digests(runtime.store, name) for name in ("zh-cache", "en-classic")}


if __name__ == "__main__":
    from mnemosyne.stores.sql import schema

    place = Path(sys.argv[1]).resolve()
    prompts = {
        "sqlite": anyio.run(record, f"sqlite:///{place / 'store.db'}", place),
        "file": anyio.run(record, f"file:{place / 'files'}", place),
    }
    (place / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n", encoding="utf-8")
    tables = ";\n".join(schema.statements("postgresql"))
    (place / "postgres.sql").write_text(f"{tables};\n", encoding="utf-8")
