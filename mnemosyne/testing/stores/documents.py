"""Tests a Store with session documents (a session as one document, next to its tree of turns; rule 9 of the Store protocol)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mnemosyne.core.errors import (
    BranchNotFoundError,
    SchemaValidationError,
    SessionNotFoundError,
    TurnNotFoundError,
    VersionConflictError,
)
from mnemosyne.protocols import Store
from mnemosyne.schema.document import (
    Meta,
    Summary,
    TaskState,
    TodoList,
)
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import PathSummary, SessionStart, TurnCommit
from mnemosyne.schema.session import Message, Ref, Role, TurnStatus
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    StoreTests,
    block,
    document_of,
    evidence,
    full_document,
    gold_commit,
    imported_turn,
    memory,
    play,
    prepared_turn,
    read_everything,
    reply_message,
    start,
    user_message,
)


def summary_of(turn_id: str, content: str) -> PathSummary:
    """Return a rolling summary of the path to the turn `turn_id`."""
    return PathSummary(turn_id=turn_id, branch_id="", depth=0, summary=Summary(content=content, updated_at=AT))


async def branch_texts(store: Store, branch_id: str | None = None) -> list[str]:
    """Return the texts on the path to the head (the end) of a branch."""
    window = await store.window(SESSION, message_limit=1000, branch_id=branch_id)
    return [placed.message.content for placed in window.messages]


class StoreDocuments(StoreTests):
    """Tests documents that are written and read, appended messages, summaries and late entries."""

    async def test_rule_9_a_played_session_reads_as_a_document(self, tmp_path: Path) -> None:
        """A document has the messages on the path to the head and those of the pending turn, in order, whatever the
        kinds of turns.
        """
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            await play(store, "t1", 5)
            head = await store.head(SESSION)
            await store.save_prepared(prepared_turn(head, "t2", "not yet"), expected_version=head.version)
            document = await store.get_session(SESSION)
            assert document is not None
            window = await store.window(SESSION, message_limit=99)
            assert window.pending is not None
            said = tuple(placed.message for placed in window.messages)
            assert document.session.messages == (*said, *window.pending.messages)
            assert document.session.session_id == SESSION
            assert document.meta == Meta(locale="en", created_at=AT)
            await store.fork(SESSION, "p001", "side")
            await play(store, "t3", text="aside")
            side = await store.get_session(SESSION)
            assert side is not None
            assert [each.content for each in side.session.messages] == ["ask p001", "tell p001", "aside", "reply t3"]
            assert await store.get_session(SESSION, branch_id="main") == document
            assert await store.get_session("nobody") is None
            with pytest.raises(BranchNotFoundError):
                await store.get_session(SESSION, branch_id="nowhere")

    async def test_rule_9_a_waiting_message_keeps_its_time(self, tmp_path: Path) -> None:
        """The message of a pending turn has the same time in the document before and after its reply, and none if it
        was given none, whatever the time of its turn.
        """
        async with self.open_session(tmp_path) as store:
            for turn_id, at in (("t1", AT + timedelta(minutes=1)), ("t2", None)):
                head = await store.head(SESSION)
                said = (user_message("not yet", at=at),)
                record = prepared_turn(head, turn_id, messages=said, created_at=at)
                head = await store.save_prepared(record, expected_version=head.version)
                waiting = await store.get_session(SESSION)
                assert waiting is not None
                assert waiting.session.messages[-1].at == at
                # A document that is written back as it was read changes nothing.
                written = await store.put_session(SESSION, waiting, expected_version=head.version)
                commit = TurnCommit(turn_id=turn_id, messages=(reply_message("now"),))
                await store.commit_turn(SESSION, commit, expected_version=written.version)
                done = await store.get_session(SESSION)
                assert done is not None
                assert done.session.messages[-2] == waiting.session.messages[-1]

    async def test_rule_9_a_document_reads_as_a_session(self, tmp_path: Path) -> None:
        """A written document is read back unchanged, every part in its order. Its messages form a turn like any other."""
        async with self.open_empty(tmp_path) as store:
            given = full_document()
            done = await store.put_session(SESSION, given)
            assert (done.version, done.success, done.error) == (1, True, None)
            assert await store.get_session(SESSION) == given
            window = await store.window(SESSION, message_limit=9)
            assert [placed.message for placed in window.messages] == list(given.session.messages)
            assert (window.head.depth, window.head.branch_id, window.head.version) == (1, "main", 1)
            assert (window.head.world_id, window.state) == ("", {})
            assert window.summary is not None
            assert window.summary.summary == given.session.summary
            assert await store.list_evidences(SESSION) == tuple(given.evidences.values())
            assert await store.list_context_blocks(SESSION) == given.context_blocks
            found = await store.entries_after(SCOPE, Chain.HISTORY, 0, 9)
            assert [each.entry.text for each in found] == [each.content for each in given.session.messages]
            await play(store, "t1", None)
            grown = await store.get_session(SESSION)
            assert grown is not None
            assert grown.session.messages[:2] == given.session.messages
            assert replace(grown, session=replace(grown.session, messages=given.session.messages)) == given

    async def test_a_window_has_the_meta_of_the_document_and_a_document_the_version(self, tmp_path: Path) -> None:
        """A window has the facts of the document that a turn needs (locale, user), so that the whole need not be
        read.

        A write of a document can state the version that it expects.
        """
        async with self.open_session(tmp_path) as store:
            assert (await store.window(SESSION, message_limit=1)).meta is None
            await store.append_messages(SESSION, (Message(role=Role.USER, content="hello"),))
            meta = {"locale": "zh-CN", "actor": {"user_id": "u1"}}
            done = await store.patch_session(SESSION, {"meta": meta})
            found = (await store.window(SESSION, message_limit=1)).meta
            assert found is not None
            assert found.actor is not None
            assert (found.locale, found.actor.user_id) == ("zh-CN", "u1")
            document = await store.get_session(SESSION)
            assert document is not None
            assert document.version == done.version
            assert (
                await store.put_session(SESSION, document, expected_version=document.version)
            ).version > done.version
            with pytest.raises(VersionConflictError):
                await store.put_session(SESSION, document, expected_version=document.version)

    async def test_a_document_that_goes_on_is_one_more_turn(self, tmp_path: Path) -> None:
        """Writing the same document again adds no turn. New messages at its end are one turn. A message may lack an id."""
        async with self.open_empty(tmp_path) as store:
            await store.put_session(SESSION, document_of(user_message("a"), reply_message("b")), expected_version=0)
            first = await store.head(SESSION)
            await store.put_session(SESSION, document_of(user_message("a"), reply_message("b")))
            again = await store.head(SESSION)
            assert (again.turn_id, again.depth, again.branch_id) == (first.turn_id, 1, "main")
            await store.put_session(
                SESSION,
                document_of(
                    user_message("a"),
                    reply_message("b"),
                    user_message("c"),
                    reply_message("d"),
                    user_message("e"),
                ),
            )
            assert await branch_texts(store) == ["a", "b", "c", "d", "e"]
            assert (await store.head(SESSION)).depth == 2
            assert len(await store.branches(SESSION)) == 1

    async def test_a_document_that_tells_it_otherwise_is_a_branch(self, tmp_path: Path) -> None:
        """A document with other messages becomes a branch from the last complete turn that both share, and no message
        is lost.
        """
        async with self.open_session(
            tmp_path, imported_turn("p001"), imported_turn("p002"), imported_turn("p003")
        ) as store:
            await store.put_session(
                SESSION,
                document_of(
                    user_message("ask p001"),
                    reply_message("tell p001"),
                    user_message("ask p002"),
                    reply_message("no"),
                ),
            )
            head = await store.head(SESSION)
            assert head.branch_id != "main"
            assert await branch_texts(store) == ["ask p001", "tell p001", "ask p002", "no"]
            assert len(await branch_texts(store, "main")) == 6
            assert head.lineage[1].branch_id == "main"
            assert head.lineage[1].upto_depth == 1
            await store.put_session(SESSION, document_of(user_message("ask p001"), reply_message("tell p001")))
            assert await branch_texts(store) == ["ask p001", "tell p001"]
            await store.put_session(SESSION, document_of())
            assert await branch_texts(store) == []
            assert len(await store.branches(SESSION)) == 4
            assert len(await branch_texts(store, "main")) == 6

    async def test_a_document_replaces_all_but_messages(self, tmp_path: Path) -> None:
        """Items that a written document does not have are removed, and all others are in the document's order."""
        async with self.open_empty(tmp_path) as store:
            given = full_document()
            await store.put_session(SESSION, given)
            turned = replace(
                given,
                meta=None,
                session=replace(
                    given.session,
                    summary=None,
                    task_state=TaskState(todo_list=TodoList(tasks=given.session.task_state.todo_list.tasks[::-1])),
                    tool_state=None,
                    model_usage=None,
                ),
                evidences={"e1": given.evidences["e1"], "e3": evidence("e3"), "e2": given.evidences["e2"]},
                context_blocks=(),
                extra={},
            )
            await store.put_session(SESSION, turned)
            assert await store.get_session(SESSION) == turned
            assert (await store.window(SESSION, message_limit=0)).summary is None
            assert (await store.head(SESSION)).branch_id == "main"

    async def test_a_document_takes_the_place_of_a_pending_turn(self, tmp_path: Path) -> None:
        """A written document abandons the pending turn, unless the document has the same messages as that turn."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            head = await store.head(SESSION)
            await store.save_prepared(prepared_turn(head, "t1"), expected_version=head.version)
            shown = await store.get_session(SESSION)
            assert shown is not None
            await store.put_session(SESSION, replace(shown, meta=Meta(locale="zh")))
            assert (await store.turn(SESSION, "t1")).status is TurnStatus.PREPARED
            await store.put_session(
                SESSION, document_of(user_message("ask p001"), reply_message("tell p001"), user_message("else"))
            )
            assert (await store.turn(SESSION, "t1")).status is TurnStatus.ABANDONED
            assert (await store.window(SESSION, message_limit=0)).pending is None

    async def test_refs_that_lead_nowhere_are_refused(self, tmp_path: Path) -> None:
        """No write stores a ref that the check of a document refuses. Remote refs are not checked."""
        nowhere, remote = Ref(evidence_id="e9"), Ref(evidence_id="e9", remote=True)
        async with self.open_session(tmp_path) as store:
            await store.put_evidence(SESSION, evidence("e1"))
            head = await store.save_prepared(prepared_turn(await store.head(SESSION), "t1"), expected_version=2)
            bad = user_message("see", Role.ASSISTANT, refs=(nowhere,))
            before = await read_everything(store)
            for write in (
                store.append_messages(SESSION, (bad,)),
                store.append_turns(SESSION, (replace(imported_turn("p1"), messages=(bad,)),)),
                store.commit_turn(SESSION, TurnCommit(turn_id="t1", messages=(bad,)), expected_version=head.version),
                store.put_context_blocks(SESSION, (block("k", refs=(nowhere,)),)),
                store.put_session(SESSION, document_of(bad)),
            ):
                with pytest.raises(SchemaValidationError, match="no evidence has the id 'e9'"):
                    await write
            assert await read_everything(store) == before
            refs = (Ref(evidence_id="e1"), remote)
            await store.append_messages(SESSION, (replace(bad, refs=refs),))
            await store.put_context_blocks(SESSION, (block("k", refs=refs),))

    async def test_documents_that_cannot_be_written_change_nothing(self, tmp_path: Path) -> None:
        """Nothing changes for a document of another session, doubled ids, a stale version or a bad patch (rules 2 and 3)."""
        async with self.open_empty(tmp_path) as store:
            with pytest.raises(VersionConflictError) as caught:
                await store.put_session(SESSION, full_document(), expected_version=3)
            assert (caught.value.expected, caught.value.found) == (3, 0)
            with pytest.raises(SchemaValidationError):
                await store.put_session(SESSION, full_document("s9"))
            assert await store.sessions() == ()
            version = (await store.put_session(SESSION, full_document())).version
            before = await read_everything(store)
            twice = replace(full_document(), context_blocks=(block("k"), block("k")))
            with pytest.raises(SchemaValidationError, match="k"):
                await store.put_session(SESSION, twice)
            wrong_key = replace(full_document(), evidences={"other": evidence("e1")})
            with pytest.raises(SchemaValidationError):
                await store.put_session(SESSION, wrong_key)
            with pytest.raises(VersionConflictError):
                await store.put_session(SESSION, document_of(), expected_version=version - 1)
            with pytest.raises(VersionConflictError):
                await store.patch_session(SESSION, {"meta": None}, expected_version=version - 1)
            with pytest.raises(SchemaValidationError):
                await store.patch_session(SESSION, {"session": {"messages": "none"}})
            with pytest.raises(SchemaValidationError):
                await store.patch_session(SESSION, {"session": {"session_id": "s9"}})
            with pytest.raises(SessionNotFoundError):
                await store.patch_session("nobody", {})
            assert await read_everything(store) == before

    async def test_metadata_of_a_start_is_in_window_and_document(self, tmp_path: Path) -> None:
        """A session that starts with metadata has it in its window at once. Its locale is still that of its world."""
        async with self.open_empty(tmp_path) as store:
            start = SessionStart(
                session_id=SESSION, world_id="w", locale="zh", state={}, at=AT, extra={"profile": "coding"}
            )
            await store.create_session(start)
            window = await store.window(SESSION, message_limit=1)
            assert window.meta is not None
            assert (window.meta.locale, dict(window.meta.extra)) == ("", {"profile": "coding"})
            found = await store.get_session(SESSION)
            assert found is not None
            assert found.meta is not None
            assert (found.meta.locale, found.meta.created_at, found.meta.extra) == ("zh", AT, {"profile": "coding"})

    async def test_a_merge_patch_changes_what_it_names(self, tmp_path: Path) -> None:
        """A patch follows RFC 7386 with JSON names: objects are merged, null removes a field, and lists are replaced."""
        async with self.open_empty(tmp_path) as store:
            given = full_document()
            version = (await store.put_session(SESSION, given)).version
            patch = {
                "meta": {"locale": "en", "actor": None},
                "evidences": {"e1": None},
                "context_blocks": [],
                "season": "winter",
            }
            done = await store.patch_session(SESSION, patch, expected_version=version)
            assert done.version == (await store.head(SESSION)).version > version
            found = await store.get_session(SESSION)
            assert found is not None
            assert found.meta is not None
            assert (found.meta.locale, found.meta.actor, found.meta.created_at) == ("en", None, AT)
            assert (list(found.evidences), found.context_blocks) == (["e2"], ())
            assert found.extra == {**given.extra, "season": "winter"}
            assert found.session == given.session
            messages = [{"role": "user", "content": "only this", "at": AT.isoformat()}]
            await store.patch_session(SESSION, {"session": {"messages": messages}})
            assert await branch_texts(store) == ["only this"]
            assert await branch_texts(store, "main") == [each.content for each in given.session.messages]

    async def test_appended_messages_are_a_turn(self, tmp_path: Path) -> None:
        """Each call without a key appends a new turn. A stale version is refused, and a call without messages adds no turn."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            version = (await store.head(SESSION)).version
            one = await store.append_messages(
                SESSION, (user_message("a"), reply_message("b")), expected_version=version
            )
            two = await store.append_messages(SESSION, (user_message("a"), reply_message("b")))
            assert version < one.version < two.version == (await store.head(SESSION)).version
            assert (await store.append_messages(SESSION, ())).version == two.version
            assert await branch_texts(store) == ["ask p001", "tell p001", "a", "b", "a", "b"]
            assert [each.depth for each in await store.turns(SESSION, limit=9)] == [1, 2, 3]
            before = await read_everything(store)
            with pytest.raises(VersionConflictError):
                await store.append_messages(SESSION, (user_message("c"),), expected_version=version)
            with pytest.raises(SessionNotFoundError):
                await store.append_messages("nobody", (user_message("c"),))
            assert await read_everything(store) == before

    async def test_rule_4_messages_under_one_key_are_written_once(self, tmp_path: Path) -> None:
        """Messages with a known key are not written again, not even with a stale version or on another branch.

        Messages with another key are another turn.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            version = (await store.head(SESSION)).version
            one = await store.append_messages(
                SESSION, (user_message("a"),), idempotency_key="k1", expected_version=version
            )
            again = await store.append_messages(
                SESSION, (user_message("a"),), idempotency_key="k1", expected_version=version
            )
            assert again.version == one.version
            assert await branch_texts(store) == ["ask p001", "tell p001", "a"]
            await store.append_messages(SESSION, (user_message("b"),), idempotency_key="钥匙 \ud800")
            await store.append_messages(SESSION, (user_message("b"),), idempotency_key="钥匙 \ud800")
            await store.fork(SESSION, "p001", "side")
            await store.append_messages(SESSION, (user_message("a"),), idempotency_key="k1")
            assert await branch_texts(store) == ["ask p001", "tell p001"]
            assert await branch_texts(store, "main") == ["ask p001", "tell p001", "a", "b"]

    async def test_summaries_follow_the_path(self, tmp_path: Path) -> None:
        """On each branch the newest summary on the path counts, together with its turn.

        Its writing does not change the version.
        """
        async with self.open_session(tmp_path, imported_turn("p1"), imported_turn("p2"), imported_turn("p3")) as store:
            version = (await store.head(SESSION)).version
            assert (await store.window(SESSION, message_limit=0)).summary is None
            await store.save_summary(SESSION, summary_of("p3", "three"))
            await store.save_summary(SESSION, summary_of("p1", "one"))
            found = (await store.window(SESSION, message_limit=0)).summary
            assert found == replace(summary_of("p3", "three"), branch_id="main", depth=3)
            await store.save_summary(SESSION, summary_of("p3", "better"))
            assert (await store.head(SESSION)).version == version
            document = await store.get_session(SESSION)
            assert document is not None
            assert document.session.summary == summary_of("", "better").summary
            await store.fork(SESSION, "p2", "side")
            found = (await store.window(SESSION, message_limit=0)).summary
            assert found is not None
            assert (found.summary.content, found.turn_id) == ("one", "p1")
            await store.fork(SESSION, None, "fresh")
            assert (await store.window(SESSION, message_limit=0)).summary is None
            for turn_id in ("nothing", "t9"):
                with pytest.raises(TurnNotFoundError):
                    await store.save_summary(SESSION, summary_of(turn_id, "x"))

    async def test_leftovers_can_be_copied(self, tmp_path: Path) -> None:
        """Abandoned turns and all summaries can be read and written unchanged. This does not change the version."""
        turns = (imported_turn("p1"), imported_turn("p2"))
        async with self.open_session(tmp_path, *turns) as store:
            head = await store.save_prepared(prepared_turn(await store.head(SESSION), "gone"), expected_version=1)
            await store.save_prepared(prepared_turn(head, "waits"), expected_version=head.version)
            for summary in (summary_of("p1", "one"), summary_of("p2", "two")):
                await store.save_summary(SESSION, summary)
            aside = await store.hidden_records(SESSION)
            assert aside.abandoned == (await store.turn(SESSION, "gone"),)
            assert aside.abandoned[0].status is TurnStatus.ABANDONED
            assert [each.summary.content for each in aside.summaries] == ["one", "two"]
            copy = await store.create_session(start(*turns, session_id="copy"))
            for _ in range(2):
                await store.save_hidden_records("copy", replace(aside, unsummed=("p2",), summaries=aside.summaries[:1]))
            assert await store.head("copy") == copy
            document_of = await store.hidden_records("copy")
            assert [replace(each, session_id=SESSION) for each in document_of.abandoned] == list(aside.abandoned)
            assert (document_of.summaries, document_of.unsummed) == (aside.summaries[:1], ("p2",))
            window = await store.window("copy", message_limit=0)
            assert (window.summary, window.pending) == (None, None)
            for wrong in (
                replace(aside, unsummed=("t9",)),
                replace(aside, abandoned=(replace(aside.abandoned[0], turn_id="t8", branch_id="nowhere"),)),
            ):
                with pytest.raises((TurnNotFoundError, BranchNotFoundError)):
                    await store.save_hidden_records("copy", wrong)
            assert await store.hidden_records("copy") == document_of

    async def test_passages_of_documents_belong_to_the_whole_session(self, tmp_path: Path) -> None:
        """Passages need no turn and are on the path of every branch.

        They are replaced by id, and a blank passage is removed.
        """

        def passage(number: int, text: str) -> MemoryEntry:
            about = {"document_id": "doc", "section_id": f"chars:{number}-{number + 9}"}
            return MemoryEntry(
                entry_id=f"doc#{number}", scope=SCOPE, chain=Chain.LORE, kind="document", text=text, metadata=about
            )

        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            head = await store.head(SESSION)
            pages = (passage(0, "The ferry leaves at dawn."), passage(1, "The pier is the ninth."))
            assert await store.append_entries(SESSION, pages) == 2
            assert await store.append_entries(SESSION, pages) == 0
            assert await store.head(SESSION) == head
            await store.fork(SESSION, "p001", "other")
            found = await store.entries(SCOPE, ["doc#0", "doc#1"])
            assert [(each.branch_id, each.depth, each.turn_id) for each in found] == [("main", 0, None)] * 2
            seen = (await store.entries_after(SCOPE, Chain.LORE, 0, 9))[-1].sequence
            assert await store.append_entries(SESSION, (passage(0, "The ferry leaves at noon."), passage(1, ""))) == 0
            assert [each.text for each in await store.entries(SCOPE, ["doc#0", "doc#1"])] == [
                "The ferry leaves at noon."
            ]
            late = await store.entries_after(SCOPE, Chain.LORE, seen, 9)
            assert [(each.entry.entry_id, each.deleted) for each in late] == [("doc#0", False), ("doc#1", True)]
            assert await store.append_entries(SESSION, (passage(1, "The pier is the tenth."),)) == 1
            await store.put_evidence(
                SESSION,
                Evidence(
                    evidence_id="doc",
                    type=EvidenceType.RAG_DOC,
                    source=EvidenceSource(kind=SourceKind.RAG, name="ferry.md", uri="file:ferry.md"),
                    content="The ferry leaves at noon. The pier is the tenth.",
                ),
            )
            done = await store.erase(Erasure(session_id=SESSION, evidence_ids=("doc",), at=AT, reason="asked to"))
            assert set(done.entry_ids[SCOPE]) >= {"doc#0", "doc#1"}
            assert await store.entries(SCOPE, ["doc#0", "doc#1"]) == ()
            assert await store.find_text(["The pier is the tenth."]) == ()
            with pytest.raises(ValueError, match="names no turn"):
                await store.append_entries(SESSION, (replace(passage(2, "x"), kind="encyclopedia"),))

    async def test_entries_made_late_take_the_place_of_their_turn(self, tmp_path: Path) -> None:
        """A late entry is placed at its turn and found once, after the entries written before it.

        The version does not change.
        """
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            await store.append_turns(SESSION, (), (memory("e0"),))
            head = await store.head(SESSION)
            seen = (await store.entries_after(SCOPE, Chain.EVENT, 0, 9))[-1].sequence
            late = (memory("e1", turn_id="p001"), memory("e2", turn_id="p002", at=AT + timedelta(hours=1)))
            assert await store.append_entries(SESSION, late) == 2
            assert await store.append_entries(SESSION, (*late, memory("e3", turn_id="p002"))) == 1
            assert await store.head(SESSION) == head
            found = await store.entries_after(SCOPE, Chain.EVENT, seen, 9)
            assert [(each.entry.entry_id, each.entry.branch_id, each.entry.depth) for each in found] == [
                ("e1", "main", 1),
                ("e2", "main", 2),
                ("e3", "main", 2),
            ]
            head = await store.save_prepared(prepared_turn(head, "t1"), expected_version=head.version)
            before = await read_everything(store)
            for turn_id in ("t1", "nothing"):
                with pytest.raises(TurnNotFoundError):
                    await store.append_entries(SESSION, (memory("e4", turn_id="p001"), memory("e5", turn_id=turn_id)))
            with pytest.raises(SessionNotFoundError):
                await store.append_entries("nobody", ())
            assert await read_everything(store) == before
            await store.commit_turn(SESSION, gold_commit("t1", 1), expected_version=head.version)
            assert await store.append_entries(SESSION, (memory("e5", turn_id="t1"),)) == 1
