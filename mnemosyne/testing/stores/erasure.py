"""Tests erasure in a Store: what is deleted, what stays, and what the audit record contains."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.privacy.scrub import subject_of
from mnemosyne.protocols import Store
from mnemosyne.schema.document import Actor, Meta, Summary, Task, ToolCall
from mnemosyne.schema.erasure import ERASED, Erasure, StoredRow
from mnemosyne.schema.memory import CONTINUED_IN, COPIED_FROM, Chain, session_scope
from mnemosyne.schema.record import ImportedTurn, PathSummary, Prefetch, TurnCommit
from mnemosyne.schema.session import Author, AuthorKind, Message, Ref, Role
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    WORLD_SCOPE,
    StoreTests,
    block,
    document_of,
    evidence,
    imported_turn,
    lore,
    memory,
    prepared_turn,
    read_everything,
    reply_message,
    start,
    user_message,
)

SECRET = "my brother hides in the mill at Harrowgate"
OTHER = "the ferryman takes three coins for the crossing"
CHINESE = "我哥哥藏在河边的旧磨坊里"


def message_by(user_id: str, text: str, **fields: Any) -> Message:
    """Return a message that the user `user_id` wrote."""
    return user_message(text, author=Author(kind=AuthorKind.USER, id=user_id), **fields)


async def fill_session(store: Store) -> None:
    """Fill the session with two users, a played turn whose records quote them, evidence, blocks, a summary and a fork."""
    turn = ImportedTurn(turn_id="p001", messages=(message_by("lin", SECRET, at=AT), reply_message("I see.")))
    other = ImportedTurn(turn_id="p002", messages=(message_by("kai", OTHER), reply_message("Three, then.")))
    chinese = ImportedTurn(turn_id="p003", messages=(message_by("lin", CHINESE), reply_message("原来如此。")))
    await store.append_turns(
        SESSION, (turn, other, chinese), (memory("e1", turn_id="p001", text=f"Lin said: {SECRET}"),)
    )
    await store.append_turns(SESSION, (), (memory("e2", turn_id="p002", text=OTHER),))
    head = await store.head(SESSION)
    record = prepared_turn(
        head,
        "t1",
        messages=(message_by("lin", "wait"),),
        plan={"goal": f"find out whether {SECRET}"},
        receipt={"kept": [{"preview": f"{SECRET[:30]}…", "who": "lin"}], "other": OTHER},
        prompt={"text": f"<user>{SECRET}</user><user>{OTHER}</user>{CHINESE}"},
    )
    head = await store.save_prepared(record, expected_version=head.version)
    op = {"op": "add", "path": "/hero/note", "value": f"note: {SECRET}"}
    commit = TurnCommit(
        turn_id="t1",
        messages=(reply_message(f"So {SECRET}, you say; {OTHER}."),),
        ops=(op,),
        state={"hero": {"gold": 0, "note": f"note: {SECRET}"}},
        report={"said": SECRET},
    )
    head = await store.commit_turn(SESSION, commit, expected_version=head.version)
    await store.save_prefetch(
        SESSION,
        Prefetch(turn_id="t1", branch_id="main", depth=4, focus_quest_id=None, keywords=(), value={"found": SECRET}),
    )
    summary = Summary(content=f"Lin says {SECRET}. Kai says {OTHER}.", updated_at=AT)
    await store.save_summary(SESSION, PathSummary(turn_id="t1", branch_id="main", depth=4, summary=summary))
    await store.put_context_blocks(SESSION, (block("k1", content=SECRET), block("k2", content=OTHER)))
    await store.upsert_tasks(SESSION, (Task(task_id="a", name=f"check: {SECRET}"), Task(task_id="b", name=OTHER)))
    await store.append_tool_calls(SESSION, (ToolCall(tool_call_id="c", args_digest={"q": [SECRET]}),))
    await store.fork(SESSION, "p002", "side")
    head = await store.head(SESSION)
    await store.save_prepared(
        prepared_turn(head, "t2", messages=(message_by("lin", SECRET),)), expected_version=head.version
    )


class StoreErasure(StoreTests):
    """Tests erasures of a session, a user and evidence: everywhere and at once, with a record that reveals nothing."""

    async def test_a_session_goes_whole(self, tmp_path: Path) -> None:
        """Nothing of an erased session can be read or found.

        Worlds and other sessions stay. The record has a hash and counts.
        """
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            await store.create_session(start(imported_turn("p001", "kept"), session_id="s2"))
            await store.replace_world("w1", "d", (lore("a", OTHER),))
            before = await read_everything(store, "s2")
            done = await store.erase(Erasure(at=AT, session_id=SESSION, reason="asked to"))
            assert done.sessions == (SESSION,)
            assert (done.counts["sessions"], done.counts["messages"], done.counts["turns"]) == (1, 8, 5)
            assert await store.sessions() == ("s2",)
            assert await store.get_session(SESSION) is None
            with pytest.raises(SessionNotFoundError):
                await store.head(SESSION)
            for chain in Chain:
                assert await store.entries_after(SCOPE, chain, 0, 99) == ()
            assert await store.entries(SCOPE, ("e1", "p001.u", "t1.a")) == ()
            assert await store.find_text((SECRET, CHINESE, SESSION)) == ()
            assert len(await store.entries(WORLD_SCOPE, ("a",))) == 1
            after = await read_everything(store, "s2")
            assert (after[:-2], len(after[-1])) == (before[:-2], 1)
            (audit,) = await store.audits()
            assert (audit.audit_id, audit.at, audit.kind, audit.reason) == (done.audit_id, AT, "session", "asked to")
            assert audit.subject_hash == subject_of(Erasure(at=AT, session_id=SESSION))[1]
            assert dict(audit.counts) == dict(done.counts)

    async def test_what_is_written_after_an_erasure_is_new_to_who_reads_on(self, tmp_path: Path) -> None:
        """The id of an erased session may be used again. The new entries have higher numbers than the erased ones."""
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            seen = (await store.entries_after(SCOPE, Chain.HISTORY, 0, 99))[-1].sequence
            await store.erase(Erasure(at=AT, session_id=SESSION))
            await store.create_session(start(imported_turn("p001")))
            found = await store.entries_after(SCOPE, Chain.HISTORY, seen, 99)
            assert [each.entry.text for each in found] == ["ask p001", "tell p001"]
            assert (await store.head(SESSION)).version == 1

    async def test_a_user_is_forgotten_in_the_sessions_of_others(self, tmp_path: Path) -> None:
        """The messages of an erased user keep only place and role.

        Texts that quote them are cleaned; the words of others stay.
        """
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            version = (await store.head(SESSION)).version
            seen = (await store.entries_after(SCOPE, Chain.HISTORY, 0, 99))[-1].sequence
            done = await store.erase(Erasure(at=AT, user_id="lin"))
            assert done.sessions == ()
            assert set(done.texts) == {SECRET, CHINESE, "wait"}
            assert await store.find_text((*done.texts, SECRET[:30], "lin")) == ()
            assert (await store.head(SESSION)).version == version + 1
            first, second, *_ = (await store.window(SESSION, message_limit=99, branch_id="main")).messages
            assert first.message == Message(role=Role.USER, content=ERASED, message_id="p001.u", at=AT)
            assert second.message.content == "I see."
            turn = await store.turn(SESSION, "t1")
            assert turn.plan is not None
            assert turn.prompt is not None
            assert turn.receipt is not None
            assert OTHER in str(turn.prompt)
            assert turn.receipt["other"] == OTHER
            assert ERASED in str(turn.plan)
            assert OTHER in turn.messages[1].content
            assert (await store.turn(SESSION, "t2")).messages[0].content == ERASED
            window = await store.window(SESSION, message_limit=1, branch_id="main")
            assert window.state["hero"]["gold"] == 0
            assert ERASED in window.state["hero"]["note"]
            assert await store.state_at(SESSION, "t1") == window.state
            assert window.summary is not None
            assert OTHER in window.summary.summary.content
            kept = await store.list_context_blocks(SESSION)
            assert [OTHER in each.content for each in kept] == [False, True]
            gone = set(done.entry_ids[SCOPE])
            assert {"p001.u", "p003.u", "e1"} <= gone
            assert not {"p002.u", "p002.a", "e2"} & gone
            later = await store.entries_after(SCOPE, Chain.HISTORY, seen, 99)
            assert {each.entry.entry_id for each in later if each.deleted} == {"p001.u", "p003.u", "t1.u"}
            assert await store.entries(SCOPE, ("p001.u", "p003.u")) == ()
            (audit,) = await store.audits()
            assert (audit.kind, audit.counts["messages"]) == ("user", done.counts["messages"])
            assert "lin" not in str(audit)

    async def test_the_sessions_of_a_user_go_whole(self, tmp_path: Path) -> None:
        """A session whose document names the erased user as its actor is deleted entirely."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            meta = Meta(actor=Actor(user_id="lin"))
            await store.put_session("mine", document_of(user_message(SECRET), session_id="mine", meta=meta))
            await store.put_session(
                "theirs", document_of(user_message(OTHER), session_id="theirs", meta=Meta(actor=Actor(user_id="li")))
            )
            before = await read_everything(store)
            done = await store.erase(Erasure(at=AT, user_id="lin"))
            assert done.sessions == ("mine",)
            assert await store.sessions() == (SESSION, "theirs")
            assert await store.find_text((SECRET, "lin")) == ()
            after = await read_everything(store)
            assert after[:-2] == before[:-2]

    async def test_evidence_is_forgotten_with_all_that_rests_on_it(self, tmp_path: Path) -> None:
        """An erased item is deleted with the blocks that refer only to it, with refs to it, and with its text
        wherever it occurs.
        """
        async with self.open_session(tmp_path) as store:
            cited, kept = Ref(evidence_id="e1", selector="char:0-5"), Ref(evidence_id="e2")
            for each in (evidence("e1", SECRET), evidence("e2", OTHER)):
                await store.put_evidence(SESSION, each)
            await store.append_messages(
                SESSION, (user_message("look", refs=(cited, kept)), reply_message(f"It says: {SECRET}!"))
            )
            blocks = (
                block("alone", refs=(cited,)),
                block("both", refs=(cited, kept)),
                block("none", content=f"{SECRET} / {OTHER}"),
            )
            await store.put_context_blocks(SESSION, blocks)
            await store.append_tool_calls(SESSION, (ToolCall(tool_call_id="c", result_evidence_ids=("e1", "e2")),))
            done = await store.erase(Erasure(at=AT, session_id=SESSION, evidence_ids=("e1", "unknown")))
            assert done.counts["evidences"] == 1
            assert done.texts == (SECRET,)
            assert await store.find_text((SECRET, SECRET[:30])) == ()
            assert [each.evidence_id for each in await store.list_evidences(SESSION)] == ["e2"]
            left = {each.block_id: each for each in await store.list_context_blocks(SESSION)}
            assert set(left) == {"both", "none"}
            assert left["both"].refs == (kept,)
            assert left["none"].content.endswith(OTHER)
            window = await store.window(SESSION, message_limit=9)
            assert window.messages[0].message.refs == (kept,)
            assert window.messages[1].message.content.startswith("It says: ")
            document = await store.get_session(SESSION)
            assert document is not None
            assert document.session.tool_state is not None
            assert document.session.tool_state.tool_calls[0].result_evidence_ids == ("e2",)

    async def test_what_another_session_took_along_goes_with_its_source(self, tmp_path: Path) -> None:
        """A session that starts with copies has them at once. Copies of erased data are removed, also copies of copies."""
        async with self.open_session(tmp_path) as store:
            await store.put_evidence(SESSION, evidence("e1", SECRET))
            for source, heir in ((SESSION, "s2"), ("s2", "s3")):
                await store.put_evidence(source, evidence(f"to {heir}", metadata={CONTINUED_IN: heir}))
                told = {COPIED_FROM: [{"session_id": SESSION, "memory_id": name} for name in ("e1",)]}
                made = replace(
                    start(session_id=heir),
                    evidences=(evidence("c1", SECRET, metadata=told), evidence("c2", OTHER)),
                    blocks=(block("k1", content=SECRET, extra=told), block("k2", content=OTHER)),
                    entries=(
                        memory("m1", scope=session_scope(heir), depth=0, text=SECRET, metadata=told),
                        memory("m2", scope=session_scope(heir), depth=0, text=OTHER),
                    ),
                    actor=Actor(user_id="kai"),
                )
                assert (await store.create_session(made)).depth == 0
            document = await store.get_session("s3")
            assert document is not None
            assert document.meta is not None
            assert document.meta.actor == Actor(user_id="kai")
            assert set(document.evidences) == {"c1", "c2"}
            erasure = Erasure(at=AT, session_id=SESSION, evidence_ids=("e1",))
            seen = await store.preview_erasure(erasure)
            assert seen.touched == (SESSION, "s2", "s3")
            done = await store.erase(erasure)
            assert (done.touched, done.texts) == (seen.touched, (SECRET,))
            assert await store.find_text((SECRET,)) == ()
            for heir in ("s2", "s3"):
                assert {each.evidence_id for each in await store.list_evidences(heir)} - {"to s3"} == {"c2"}
                assert [each.block_id for each in await store.list_context_blocks(heir)] == ["k2"]
                assert [each.entry_id for each in await store.entries(session_scope(heir), ("m1", "m2"))] == ["m2"]
            assert (await store.erase(Erasure(at=AT, user_id="kai"))).sessions == ("s2", "s3")

    async def test_nobody_and_nothing_is_recorded_too(self, tmp_path: Path) -> None:
        """An erasure of an unknown subject erases nothing and is recorded too. The records are in the order of the calls."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            before = await read_everything(store)
            asked = (
                Erasure(at=AT + timedelta(hours=2), session_id="nobody"),
                Erasure(at=AT, user_id="nobody", reason="第二"),
                Erasure(at=AT, session_id="nobody", evidence_ids=("e",)),
            )
            done = [await store.erase(each) for each in asked]
            assert [dict(each.counts) for each in done] == [{}, {}, {}]
            audits = await store.audits()
            assert [each.audit_id for each in audits] == [each.audit_id for each in done]
            assert [each.kind for each in audits] == ["session", "user", "evidence"]
            assert [(each.at, each.reason) for each in audits] == [(each.at, each.reason) for each in asked]
            assert (await read_everything(store))[:-1] == before[:-1]
            for wrong in (
                Erasure(at=AT),
                Erasure(at=AT, user_id="u", session_id=SESSION),
                Erasure(at=AT, evidence_ids=("e",)),
                Erasure(at=AT, user_id="u", session_id=SESSION, evidence_ids=("e",)),
            ):
                with pytest.raises(ValueError, match=r"[Ee]rasure"):
                    await store.erase(wrong)
            assert await store.audits() == audits

    async def test_a_search_finds_every_place(self, tmp_path: Path) -> None:
        """`find_text` names table and key, sorted. Short texts are found only as whole words, and no text is found nowhere."""
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            places = await store.find_text((SECRET,))
            assert places == tuple(sorted(places))
            named = " ".join(places)
            for part in ("p001.u", "e1", "k1", "t1", "t2", "s1"):
                assert part in named, part
            assert not {place for place in places if place.endswith(("e2", "k2"))}
            assert await store.find_text(()) == await store.find_text(("", "  ", "never said")) == ()
            assert await store.find_text(("wai",)) == ()
            assert await store.find_text(("wait",))

    async def test_a_preview_says_what_an_erasure_removes(self, tmp_path: Path) -> None:
        """A preview changes nothing. Its sessions and texts are the same as those of the erasure that follows."""
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            meta = Meta(actor=Actor(user_id="lin"))
            await store.put_session("mine", document_of(user_message(OTHER), session_id="mine", meta=meta))
            before = await read_everything(store)
            seen = await store.preview_erasure(Erasure(at=AT, user_id="lin"))
            assert (seen.whole, seen.touched) == (("mine",), (SESSION,))
            assert set(seen.scrubbed) == {SECRET, CHINESE, "wait"}
            assert set(seen.texts) == {SECRET, CHINESE, "wait", OTHER}
            assert await read_everything(store) == before
            done = await store.erase(Erasure(at=AT, user_id="lin"))
            assert (done.sessions, done.touched, set(done.texts)) == (seen.whole, seen.touched, set(seen.scrubbed))
            with pytest.raises(ValueError, match=r"[Ee]rasure"):
                await store.preview_erasure(Erasure(at=AT))

    async def test_a_walk_visits_the_rows_that_are_asked_for(self, tmp_path: Path) -> None:
        """A walk visits all rows, the rows of some sessions, or all rows but those of some.

        It ends if the visitor returns False.
        """
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            await store.create_session(start(imported_turn("p001", "kept"), session_id="s2"))
            await store.replace_world("w1", "d", (lore("a", OTHER),))
            rows: list[StoredRow] = []

            def visit(row: StoredRow) -> bool:
                rows.append(row)
                return len(rows) < most

            most = 10_000
            await store.walk_rows(visit, sessions=("s2",))
            assert {row.session_id for row in rows} == {"s2"}
            assert any(b"ask kept" in body for row in rows for body in row.bodies)
            rows.clear()
            await store.walk_rows(visit, without=(SESSION,))
            assert {"s2", ""} <= {row.session_id for row in rows}
            assert SESSION not in {row.session_id for row in rows}
            rows.clear()
            await store.walk_rows(visit)
            held = b"".join(body for row in rows for body in row.bodies)
            assert all(text.encode() in held for text in (SECRET, OTHER, CHINESE, "ask kept"))
            rows.clear()
            most = 2
            await store.walk_rows(visit)
            assert len(rows) == 2

    async def test_rule_1_erasures_last(self, tmp_path: Path) -> None:
        """After reopening the store, erased data is gone, all other data is there, and so are the audit records."""
        if not self.persistent:
            pytest.skip("this store keeps nothing")
        async with self.open_session(tmp_path) as store:
            await fill_session(store)
            await store.put_session(
                "s2", document_of(user_message(SECRET), session_id="s2", meta=Meta(actor=Actor(user_id="lin")))
            )
            await store.erase(Erasure(at=AT, user_id="lin"))
            before = await read_everything(store)
        async with self.open_empty(tmp_path) as store:
            assert await read_everything(store) == before
            assert await store.find_text((SECRET, CHINESE)) == ()
            assert await store.sessions() == (SESSION,)
            turn = replace(imported_turn("p9"), messages=(message_by("kai", OTHER),))
            assert (await store.append_turns(SESSION, (turn,))).depth == 4
