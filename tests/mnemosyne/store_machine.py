"""A machine that does anything to a store that may be done to it, and knows in the plainest form what must come of it.

The model is dicts and lists: the turn tree of the contract suite, and beside it what a session document holds. Everything
that a store decides by itself (ids of turns and branches that documents make) is taken from it and must be new.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from store_filters import check_filters

from mnemosyne import (
    Chain,
    ContextBlock,
    Erasure,
    Evidence,
    EvidenceType,
    ModelUsage,
    Priority,
    Role,
    SchemaValidationError,
    SessionDocument,
    Store,
    Summary,
    Task,
    TaskStatus,
    ToolCall,
    VersionConflictError,
)
from mnemosyne.schema.record import PathSummary
from mnemosyne.testing.stores.runs import assert_agreement
from mnemosyne.testing.stores.samples import (
    AT,
    MEMORY_SOURCE,
    SCOPE,
    SESSION,
    block,
    evidence,
    gold_commit,
    gold_state,
    head_to_follow,
    imported_turn,
    memory,
    prepared_turn,
    reply_message,
    start,
    user_message,
)
from mnemosyne.testing.stores.tree import ModelBranch, ModelTree

T = TypeVar("T")
Open = Callable[[Path], Store]

numbers = st.integers(0, 999)
few = st.integers(0, 4)
words = st.sampled_from(["the key", "钥匙在井里", "a <lamp>", "", "\x00half", "no"])


class StoreMachine(RuleBasedStateMachine):
    """Runs rules on one session of a store and on the model of it."""

    def __init__(self, open_store: Open, *, reopens: bool) -> None:
        super().__init__()
        self._open, self._reopens = open_store, reopens
        self._runner = asyncio.Runner()
        self._folder = Path(tempfile.mkdtemp(prefix="store-machine-"))
        self.store = open_store(self._folder)
        self.step = 0
        self.audits = 0
        self.begin()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def begin(self) -> None:
        self.run(self.store.create_session(start()))
        self.tree = ModelTree()
        self.keys: set[str] = set()
        self.entries: list[str] = []
        self.summaries: dict[str, Summary | None] = {}
        self.untold: Summary | None = None
        self.locale = "en"
        self.evidences: dict[str, Evidence] = {}
        self.blocks: dict[str, ContextBlock] = {}
        self.tasks: dict[str, Task] = {}
        self.calls: dict[str, ToolCall] = {}
        self.usages: dict[str, ModelUsage] = {}

    def new(self, prefix: str) -> str:
        self.step += 1
        return f"{prefix}{self.step}"

    def branch(self, number: int) -> tuple[str, ModelBranch]:
        return sorted(self.tree.branches.items(), key=lambda item: item[0])[number % len(self.tree.branches)]

    def committed(self, number: int) -> str | None:
        return [*sorted(self.tree.committed), None][number % max(len(self.tree.committed), 1)]

    @rule(at=numbers, text=words, again=few)
    def prepare(self, at: int, text: str, again: int) -> None:
        name, _ = self.branch(at)
        head = self.run(self.store.head(SESSION, name))
        if again == 2:
            head = self.run(head_to_follow(self.store, head))
            self.tree.close(name)
        reused = sorted(self.tree.abandoned)
        turn_id = reused[at % len(reused)] if reused and again == 0 else self.new("t")
        held = (evidence(self.new("e"), "held by a prompt", source=MEMORY_SOURCE),) if again == 1 else ()
        self.run(
            self.store.save_prepared(prepared_turn(head, turn_id, text), expected_version=head.version, evidences=held)
        )
        self.tree.prepare(name, turn_id, text)
        self.evidences.update((each.evidence_id, each) for each in held)

    @rule(at=numbers, gain=few)
    def commit(self, at: int, gain: int) -> None:
        name, branch = self.branch(at)
        if branch.pending is not None:
            done = gold_commit(branch.pending, self.tree.state(branch.path)["hero"]["gold"] + gain)
            head = self.run(self.store.head(SESSION, name))
            self.run(self.store.commit_turn(SESSION, done, expected_version=head.version))
            self.tree.commit(name, branch.pending, done.messages[0].content, gain)

    @rule(at=numbers, text=words)
    def number(self, at: int, text: str) -> None:
        name, branch = self.branch(at)
        head, turn_id = self.run(self.store.head(SESSION, name)), self.new("n")
        amount = self.tree.state(branch.path)["hero"]["gold"] + 1
        ops = ({"op": "replace", "path": "/hero/gold", "value": amount},)
        record = prepared_turn(head, turn_id, text, ops=ops)
        self.run(self.store.commit_numerical(record, gold_state(amount), expected_version=head.version))
        self.tree.append(name, turn_id, (text,), 1)

    @rule(count=st.integers(1, 3))
    def import_turns(self, count: int) -> None:
        turns = [imported_turn(self.new("i")) for _ in range(count)]
        known = self.committed(count)
        skipped = () if known is None else (imported_turn(known, "is there already"),)
        self.run(self.store.append_turns(SESSION, (*skipped, *turns)))
        self.tree.close(self.tree.active)
        for turn in turns:
            self.tree.append(self.tree.active, turn.turn_id, tuple(each.content for each in turn.messages), 0)
        self.tree.version -= count - 1

    @rule(text=words, key=st.none() | few.map(str))
    def append_messages(self, text: str, key: str | None) -> None:
        messages = (user_message(text), reply_message(f"re {text}"))
        done = self.run(self.store.append_messages(SESSION, messages, idempotency_key=key))
        if key not in self.keys:
            self.tree.close(self.tree.active)
            self.told((text, f"re {text}"))
            self.keys |= {key} - {None}
        assert done.version == self.tree.version

    def told(self, texts: tuple[str, ...]) -> None:
        """Take over a turn whose id the store has made."""
        turn_id = self.run(self.store.head(SESSION)).turn_id
        assert turn_id is not None
        assert turn_id not in self.tree.texts
        self.tree.append(self.tree.active, turn_id, texts, 0)

    @rule(at=numbers, before=few)
    def fork(self, at: int, before: int) -> None:
        after, name = (None if before == 0 else self.committed(at)), self.new("b")
        self.run(self.store.fork(SESSION, after, name))
        self.tree.fork(after, name)

    @rule(at=numbers)
    def switch(self, at: int) -> None:
        name, _ = self.branch(at)
        self.run(self.store.switch(SESSION, name))
        self.tree.switch(name)

    @rule(kind=few, which=few, number=numbers)
    def write_list(self, kind: int, which: int, number: int) -> None:
        """Write an item of a list, new or in the place of one; a write that changes nothing moves no version."""
        store, name = self.store, f"x{which}"
        if kind == 0:
            given: Any = evidence(
                name,
                f"found {number % 3}",
                type=list(EvidenceType)[number % 3],
                # An item that had a time and is written without one keeps it.
                created_at=AT.replace(hour=number % 24) if which % 2 else None,
                **({"source": MEMORY_SOURCE} if number % 5 == 0 else {}),
            )
            self._put(self.evidences, name, given, lambda: store.put_evidence(SESSION, given))
        elif kind == 1:
            given = block(name, priority=list(Priority)[number % 4], content=str(number % 2))
            self._put(self.blocks, name, given, lambda: store.put_context_blocks(SESSION, (given,)))
        elif kind == 2:
            given = Task(task_id=name, status=list(TaskStatus)[number % 3])
            self._put(self.tasks, name, given, lambda: store.upsert_tasks(SESSION, (given,)))
        elif kind == 3:
            given = ToolCall(tool_call_id=name, duration_ms=number % 2)
            self._put(self.calls, name, given, lambda: store.append_tool_calls(SESSION, (given,)))
        else:
            given = ModelUsage(model_usage_id=name, total_tokens=number % 2)
            self._put(self.usages, name, given, lambda: store.append_model_usage(SESSION, (given,)))

    def _put(self, items: dict[str, T], name: str, given: T, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.run(work())
        self.tree.version += items.get(name) != given
        items[name] = given

    @rule(at=numbers)
    def add_entry(self, at: int) -> None:
        turn_id = self.committed(at)
        if turn_id is not None:
            entry_id = self.new("m") if at % 3 or not self.entries else self.entries[at % len(self.entries)]
            added = self.run(self.store.append_entries(SESSION, (memory(entry_id, turn_id=turn_id),)))
            assert added == (entry_id not in self.entries)
            self.entries += [entry_id] * added

    @rule(at=numbers)
    def sum_up(self, at: int) -> None:
        turn_id = self.committed(at)
        if turn_id is not None:
            summary = Summary(content=self.new("summary "))
            given = PathSummary(turn_id=turn_id, branch_id="", depth=0, summary=summary)
            self.run(self.store.save_summary(SESSION, given))
            self.summaries[turn_id] = summary

    @rule(cut=few, change=few, more=st.integers(0, 2))
    def put_document(self, cut: int, change: int, more: int) -> None:
        """Write the session as it stands, but for its end, for one word, or with more said; and without a list."""
        document = self._document()
        said = list(document.session.messages)
        kept = said[: len(said) - cut] if cut < 3 else said
        if change == 0 and kept:
            kept[0] = replace(kept[0], content="told otherwise")
        given = [*kept, *(user_message(self.new("said ")) for _ in range(more))]
        blocks = () if change == 1 else document.context_blocks
        session = replace(document.session, messages=tuple(given))
        shown = replace(document, session=session, context_blocks=blocks)
        done = self.run(self.store.put_session(SESSION, shown, expected_version=self.tree.version))
        if [each.content for each in given] != self.tree.said(self.tree.active):
            self._abandon()
            self._tell([each.content for each in given])
        self.tree.version += 1
        assert done.version == self.tree.version
        self.blocks = {each.block_id: each for each in blocks}
        self._put_summary(session.summary)

    def _put_summary(self, summary: Summary | None) -> None:
        path = self.tree.branches[self.tree.active].path
        self.untold = None if path else summary
        if self._summary() != summary:
            self.summaries[path[-1]] = summary

    def _document(self) -> SessionDocument:
        document = self.run(self.store.get_session(SESSION))
        assert document is not None
        return document

    def _abandon(self) -> None:
        branch = self.tree.branches[self.tree.active]
        if branch.pending is not None:
            self.tree.abandoned.add(branch.pending)
            branch.pending = None

    def _tell(self, given: list[str]) -> None:
        """Say what is to be said: the rest after the head, or a branch after the last turn that is told alike."""
        path = self.tree.branches[self.tree.active].path
        stored = [(turn_id, text) for turn_id in path for text in self.tree.texts[turn_id]]
        same = 0
        while same < min(len(stored), len(given)) and stored[same][1] == given[same]:
            same += 1
        if same < len(stored):
            while same and stored[same - 1][0] == stored[same][0]:
                same -= 1
            name = self.run(self.store.head(SESSION)).branch_id
            assert name not in self.tree.branches
            self.tree.fork(stored[same - 1][0] if same else None, name)
            self.tree.version -= 1
        if given[same:]:
            self.told(tuple(given[same:]))
            self.tree.version -= 1

    @rule(locale=st.sampled_from(["en", "zh"]))
    def patch_document(self, locale: str) -> None:
        """A document must say something, so that a session without messages cannot be patched."""
        if not self.tree.said(self.tree.active):
            with pytest.raises(SchemaValidationError):
                self.run(self.store.patch_session(SESSION, {"meta": {"locale": locale}}))
            return
        shown = self._summary()
        self.run(self.store.patch_session(SESSION, {"meta": {"locale": locale}}))
        self._put_summary(shown)
        self.tree.version += 1
        self.locale = locale

    @rule()
    def write_stale(self) -> None:
        """Whoever saw an older version changes nothing."""
        head = self.run(self.store.head(SESSION))
        for work in (
            self.store.save_prepared(prepared_turn(head, "stale"), expected_version=head.version - 1),
            self.store.append_messages(SESSION, (user_message("stale"),), expected_version=head.version - 1),
            self.store.upsert_tasks(SESSION, (Task(task_id="stale"),), expected_version=head.version + 1),
        ):
            with pytest.raises(VersionConflictError):
                self.run(work)

    @rule(appends=st.integers(1, 4), finds=st.integers(0, 3))
    def crowd(self, appends: int, finds: int) -> None:
        """Tasks write all at once: as if one after the other, in the order of the versions that they were told."""
        texts = [self.new("crowd ") for _ in range(appends)]
        found = [evidence(self.new("e"), "by many") for _ in range(finds)]

        async def together() -> list[Any]:
            works = [self.store.append_messages(SESSION, (user_message(text),)) for text in texts]
            puts = [self.store.put_evidence(SESSION, each) for each in found]
            reads = [self.store.window(SESSION, message_limit=3) for _ in range(2)]
            return [*(await asyncio.gather(*works, *puts, *reads))][:appends]

        done = self.run(together())
        order = sorted(range(appends), key=lambda place: done[place].version)
        turns = self.run(self.store.turns(SESSION, limit=appends))
        turn_ids = dict(zip(order, (turn.turn_id for turn in turns), strict=True))
        self.tree.close(self.tree.active)
        for place in order:
            self.tree.append(self.tree.active, turn_ids[place], (texts[place],), 0)
        self.tree.version += finds
        late = self.run(self.store.list_evidences(SESSION))[len(self.evidences) :]
        assert sorted(each.evidence_id for each in late) == sorted(each.evidence_id for each in found)
        self.evidences.update((each.evidence_id, each) for each in late)

    @rule(many=st.integers(2, 4))
    def race(self, many: int) -> None:
        """Of tasks that saw one version, one writes."""
        head = self.run(self.store.head(SESSION))
        names = [self.new("r") for _ in range(many)]

        async def together() -> list[Any]:
            works = (
                self.store.save_prepared(prepared_turn(head, name, name), expected_version=head.version)
                for name in names
            )
            return list(await asyncio.gather(*works, return_exceptions=True))

        lost = [isinstance(each, VersionConflictError) for each in self.run(together())]
        assert lost.count(False) == 1
        winner = names[lost.index(False)]
        self.tree.prepare(head.branch_id, winner, winner)

    @rule(which=few)
    def erase_evidence(self, which: int) -> None:
        """What was taken in alone goes alone; an id that is not there changes nothing but the version."""
        name = f"x{which}"
        done = self.run(self.store.erase(Erasure(at=AT, session_id=SESSION, evidence_ids=(name,))))
        assert done.counts.get("evidences", 0) == (name in self.evidences)
        gone = self.evidences.pop(name, None)
        self.audits += 1
        self.tree.version = self.run(self.store.head(SESSION)).version
        if gone is not None:
            left = self.run(self.store.list_evidences(SESSION))
            self.evidences = {each.evidence_id: each for each in left}
            assert all(gone.content not in each.content for each in left if each.content != gone.content)

    @rule(often=few)
    def erase_session(self, often: int) -> None:
        if often == 0:
            done = self.run(self.store.erase(Erasure(at=AT, session_id=SESSION)))
            assert done.sessions == (SESSION,)
            assert self.run(self.store.sessions()) == ()
            assert self.run(self.store.entries_after(SCOPE, Chain.EVENT, 0, 9)) == ()
            self.audits += 1
            self.begin()

    @precondition(lambda self: self._reopens)
    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self._open(self._folder)

    @invariant()
    def stands_where_it_should(self) -> None:
        head = self.run(self.store.head(SESSION))
        branch = self.tree.branches[self.tree.active]
        assert (head.branch_id, head.version) == (self.tree.active, self.tree.version)
        assert (head.depth, head.turn_id) == (len(branch.path), branch.path[-1] if branch.path else None)

    def _summary(self) -> Summary | None:
        path = self.tree.branches[self.tree.active].path
        return next((self.summaries[turn_id] for turn_id in reversed(path) if turn_id in self.summaries), self.untold)

    def check(self) -> None:
        """Compare everything that the store says with the model."""
        self.run(assert_agreement(self.store, self.tree))
        document = self._document()
        session = document.session
        assert [each.content for each in session.messages] == self.tree.said(self.tree.active)
        assert len({each.message_id for each in session.messages}) == len(session.messages)
        assert session.summary == self._summary()
        assert document.meta is not None
        assert document.meta.locale == self.locale
        assert list(document.evidences.values()) == list(self.evidences.values())
        assert document.context_blocks == tuple(self.blocks.values())
        assert session.task_state.todo_list.tasks == tuple(self.tasks.values())
        assert (() if session.tool_state is None else session.tool_state.tool_calls) == tuple(self.calls.values())
        assert (session.model_usage or ()) == tuple(self.usages.values())
        self.run(check_filters(self.store, self.evidences.values(), self.blocks.values()))
        listed = self.run(self.store.entries_after(SCOPE, Chain.EVENT, 0, 9_999))
        assert [each.entry.entry_id for each in listed] == self.entries
        history = self.run(self.store.entries_after(SCOPE, Chain.HISTORY, 0, 9_999))
        assert len({each.entry.entry_id for each in history}) == len(history)
        assert all(each.entry.turn_id in self.tree.committed for each in history)
        assert {Role.USER.value, Role.ASSISTANT.value} >= {each.entry.title for each in history}
        assert len(self.run(self.store.audits())) == self.audits

    def teardown(self) -> None:
        try:
            self.check()
            if self._reopens:
                self.reopen()
                self.check()
        finally:
            self.run(self.store.close())
            self._runner.close()
            shutil.rmtree(self._folder, ignore_errors=True)
