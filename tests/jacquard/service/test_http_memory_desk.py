"""The memories of a session as a list over HTTP: paged, filtered, with pins and corrections, and changed in bulk."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope
from mnemosyne import Chain, Evidence, EvidenceSource, EvidenceType, MemoryEntry, SourceKind, open_store
from mnemosyne.schema.memory import DOCUMENT_ID, session_scope

pytestmark = pytest.mark.anyio
FACTS = ("The boat key hangs behind the blue clock.", "The ferry leaves at noon.", "船夫的女儿叫阿苇。")


@asynccontextmanager
async def serving(folder, **settings):
    app = build_app(
        ServiceSettings(store=str(folder / "store"), embedder="none", **settings), RuntimeConfig(profile="assistant")
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client


async def remember(client, *texts):
    await client.post("/sessions", json={"session_id": "s"})
    return [(await client.post("/sessions/s/memory", json={"text": each})).json()["edit_id"] for each in texts]


async def say(client, turn_id, text, reply="Aye."):
    await client.post("/sessions/s/turns", json={"message": text, "turn_id": turn_id})
    await client.post("/sessions/s/reply", json={"message": reply, "turn_id": turn_id})


async def browse(client, **query):
    answer = await client.get("/sessions/s/memory", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_memory_is_listed_once_newest_first_and_page_by_page(tmp_path):
    async with serving(tmp_path) as client:
        ids = await remember(client, *FACTS)
        await say(client, "t1", "Hello.")
        await say(client, "t2", "And now?")
        first = await browse(client, limit=2)
        assert [each["memory_id"] for each in first["items"]] == [ids[2], ids[1]]
        assert first["counts"] == {"lore": 3, "history": 4}
        found, cursor = [], ""
        while cursor is not None:
            page = await browse(client, limit=2, cursor=cursor)
            found += page["items"]
            cursor = page["next"]
        assert [each["text"] for each in found] == [*reversed(FACTS), "Aye.", "And now?", "Aye.", "Hello."]
        said = found[-1]
        assert (said["chain"], said["kind"], said["author"], said["turn_id"]) == ("history", "message", "user", "t1")
        assert (said["depth"], said["age_turns"]) == (1, 1)
        assert {each["author"] for each in found[:3]} == {"host"}
        assert all(each["kind"] == "remembered" and each["at"] and each["age_turns"] is None for each in found[:3])


async def test_pins_and_corrections_are_shown_and_can_be_asked_for(tmp_path):
    async with serving(tmp_path) as client:
        ids = await remember(client, *FACTS)
        await client.post(f"/sessions/s/memory/{ids[0]}/pin", json={})
        fixed = (
            await client.request("PATCH", f"/sessions/s/memory/{ids[1]}", json={"text": "It leaves at one."})
        ).json()
        every = {each["memory_id"]: each for each in (await browse(client))["items"]}
        assert [each["pinned"] for each in every.values()] == [False, False, False, True]
        assert every[ids[1]]["superseded_by"] == fixed["edit_id"]
        assert [each["memory_id"] for each in (await browse(client, pinned="true"))["items"]] == [ids[0]]
        assert [each["memory_id"] for each in (await browse(client, superseded="true"))["items"]] == [ids[1]]
        assert len((await browse(client, superseded="false"))["items"]) == 3
        assert [each["memory_id"] for each in (await browse(client, query="阿苇"))["items"]] == [ids[2]]
        await client.post(f"/sessions/s/memory-log/{fixed['edit_id']}/undo", json={})
        assert not (await browse(client, superseded="true"))["items"]


async def test_memories_are_found_by_kind_chain_and_author(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/memory", json={"text": FACTS[0]}, params={"author": "ana"})
        sent = {"content": FACTS[1], "source": {"kind": "tool", "name": "tides.md"}, "evidence_type": "rag_doc"}
        await client.post("/sessions/s/evidence", json={**sent, "options": {"as_document": True}})
        await say(client, "t1", "Hello.")
        for query, wanted in (
            ({"kind": "remembered"}, [FACTS[0]]),
            ({"kind": "document"}, [FACTS[1]]),
            ({"by": "ana"}, [FACTS[0]]),
            ({"by": "tides.md"}, [FACTS[1]]),
            ({"chain": "history", "by": "user"}, ["Hello."]),
            ({"chain": "event"}, []),
        ):
            assert [each["text"] for each in (await browse(client, **query))["items"]] == wanted, query
        for query in ({"chain": "dreams"}, {"cursor": "x"}, {"cursor": "lore.1", "chain": "history"}):
            refused = await client.get("/sessions/s/memory", params=query)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "config"), query
        assert (await client.get("/sessions/none/memory")).status_code == 404


async def test_a_thread_that_was_ended_is_listed_as_such_on_its_branch_only(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/sessions", json={"session_id": "s"})
        await say(
            client, "t1", "What about the lantern, Mira?", 'Mira nods. "I promise to bring you the lantern by dawn."'
        )
        await say(client, "t2", "Good.", 'Mira hands you the lantern. "I have kept my promise: here is the lantern."')
        thread = (await browse(client, kind="thread"))["items"][0]
        assert thread["superseded_by"]
        assert "lantern" in thread["text"]
        assert not (await browse(client, kind="thread", superseded="false"))["items"]
        await client.post("/sessions/s/rollback", json={"turn_id": "t1"})
        assert (await browse(client, kind="thread", superseded="false"))["items"][0]["superseded_by"] == ""


async def test_a_search_names_the_kind_that_the_list_names(tmp_path):
    async with serving(tmp_path) as client:
        await remember(client, *FACTS)
        sent = {
            "content": "Tides turn at six.",
            "source": {"kind": "tool", "name": "tides.md"},
            "evidence_type": "rag_doc",
        }
        await client.post("/sessions/s/evidence", json={**sent, "options": {"as_document": True}})
        found = (await client.post("/sessions/s/memory/search", json={"text": "tides, ferry, key"})).json()
        kinds = {each["memory_id"]: each["kind"] for each in (await browse(client))["items"]}
        assert {each["kind"] for each in found} == {"remembered", "document"}
        assert all(each["kind"] == kinds[each["memory_id"]] for each in found)


async def test_messages_of_another_branch_are_not_listed(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/sessions", json={"session_id": "s"})
        await say(client, "t1", "Hello.", "First reply.")
        await client.post("/sessions/s/swipe", json={})
        await client.post("/sessions/s/reply", json={"message": "Second reply."})
        texts = [each["text"] for each in (await browse(client, by="assistant"))["items"]]
        assert texts == ["Second reply."]
        texts = [each["text"] for each in (await browse(client, by="assistant", branch="main"))["items"]]
        assert texts == ["First reply."]


async def test_a_viewer_sees_only_what_it_may_know(tmp_path):
    headers = {}
    async with using_records(str(tmp_path / "store")) as records:
        for viewer in ("elara", "tom", None):
            token, _ = await records.tokens.create("north", Scope.PLAY, viewer=viewer)
            headers[viewer] = {"Authorization": f"Bearer {token}"}
    async with serving(tmp_path, tenants=True) as client:
        await client.post("/sessions", json={"session_id": "s"}, headers=headers[None])
        made = await client.post("/sessions/s/memory", json={"text": FACTS[0]}, headers=headers["elara"])
        seen = {name: (await client.get("/sessions/s/memory", headers=each)).json() for name, each in headers.items()}
        assert [len(each["items"]) for each in seen.values()] == [1, 0, 1]
        assert [bool(each["counts"]) for each in seen.values()] == [False, False, True]
        body = {"action": "forget", "memory_ids": [made.json()["edit_id"]]}
        refused = await client.post("/sessions/s/memory/bulk", json=body, headers=headers["tom"])
        assert (refused.status_code, FACTS[0] in refused.text) == (422, False)
        assert (await client.get("/sessions/s/memory", headers=headers[None])).json()["items"][0]["viewers"] == [
            "elara"
        ]


async def test_many_memories_are_changed_at_once_or_not_at_all(tmp_path):
    async with serving(tmp_path) as client:
        ids = await remember(client, *FACTS)
        await say(client, "t1", "Hello.")
        for action, names, fault in (
            ("forget", [ids[0], "t1.u"], "was made of turns"),
            ("pin", [ids[0], "nothing"], "no memory 'nothing'"),
            ("unpin", [ids[0]], "is not pinned"),
            ("pin", [], "memory_ids is empty"),
        ):
            refused = await client.post("/sessions/s/memory/bulk", json={"action": action, "memory_ids": names})
            assert refused.status_code == 422
            assert fault in refused.json()["error"]["message"]
        dry = {"action": "forget", "memory_ids": ids[:2], "dry_run": True}
        told = (await client.post("/sessions/s/memory/bulk", json=dry)).json()
        assert [each["text"] for each in told["memories"]] == [*FACTS[:2]]
        assert len((await client.get("/sessions/s/memory-log")).json()) == 3
        await client.post("/sessions/s/memory/bulk", json={"action": "pin", "memory_ids": ids})
        assert len((await browse(client, pinned="true"))["items"]) == 3
        await client.post("/sessions/s/memory/bulk", json={"action": "unpin", "memory_ids": ids[1:]})
        assert [each["text"] for each in (await browse(client, pinned="true"))["items"]] == [FACTS[0]]
        done = await client.post("/sessions/s/memory/bulk", json={**dry, "dry_run": False, "reason": "asked"})
        assert (done.status_code, done.json()["dry_run"]) == (200, False)
        assert [each["text"] for each in (await browse(client, chain="lore"))["items"]] == [FACTS[2]]


async def test_the_turns_that_used_a_memory_are_listed(tmp_path):
    async with serving(tmp_path) as client:
        ids = await remember(client, *FACTS[:2])
        await say(client, "t1", "Where does the boat key hang?")
        await client.post(f"/sessions/s/memory/{ids[1]}/pin", json={})
        await say(client, "t2", "Where is the boat key, behind the clock?")
        uses = [(await client.get(f"/sessions/s/memory/{each}/uses")).json() for each in ids]
        assert [[(use["turn_id"], use["how"]) for use in each["items"]] for each in uses] == [
            [("t2", "recalled"), ("t1", "recalled")],
            [("t2", "pinned")],
        ]
        older = await client.get(f"/sessions/s/memory/{ids[0]}/uses", params={"before": 2})
        assert [use["turn_id"] for use in older.json()["items"]] == ["t1"]
        assert (await client.get("/sessions/s/memory/nothing/uses")).status_code == 404


async def test_a_page_of_a_hundred_thousand_memories_takes_little_time(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/sessions", json={"session_id": "s"})
    count, scope = 100_000, session_scope("s")
    store = open_store(str(tmp_path / "store"))
    evidence = Evidence(
        evidence_id="book",
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG, name="book"),
        content="A book.",
        metadata={"document": True},
    )
    await store.put_evidence("s", evidence)
    entries = [
        MemoryEntry(
            entry_id=f"book#{number}" if number else "book#0",
            scope=scope,
            chain=Chain.LORE,
            kind="document",
            text=f"Passage {number} of a long book about ferries.",
            metadata={DOCUMENT_ID: "book"},
        )
        for number in range(count)
    ]
    for at in range(0, count, 10_000):
        await store.append_entries("s", tuple(entries[at : at + 10_000]))
    await store.close()
    async with serving(tmp_path) as client:
        began, pages, cursor = time.process_time(), 0, ""
        while cursor is not None:
            page = await browse(client, cursor=cursor)
            cursor, pages = page["next"], pages + 1
        assert (time.process_time() - began) / pages < 0.3
        assert pages > count / 3_000
