"""What a turn found belongs to its turn: it is known on the branches that have the turn, and to those who may know the turn."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from jacquard import CurationConfig, EvidenceConfig, HistoryConfig, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.core.errors import MemoryNotFoundError
from mnemosyne import (
    BlockType,
    ContextBlock,
    EvidenceFilter,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    Priority,
    Ref,
    SessionStart,
    SourceKind,
    ToolCall,
    document_to_json,
    export_session,
    import_session,
)

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
CANARY = re.compile(r"zz\d+")
SECRET = "It lies in a lead box"
EVERYTHING = RuntimeConfig(
    evidence=EvidenceConfig(relevance_floor=0, limit=100),
    history=HistoryConfig(max_messages=4, low_water=1.0),
    curation=CurationConfig(select_limit=20),
)


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as opened:
        await opened.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        yield opened


async def prepare(runtime, text="What is known of the canaries?", viewer=None, **config):
    return await runtime.engine.prepare_turn("s", text, replace(EVERYTHING, viewer=viewer, **config))


async def record(runtime, name, *, turn_id=None, options=None):
    """Record a call that returns a text with this name; return the id of its evidence."""
    call = ToolCall(
        tool_call_id=f"call-{name}",
        tool="open_drawer",
        args_digest={"drawer": name},
        extra={} if turn_id is None else {"turn_id": turn_id},
    )
    await runtime.engine.record_tool_call("s", call, result=f"In the drawer sits the canary {name}.", options=options)


async def say(runtime, text="What is known of the canaries?", viewer=None, found=()):
    turn = await prepare(runtime, text, viewer)
    for name in found:
        await record(runtime, name)
    await runtime.engine.commit_assistant_message("s", "Very well.", turn_id=turn.turn_id)
    return turn.turn_id


async def shown(runtime, viewer=None):
    """Return the names of canaries in the prompt of the next turn."""
    text = (await prepare(runtime, viewer=viewer)).text
    return set(CANARY.findall(text))


async def test_going_back_hides_what_was_found_and_a_fork_keeps_what_was_found_before(runtime):
    first = await say(runtime, found=["zz1"])
    await say(runtime, found=["zz2"])
    assert await shown(runtime) == {"zz1", "zz2"}
    await runtime.engine.rollback("s", first)
    assert await shown(runtime) == {"zz1"}
    await runtime.engine.rollback("s", None)
    assert await shown(runtime) == set()
    await runtime.engine.switch("s", "main")
    assert await shown(runtime) == {"zz1", "zz2"}


async def test_another_reply_does_not_know_what_the_first_one_found(runtime):
    await say(runtime, found=["zz1"])
    asked = await runtime.engine.swipe("s", EVERYTHING)
    assert "zz1" not in asked.text


async def test_an_edited_message_keeps_what_its_turn_and_those_after_it_found(runtime):
    await say(runtime, "Good morning.", found=["zz1"])
    await say(runtime, found=["zz2"])
    message = (await runtime.store.window("s", message_limit=9)).messages[0].message
    await runtime.engine.edit_message("s", message.message_id, "Good evening.")
    assert await shown(runtime) == {"zz1", "zz2"}
    await runtime.engine.edit_message(
        "s", (await runtime.store.window("s", message_limit=9)).messages[0].message.message_id, "Hi."
    )
    assert await shown(runtime) == {"zz1", "zz2"}


async def test_an_input_that_takes_the_place_of_another_does_not_know_what_that_found(runtime):
    await say(runtime)
    await runtime.engine.prepare_turn("s", "Open the drawer.", EVERYTHING, turn_id="mine")
    await record(runtime, "zz1")
    assert "zz1" in (await runtime.engine.prepare_turn("s", "Open the drawer.", EVERYTHING, turn_id="mine")).text
    pending = (await runtime.store.window("s", message_limit=1)).pending
    head = await runtime.store.head("s")
    other = replace(pending, turn_id="other", fingerprint="", messages=(replace(pending.messages[0], message_id=""),))
    await runtime.store.save_prepared(other, expected_version=head.version)
    assert "zz1" not in (await runtime.engine.prepare_turn("s", "And now?", EVERYTHING)).text


async def test_what_was_found_without_a_turn_or_by_a_host_is_known_everywhere(runtime):
    await record(runtime, "zz1")
    source = EvidenceSource(kind=SourceKind.RAG, name="manual", uri="doc://a")
    ingestor = runtime.engine.ingestor_of("s")
    await ingestor.ingest("The manual has the canary zz2.", source, EvidenceType.RAG_DOC)
    await say(runtime, found=["zz3"])
    await runtime.engine.rollback("s", None)
    assert await shown(runtime) == {"zz1", "zz2"}
    assert await shown(runtime, "lin") == {"zz1", "zz2"}


async def test_what_a_host_finds_for_a_turn_is_of_that_turn(runtime):
    turn = await prepare(runtime, viewer="lin")
    source = EvidenceSource(kind=SourceKind.RAG, name="manual", uri="doc://a")
    page = "The manual has the canary zz1."
    links = EvidenceLinks(turn_id=turn.turn_id)
    await runtime.engine.ingestor_of("s").ingest(page, source, EvidenceType.RAG_DOC, links=links)
    done = await runtime.engine.ingestor_of("s").ingest(
        "Another page has zz2.", replace(source, uri="doc://b"), EvidenceType.RAG_DOC
    )
    await runtime.engine.record_tool_call("s", ToolCall(tool_call_id="c"), [done.evidence_id])
    await runtime.engine.commit_assistant_message("s", "Very well.", turn_id=turn.turn_id)
    assert await shown(runtime, "lin") == {"zz1", "zz2"}
    assert await shown(runtime, "mara") == set()
    await runtime.engine.rollback("s", None)
    assert await shown(runtime, "lin") == set()


async def test_a_viewers_turn_keeps_what_it_found_to_that_viewer(runtime):
    turn = await prepare(runtime, viewer="lin")
    await record(runtime, "zz1")
    await runtime.engine.commit_assistant_message("s", "Very well.", turn_id=turn.turn_id)
    late = await prepare(runtime, "Good morning.", "mara")
    await record(runtime, "zz2", turn_id=turn.turn_id)
    await runtime.engine.commit_assistant_message("s", "Very well.", turn_id=late.turn_id)
    assert await shown(runtime, "lin") == {"zz1", "zz2"}
    assert await shown(runtime, "mara") == set()
    assert await shown(runtime) == set()


async def test_a_turn_that_shows_what_a_guarded_turn_found_is_guarded_too(tmp_path):
    async with open_runtime(tmp_path / "store", world=str(FOREST), embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await prepare(runtime, ASKED, "chief")
        assert SECRET in turn.text
        await record(runtime, "zz1")
        await runtime.engine.commit_assistant_message("s", "<content>So be it.</content>", turn_id=turn.turn_id)
        after = await prepare(runtime, "What sits in the drawer?", "chief", history=HistoryConfig(max_messages=0))
        assert "zz1" in after.text
        record_of_after = await runtime.store.turn("s", after.turn_id)
        assert record_of_after.messages[0].extra["viewers"] == ["chief"]
        assert "zz1" not in (await prepare(runtime, "What is new?", "stranger")).text


async def test_the_same_result_in_turns_that_do_not_know_each_other_is_found_twice(runtime):
    await say(runtime, found=["zz1"])
    await runtime.engine.rollback("s", None)
    await say(runtime, found=["zz1"])
    assert await shown(runtime) == {"zz1"}
    await say(runtime, found=["zz1"])
    found = await runtime.store.list_evidences("s", EvidenceFilter(types=frozenset({EvidenceType.TOOL_RESULT})))
    assert len(found) == 2, "the third turn knows what the second found"
    await say(runtime, viewer="lin", found=["zz1"])
    assert await shown(runtime, "mara") == {"zz1"}


async def test_a_document_that_a_turn_found_is_memory_of_its_branch(runtime):
    kept = await say(runtime, "Good morning.")
    turn = await prepare(runtime, viewer="lin")
    await record(runtime, "zz1", options=IngestOptions(as_document=True))
    await runtime.engine.commit_assistant_message("s", "Very well.", turn_id=turn.turn_id)
    verbs = {name: MemoryVerbs(runtime, viewer=name) for name in ("lin", "mara")}
    found = await verbs["lin"].search("s", "drawer with the canary")
    assert any("zz1" in each.text for each in found)
    memory_id = next(each.memory_id for each in found if "zz1" in each.text)
    assert all("zz1" not in each.text for each in await verbs["mara"].search("s", "drawer with the canary"))
    asked = "Which canary sits in the drawer?"
    assert "zz1" in (await prepare(runtime, asked, "lin")).text
    assert "zz1" not in (await prepare(runtime, asked, "mara")).text
    assert (await verbs["lin"].memory("s", memory_id)).memory_id == memory_id
    await runtime.engine.rollback("s", kept)
    assert all("zz1" not in each.text for each in await verbs["lin"].search("s", "drawer with the canary"))
    assert "zz1" not in (await prepare(runtime, asked, "lin")).text
    with pytest.raises(MemoryNotFoundError):
        await verbs["lin"].memory("s", memory_id)


async def test_a_block_is_shown_where_what_it_refers_to_is_known(runtime):
    first = await say(runtime)
    await say(runtime, viewer="lin", found=["zz1"])
    (found,) = await runtime.store.list_evidences("s", EvidenceFilter(types=frozenset({EvidenceType.TOOL_RESULT})))
    block = ContextBlock(
        block_id="b",
        block_type=BlockType.EVIDENCE,
        priority=Priority.HIGH,
        refs=(Ref(evidence_id=found.evidence_id),),
    )
    await runtime.store.put_context_blocks("s", (block,))
    off = EvidenceConfig(enabled=False)
    assert "zz1" in (await prepare(runtime, viewer="lin", evidence=off)).text
    assert "zz1" not in (await prepare(runtime, viewer="mara", evidence=off)).text
    await runtime.engine.rollback("s", first)
    assert "zz1" not in (await prepare(runtime, viewer="lin", evidence=off)).text


async def test_a_document_has_what_its_branch_found_and_an_export_of_the_tree_loses_nothing(runtime, tmp_path):
    first = await say(runtime, "Good morning.")
    await say(runtime, found=["zz1"])
    await runtime.engine.rollback("s", first)
    await say(runtime, found=["zz2"])
    linear = str(document_to_json(await export_session(runtime.store, "s", linear=True)))
    assert "zz2" in linear
    assert "zz1" not in linear
    assert "call-zz1" not in linear
    whole = await export_session(runtime.store, "s")
    async with open_runtime(tmp_path / "other", embedder="none") as other:
        await import_session(other.store, whole)
        assert await shown(other) == {"zz2"}
        await other.engine.switch("s", "main")
        assert await shown(other) == {"zz1"}
        assert await other.store.tool_call("s", "call-zz1") is not None


async def test_evidence_of_an_older_release_is_as_before_without_a_viewer_and_not_for_viewers(runtime):
    await say(runtime, found=["zz1"])
    (found,) = await runtime.store.list_evidences("s", EvidenceFilter(types=frozenset({EvidenceType.TOOL_RESULT})))
    old = replace(found, links=EvidenceLinks(tool_call_id=found.links.tool_call_id), metadata={})
    await runtime.store.put_evidence("s", old)
    await runtime.engine.rollback("s", None)
    assert await shown(runtime) == {"zz1"}
    assert await shown(runtime, "lin") == set()


async def test_the_same_words_of_another_viewer_are_a_turn_of_its_own(runtime):
    mine = await prepare(runtime, "Open it.", "lin")
    await record(runtime, "zz1")
    theirs = await prepare(runtime, "Open it.", "mara")
    assert theirs.turn_id != mine.turn_id
    assert (await runtime.store.turn("s", mine.turn_id)).status == "committed"
    assert "zz1" not in theirs.text
    assert (await prepare(runtime, "Open it.", "mara")).turn_id == theirs.turn_id


@dataclass(kw_only=True)
class KnownTurn:
    parent: str | None
    viewer: str | None
    said: str = ""
    found: set[str] = field(default_factory=set)
    origin: str | None = None


class Walk:
    """Random turns, branches, edits and results, and beside them what may be known where."""

    def __init__(self, runtime, seed):
        self.runtime, self.engine, self.random = runtime, runtime.engine, random.Random(seed)
        self.turns, self.anywhere, self.number = {}, set(), 0

    def name(self):
        self.number += 1
        return f"zz{self.number}"

    def path(self, turn_id):
        while turn_id is not None:
            yield turn_id
            turn_id = self.turns[turn_id].parent

    def allowed(self, head, viewer):
        known = set(self.anywhere)
        for turn_id in self.path(head):
            turn = self.turns[turn_id]
            known.add(turn.said)
            origin = self.turns[turn.origin or turn_id]
            if origin.viewer in (None, viewer):
                known |= origin.found
        return known

    async def turn(self):
        viewer, said = self.random.choice([None, "lin", "mara"]), self.name()
        head = await self.runtime.store.head("s")
        turn = await prepare(self.runtime, f"Tell of drawers and canaries, {said}.", viewer)
        pending = set(CANARY.findall(turn.text))
        assert pending <= self.allowed(head.turn_id, viewer) | {said}
        mine = self.turns[turn.turn_id] = KnownTurn(parent=head.turn_id, viewer=viewer, said=said)
        for _ in range(self.random.randrange(3)):
            name, kind = self.name(), self.random.randrange(4)
            await record(
                self.runtime,
                name,
                turn_id=self.random.choice([None, turn.turn_id]),
                options=IngestOptions(as_document=True) if kind == 0 else None,
            )
            mine.found.add(name)
        await self.engine.commit_assistant_message("s", "Very well.", turn_id=turn.turn_id)

    async def back(self):
        await self.engine.rollback("s", self.random.choice([None, *self.turns]))

    async def switch(self):
        await self.engine.switch("s", self.random.choice(await self.engine.branches("s")).branch_id)

    async def edit(self):
        window = await self.runtime.store.window("s", message_limit=99)
        asked = [each for each in window.messages if each.message.role == "user"]
        if asked:
            placed, said = self.random.choice(asked), self.name()
            copied = [each.turn_id for each in asked if each.depth >= placed.depth]
            await self.engine.edit_message("s", placed.message.message_id, f"Tell of canaries, {said}.")
            path = await self.runtime.store.turns("s", limit=len(copied))
            parent = self.turns[copied[0]].parent
            for old, new in zip(copied, path, strict=True):
                before = self.turns[old]
                self.turns[new.turn_id] = replace(before, parent=parent, origin=before.origin or old)
                parent = new.turn_id
            self.turns[path[0].turn_id].said = said

    async def ingest(self):
        name = self.name()
        self.anywhere.add(name)
        source = EvidenceSource(kind=SourceKind.RAG, name="shelf", uri=f"doc://{name}")
        await self.engine.ingestor_of("s").ingest(f"The shelf has {name}.", source, EvidenceType.RAG_DOC)

    async def check(self):
        head = await self.runtime.store.head("s")
        for viewer in (None, "lin", "mara"):
            where = EvidenceFilter(branch_id="", known_to=frozenset(() if viewer is None else (viewer,)))
            listed = await self.runtime.store.list_evidences("s", replace(where, without_memories=True))
            found = {name for each in listed for name in CANARY.findall(each.content)}
            said = {self.turns[turn_id].said for turn_id in self.path(head.turn_id)}
            assert found == self.allowed(head.turn_id, viewer) - said


@pytest.mark.parametrize("seed", range(5))
async def test_a_prompt_has_only_what_its_ancestors_found_and_its_viewer_may_know(runtime, seed):
    walk = Walk(runtime, seed)
    steps = [walk.turn] * 5 + [walk.back, walk.switch, walk.edit, walk.ingest]
    for _ in range(25):
        await walk.random.choice(steps)()
        await walk.check()
