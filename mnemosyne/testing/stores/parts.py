"""Tests the lists of a session in a Store: evidence, blocks, tool calls, model calls and tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from mnemosyne.core.errors import SessionNotFoundError, VersionConflictError
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage, Task, TaskStatus, ToolCall, ToolCallStatus
from mnemosyne.schema.evidence import BlockType, EvidenceSource, EvidenceType, Priority, SourceKind
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import WINDOW_USAGES
from mnemosyne.testing.stores.samples import (
    AT,
    MEMORY_SOURCE,
    SESSION,
    StoreTests,
    block,
    document_of,
    evidence,
    imported_turn,
    prepared_turn,
    read_everything,
)

_USER = EvidenceSource(kind=SourceKind.USER, name="lin", uri="msg://1")
_TOOL = EvidenceSource(kind=SourceKind.TOOL, name="dig", uri="tool://dig")


async def evidence_ids(store: Store, where: EvidenceFilter | None = None) -> list[str]:
    """Return the ids of the evidence items that pass the filter `where`."""
    return [each.evidence_id for each in await store.list_evidences(SESSION, where)]


async def block_ids(store: Store, where: BlockFilter | None = None) -> list[str]:
    """Return the ids of the blocks that pass the filter `where`."""
    return [each.block_id for each in await store.list_context_blocks(SESSION, where)]


class StoreParts(StoreTests):
    """Tests that each list keeps its order, is filtered as requested, and counts the new items."""

    async def test_evidence_is_kept_by_its_id(self, tmp_path: Path) -> None:
        """An item that is written again keeps its place. Writing an unchanged item is not a write. Unknown ids give None."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            version = (await store.head(SESSION)).version
            first, second = evidence("e1", "a <rope>", created_at=AT), evidence("e2")
            assert await store.put_evidence(SESSION, first) == "e1"
            assert await store.put_evidence(SESSION, second) == "e2"
            assert (await store.head(SESSION)).version == version + 2
            assert await store.put_evidence(SESSION, first) == "e1"
            assert (await store.head(SESSION)).version == version + 2
            changed = replace(first, content="a longer rope", metadata={"n": [1, None, "绳"]}, confidence=0.25)
            await store.put_evidence(SESSION, changed)
            assert await store.get_evidence(SESSION, "e1") == changed
            assert await store.list_evidences(SESSION) == (changed, second)
            assert (await store.head(SESSION)).version == version + 3
            assert await store.get_evidence(SESSION, "nothing") is None
            for work in (store.get_evidence("nobody", "e1"), store.list_evidences("nobody")):
                with pytest.raises(SessionNotFoundError):
                    await work
            with pytest.raises(SessionNotFoundError):
                await store.put_evidence("nobody", first)

    async def test_evidence_is_found_by_source_and_content(self, tmp_path: Path) -> None:
        """The oldest item with the same source and content is found. A changed item is found by its new content."""
        async with self.open_session(tmp_path) as store:
            alike = [evidence(name, source=_TOOL, content_hash="h1") for name in ("e1", "e2")]
            for each in (*alike, evidence("e3", source=_TOOL, content_hash="h2"), evidence("e4", content_hash="h1")):
                await store.put_evidence(SESSION, each)
            assert await store.find_evidence(SESSION, uri="tool://dig", content_hash="h1") == alike[0]
            await store.put_evidence(SESSION, replace(alike[0], content_hash="h3"))
            assert await store.find_evidence(SESSION, uri="tool://dig", content_hash="h1") == alike[1]
            found = await store.find_evidence(SESSION, uri="tool://dig", content_hash="h3")
            assert found is not None
            assert found.evidence_id == "e1"
            assert await store.find_evidence(SESSION, uri="tool://dig", content_hash="h9") is None
            assert await store.find_evidence(SESSION, uri="tool://other", content_hash="h1") is None
            with pytest.raises(SessionNotFoundError):
                await store.find_evidence("nobody", uri="tool://dig", content_hash="h1")

    async def test_evidence_is_filtered(self, tmp_path: Path) -> None:
        """A filter has a type, a source, times (from inclusive, until exclusive) and tags, and an item must pass all
        of them.

        `limit` keeps the oldest items or, with `newest`, the items that were written last.
        """
        async with self.open_session(tmp_path) as store:
            hour = timedelta(hours=1)
            for each in (
                evidence("e1", created_at=AT),
                evidence("e2", type=EvidenceType.TOOL_RESULT, source=_TOOL, created_at=AT + hour),
                evidence("e3", type=EvidenceType.USER_INPUT, source=_USER, metadata={"place": "well"}),
                evidence("e4", created_at=AT + 2 * hour, metadata={"tags": {"place": "well", "who": "Mara"}}),
                evidence("e5", type=EvidenceType.TOOL_RESULT, source=_TOOL, created_at=AT - hour / 3600),
            ):
                await store.put_evidence(SESSION, each)
            for where, expected in (
                (None, ["e1", "e2", "e3", "e4", "e5"]),
                (EvidenceFilter(), ["e1", "e2", "e3", "e4", "e5"]),
                (EvidenceFilter(types=frozenset({EvidenceType.RAG_DOC})), ["e1", "e4"]),
                (EvidenceFilter(types=frozenset()), []),
                (EvidenceFilter(evidence_ids=frozenset({"e4", "e2", "unknown"})), ["e2", "e4"]),
                (EvidenceFilter(evidence_ids=frozenset()), []),
                (EvidenceFilter(source_kinds=frozenset({SourceKind.TOOL, SourceKind.USER})), ["e2", "e3", "e5"]),
                # An item without a time has that of its first writing.
                (EvidenceFilter(since=AT), ["e1", "e2", "e3", "e4"]),
                (EvidenceFilter(since=cast(datetime, AT.isoformat())), ["e1", "e2", "e3", "e4"]),
                (EvidenceFilter(until=AT + 2 * hour), ["e1", "e2", "e5"]),
                (EvidenceFilter(since=AT, until=AT), []),
                (EvidenceFilter(tags={"place": "well"}), ["e3", "e4"]),
                (EvidenceFilter(tags={"place": "well", "who": "Mara"}), ["e4"]),
                (EvidenceFilter(tags={"place": "hill"}), []),
                (EvidenceFilter(limit=2), ["e1", "e2"]),
                (EvidenceFilter(limit=0), []),
                (EvidenceFilter(types=frozenset({EvidenceType.TOOL_RESULT}), since=AT, limit=5), ["e2"]),
                (EvidenceFilter(source_kinds=frozenset({SourceKind.TOOL}), limit=1), ["e2"]),
                (EvidenceFilter(limit=2, newest=True), ["e4", "e5"]),
                (EvidenceFilter(tags={"place": "well"}, limit=1, newest=True), ["e4"]),
            ):
                assert await evidence_ids(store, where) == expected, where

    async def test_evidence_without_a_time_has_that_of_its_first_writing(self, tmp_path: Path) -> None:
        """An item without a time, also one in a document, is filtered by the time of its first writing, which a
        change keeps.

        The item itself stays unchanged.
        """
        async with self.open_session(tmp_path) as store:
            first = evidence("e1")
            await store.put_evidence(SESSION, first)
            await anyio.sleep(0.05)
            between = datetime.now(UTC)
            await anyio.sleep(0.05)
            await store.put_evidence(SESSION, evidence("e2"))
            await store.put_evidence(SESSION, replace(first, content="changed"))
            assert await evidence_ids(store, EvidenceFilter(until=between)) == ["e1"]
            assert await evidence_ids(store, EvidenceFilter(since=between)) == ["e2"]
            document = await store.get_session(SESSION)
            assert document is not None
            assert document.evidences["e2"].created_at is None
            brought = replace(document, evidences={**document.evidences, "e3": evidence("e3")})
            await store.put_session(SESSION, brought)
            assert await evidence_ids(store, EvidenceFilter(until=between)) == ["e1"]
            assert await evidence_ids(store, EvidenceFilter(since=between)) == ["e2", "e3"]

    async def test_memories_can_be_left_out(self, tmp_path: Path) -> None:
        """Memories that turns recalled do not take the places of other evidence, however many there are."""
        async with self.open_session(tmp_path) as store:
            await store.put_evidence(SESSION, evidence("page"))
            await store.put_evidence(SESSION, evidence("m0", source=MEMORY_SOURCE))
            await store.put_evidence(SESSION, evidence("result", type=EvidenceType.TOOL_RESULT, source=_TOOL))
            head = await store.head(SESSION)
            recalled = tuple(evidence(f"m{number}", source=MEMORY_SOURCE) for number in range(1, 6))
            record = prepared_turn(head, "t9", "hello")
            await store.save_prepared(record, expected_version=head.version, evidences=recalled)
            for where, expected in (
                (EvidenceFilter(without_memories=True), ["page", "result"]),
                (EvidenceFilter(without_memories=True, limit=1, newest=True), ["result"]),
                (EvidenceFilter(without_memories=True, limit=2, newest=True), ["page", "result"]),
                (EvidenceFilter(without_memories=True, types=frozenset({EvidenceType.RAG_DOC}), limit=9), ["page"]),
                (EvidenceFilter(limit=2, newest=True), ["m4", "m5"]),
            ):
                assert await evidence_ids(store, where) == expected, where
            await store.put_evidence(SESSION, evidence("m3"))
            await store.put_evidence(SESSION, evidence("page", source=MEMORY_SOURCE))
            assert await evidence_ids(store, EvidenceFilter(without_memories=True)) == ["result", "m3"]

    async def test_blocks_are_kept_and_filtered(self, tmp_path: Path) -> None:
        """Blocks are filtered by type and priority. `min_priority` admits this priority and all higher ones."""
        async with self.open_session(tmp_path) as store:
            version = (await store.head(SESSION)).version
            first = (
                block("k1", priority=Priority.MUST, block_type=BlockType.STATE, content="gold: 3"),
                block("k2", priority=Priority.LOW),
                block("k3", priority=Priority.HIGH),
                block("k4"),
            )
            done = await store.put_context_blocks(SESSION, first, expected_version=version)
            assert done.version == version + 1
            assert (await store.put_context_blocks(SESSION, first)).version == version + 1
            changed = replace(first[1], content="now with words")
            assert (await store.put_context_blocks(SESSION, (block("k5"), changed))).version == version + 2
            assert await store.list_context_blocks(SESSION) == (first[0], changed, *first[2:], block("k5"))
            for where, expected in (
                (BlockFilter(block_types=frozenset({BlockType.STATE})), ["k1"]),
                (BlockFilter(priorities=frozenset({Priority.LOW, Priority.MUST})), ["k1", "k2"]),
                (BlockFilter(min_priority=Priority.HIGH), ["k1", "k3"]),
                (BlockFilter(min_priority=Priority.LOW, limit=2), ["k1", "k2"]),
                (
                    BlockFilter(block_types=frozenset({BlockType.EVIDENCE}), min_priority=Priority.MEDIUM),
                    ["k3", "k4", "k5"],
                ),
                (BlockFilter(priorities=frozenset()), []),
            ):
                assert await block_ids(store, where) == expected, where
            with pytest.raises(SessionNotFoundError):
                await store.list_context_blocks("nobody")

    async def test_calls_and_tasks_are_written_once_by_id(self, tmp_path: Path) -> None:
        """A call that has ended keeps its place, new calls are added at the end, and the document shows them in this order."""
        async with self.open_session(tmp_path) as store:
            version = (await store.head(SESSION)).version
            began = ToolCall(tool_call_id="c1", tool="dig", called_at=AT, status=ToolCallStatus.TIMEOUT)
            await store.append_tool_calls(SESSION, (began, ToolCall(tool_call_id="c2")))
            ended = replace(began, status=ToolCallStatus.SUCCESS, duration_ms=9, result_evidence_ids=("e1",))
            done = await store.append_tool_calls(SESSION, (ToolCall(tool_call_id="c3"), ended))
            assert done.version == version + 2
            assert (await store.append_tool_calls(SESSION, (ended,))).version == version + 2
            assert (await store.append_tool_calls(SESSION, ())).version == version + 2
            usage = ModelUsage(model_usage_id="u1", model="m", params={"t": 0.5}, prompt_tokens=3)
            await store.append_model_usage(SESSION, (usage, ModelUsage(model_usage_id="u0")))
            await store.append_model_usage(SESSION, (replace(usage, completion_tokens=4),))
            await store.upsert_tasks(SESSION, (Task(task_id="b"), Task(task_id="a", depends_on=("b",))))
            await store.upsert_tasks(SESSION, (Task(task_id="b", status=TaskStatus.COMPLETED), Task(task_id="c")))
            document = await store.get_session(SESSION)
            assert document is not None
            session = document.session
            assert session.tool_state is not None
            assert session.tool_state.tool_calls == (ended, ToolCall(tool_call_id="c2"), ToolCall(tool_call_id="c3"))
            assert await store.tool_call(SESSION, "c1") == ended
            assert await store.tool_call(SESSION, "c9") is None
            with pytest.raises(SessionNotFoundError):
                await store.tool_call("nobody", "c1")
            assert session.model_usage == (replace(usage, completion_tokens=4), ModelUsage(model_usage_id="u0"))
            assert [(each.task_id, each.status) for each in session.task_state.todo_list.tasks] == [
                ("b", TaskStatus.COMPLETED),
                ("a", TaskStatus.PENDING),
                ("c", TaskStatus.PENDING),
            ]

    async def test_rule_3_lists_refuse_a_stale_version(self, tmp_path: Path) -> None:
        """Each method that takes a version refuses a stale one, and names an unknown session."""
        async with self.open_session(tmp_path) as store:
            old = (await store.head(SESSION)).version
            await store.put_evidence(SESSION, evidence("e1"))
            before = await read_everything(store)
            for work in (
                store.put_context_blocks(SESSION, (block("k"),), expected_version=old),
                store.append_tool_calls(SESSION, (ToolCall(tool_call_id="c"),), expected_version=old),
                store.append_model_usage(SESSION, (ModelUsage(model_usage_id="u"),), expected_version=old),
                store.upsert_tasks(SESSION, (Task(task_id="t"),), expected_version=old),
            ):
                with pytest.raises(VersionConflictError):
                    await work
            for work in (
                store.put_context_blocks("nobody", (block("k"),)),
                store.append_tool_calls("nobody", (ToolCall(tool_call_id="c"),)),
                store.append_model_usage("nobody", (ModelUsage(model_usage_id="u"),)),
                store.upsert_tasks("nobody", (Task(task_id="t"),)),
            ):
                with pytest.raises(SessionNotFoundError):
                    await work
            assert await read_everything(store) == before

    async def test_lists_belong_to_the_session_not_to_a_branch(self, tmp_path: Path) -> None:
        """The lists are the same after a fork. A document that is written on one branch is visible on the other."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await store.put_evidence(SESSION, evidence("e1"))
            await store.fork(SESSION, None, "side")
            assert await evidence_ids(store) == ["e1"]
            await store.put_session(SESSION, document_of(evidences={"e2": evidence("e2")}))
            main = await store.get_session(SESSION, branch_id="main")
            assert main is not None
            assert list(main.evidences) == ["e2"]
            assert len(main.session.messages) == 2

    async def test_what_a_prompt_holds_is_written_with_its_turn(self, tmp_path: Path) -> None:
        """The evidence items and blocks of a prompt are written together with the turn or not at all.

        The same call again changes nothing.
        """
        async with self.open_session(tmp_path) as store:
            await store.put_evidence(SESSION, evidence("e1", "old"))
            head = await store.head(SESSION)
            record = prepared_turn(head, "t1")
            held: dict[str, Any] = {"evidences": (evidence("e2"), evidence("e1", "new")), "blocks": (block("k1"),)}
            saved = await store.save_prepared(record, expected_version=head.version, **held)
            assert saved.version == head.version + 1
            assert [each.content for each in await store.list_evidences(SESSION)] == ["new", "e2"]
            assert await block_ids(store) == ["k1"]
            before = await read_everything(store)
            assert await store.save_prepared(record, expected_version=head.version, **held) == saved
            with pytest.raises(VersionConflictError):
                await store.save_prepared(
                    prepared_turn(head, "t2"),
                    expected_version=head.version,
                    evidences=(evidence("e3"),),
                    blocks=(block("k2"),),
                )
            assert await read_everything(store) == before
            late = prepared_turn(saved, "n1")
            with pytest.raises(VersionConflictError):
                await store.commit_numerical(late, {}, expected_version=head.version, evidences=(evidence("e4"),))
            await store.commit_numerical(
                late, {}, expected_version=saved.version, evidences=(evidence("e4"),), blocks=(block("k3"),)
            )
            assert await evidence_ids(store) == ["e1", "e2", "e4"]
            assert await block_ids(store) == ["k1", "k3"]

    async def test_a_window_shows_tasks_and_the_newest_model_calls(self, tmp_path: Path) -> None:
        """A window has all tasks in order, and the last few model calls, oldest first."""
        async with self.open_session(tmp_path) as store:
            window = await store.window(SESSION, message_limit=1)
            assert (window.tasks, window.usages) == ((), ())
            tasks = (Task(task_id="b"), Task(task_id="a", status=TaskStatus.FAILED, error="lost"))
            await store.upsert_tasks(SESSION, tasks)
            usages = tuple(ModelUsage(model_usage_id=f"u{n}", total_tokens=n) for n in range(WINDOW_USAGES + 3))
            await store.append_model_usage(SESSION, usages)
            window = await store.window(SESSION, message_limit=1)
            assert window.tasks == tasks
            assert window.usages == usages[3:]
