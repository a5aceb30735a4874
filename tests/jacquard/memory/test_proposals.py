"""Proposals: what a model would remember waits for a person's yes, is shown to nobody until then, and can be taken back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from anyio import to_thread
from mcp import Client
from servers.openai_server import OpenAiServer
from verb_faces import FACES

from jacquard import ConfigError, ConsolidationConfig, MemoryVerbs, RuntimeConfig, SummaryConfig, open_runtime
from jacquard.config.sections import MemoryConfig
from jacquard.config.service import ServiceSettings
from jacquard.core.errors import MemoryNotFoundError
from jacquard.memory.verbs.values import MemoryAction
from jacquard.pipeline.worlds import build_bare_world
from jacquard.service.access.principals import RequestNote
from jacquard.service.mcp.calls import Service
from jacquard.service.mcp.server import build_server
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from mnemosyne import Author, AuthorKind, Chain, Erasure, Message, Role, SessionStart
from mnemosyne.schema.memory import session_scope, world_session_id
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.world.pack_json import with_own_digest

pytestmark = pytest.mark.anyio
AT = datetime(2026, 11, 1, tzinfo=UTC)
KEPT = "In turn 2 Reed kept the key."


@pytest.fixture
def server():
    with OpenAiServer("writer") as running:
        yield running


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"


def settings(server, *, review=True):
    made = ConsolidationConfig(model="openai/small", api_base=server.api_base, api_key="k", every_turns=0)
    return RuntimeConfig(
        profile="assistant",
        summary=SummaryConfig(enabled=False),
        consolidation=made,
        memory=MemoryConfig(review=review),
    )


def played(number):
    said = ((Role.USER, f"ask {number}", "u"), (Role.ASSISTANT, f"Reed answers {number}.", "a"))
    lin = Author(kind=AuthorKind.USER, id="lin")
    return ImportedTurn(
        turn_id=f"t{number:03d}",
        messages=tuple(
            Message(role=role, content=text, message_id=f"t{number:03d}.{end}", author=lin if end == "u" else None)
            for role, text, end in said
        ),
    )


@asynccontextmanager
async def opened(address, server, *, turns=3, review=True):
    async with open_runtime(address, embedder="none", config=settings(server, review=review)) as runtime:
        started = SessionStart(
            session_id="s", world_id="w", locale="en", state={}, turns=tuple(played(n) for n in range(1, turns + 1))
        )
        await runtime.store.create_session(started)
        yield runtime, MemoryVerbs(runtime, author="ana")


async def texts_of(verbs):
    return [each.text for each in await verbs.search("s", "Reed kept the key fact tower", limit=50)]


async def entries(runtime):
    return [
        each.entry.entry_id
        for chain in (Chain.NARRATIVE, Chain.EVENT)
        for each in await runtime.store.entries_after(session_scope("s"), chain, 0, 1000)
        if not each.deleted
    ]


def shown(turn):
    return "\n".join(message.content for message in turn.messages)


async def test_what_a_model_would_remember_waits_and_is_neither_recalled_nor_shown(address, server):
    async with opened(address, server) as (runtime, verbs):
        done = await runtime.engine.consolidate("s")
        assert (done.summaries, done.events, done.proposed, done.waiting, done.left) == (0, 0, 6, 6, 0)
        waiting = await verbs.proposals("s")
        assert {each.action for each in waiting} == {MemoryAction.PROPOSE}
        assert {each.author for each in waiting} == {"openai/small"}
        found = next(each for each in waiting if each.after == KEPT)
        assert (found.turn_id, found.memory_id) == ("t002", "t002.summary")
        assert await entries(runtime) == []
        assert KEPT not in await texts_of(verbs)
        turn = await runtime.engine.prepare_turn("s", "What did Reed do with the key in turn 2?")
        assert KEPT not in shown(turn)
        assert KEPT not in str(turn.report.stream_b.candidates)
        (line,) = [each for each in turn.report.left_out if each.what == "proposals"]
        assert (line.code, line.count) == ("waiting", 6)


async def test_an_accepted_proposal_is_a_memory_with_the_text_that_the_person_gave_it(address, server):
    async with opened(address, server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        waiting = {each.memory_id: each for each in await verbs.proposals("s")}
        done = await verbs.accept("s", waiting["t002.summary"].edit_id)
        assert (done.action, done.author, done.after) == (MemoryAction.ACCEPT, "ana", KEPT)
        assert await verbs.accept("s", waiting["t002.summary"].edit_id) == done
        edited = await verbs.accept("s", waiting["t003.summary"].edit_id, "Reed lost the key in the well.")
        assert (edited.before, edited.after) == ("In turn 3 Reed kept the key.", "Reed lost the key in the well.")
        found = await texts_of(verbs)
        assert {KEPT, "Reed lost the key in the well."} <= set(found)
        assert "In turn 3 Reed kept the key." not in found
        assert set(await entries(runtime)) == {"t002.summary", "t003.summary"}
        assert len(await verbs.proposals("s")) == 4


async def test_decisions_are_undone_and_made_again(address, server):
    async with opened(address, server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        found = next(each for each in await verbs.proposals("s") if each.after == KEPT)
        accepted = await verbs.accept("s", found.edit_id)
        with pytest.raises(ConfigError, match="decided otherwise"):
            await verbs.reject("s", found.edit_id)
        assert (await verbs.undo("s", accepted.edit_id)).undone_by == "ana"
        assert KEPT not in await texts_of(verbs)
        assert await entries(runtime) == []
        assert found in await verbs.proposals("s")
        await verbs.accept("s", found.edit_id, "Reed hid the key.")
        assert "Reed hid the key." in await texts_of(verbs)
        other = next(each for each in await verbs.proposals("s") if each.memory_id == "t001.summary")
        rejected = await verbs.reject("s", other.edit_id)
        assert other not in await verbs.proposals("s")
        await verbs.undo("s", rejected.edit_id)
        assert other in await verbs.proposals("s")
        with pytest.raises(ConfigError, match="reject it"):
            await verbs.undo("s", other.edit_id)
        with pytest.raises(MemoryNotFoundError):
            await verbs.accept("s", "unknown")


async def test_an_acceptance_on_which_an_edit_builds_is_not_undone(address, server):
    async with opened(address, server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        found = next(each for each in await verbs.proposals("s") if each.after == KEPT)
        accepted = await verbs.accept("s", found.edit_id)
        edit = await verbs.edit("s", found.memory_id, "Reed sold the key.")
        with pytest.raises(ConfigError, match="undo that one first"):
            await verbs.undo("s", accepted.edit_id)
        await verbs.undo("s", edit.edit_id)
        await verbs.undo("s", accepted.edit_id)
        assert KEPT not in await texts_of(verbs)


async def test_rejected_turns_are_not_proposed_again(address, server):
    async with opened(address, server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        for each in await verbs.proposals("s"):
            await verbs.reject("s", each.edit_id)
        asked = len(server.requests)
        done = await runtime.engine.consolidate("s")
        assert (done.proposed, done.waiting, done.left) == (0, 0, 0)
        assert len(server.requests) == asked
        assert await verbs.proposals("s") == ()


async def test_a_narrative_is_proposed_of_accepted_summaries_alone_and_once(tmp_path, server):
    async with opened(str(tmp_path / "store"), server, turns=31) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        for each in await verbs.proposals("s"):
            await verbs.accept("s", each.edit_id)
        done = await runtime.engine.consolidate("s")
        assert done.proposed == 1
        (macro,) = await verbs.proposals("s")
        await verbs.reject("s", macro.edit_id)
        assert (await runtime.engine.consolidate("s")).proposed == 0


async def test_proposals_follow_their_branch(tmp_path, server):
    async with opened(str(tmp_path / "store"), server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        await runtime.engine.fork("s", "t001", "other")
        assert {each.turn_id for each in await verbs.proposals("s")} == {"t001"}


async def test_proposals_go_with_their_user_and_their_session(address, server):
    async with opened(address, server) as (runtime, verbs):
        await runtime.engine.consolidate("s")
        found = next(each for each in await verbs.proposals("s") if each.after == KEPT)
        secret = "Lin told Reed that the key opens the cellar of the bakery."
        said = Message(role=Role.USER, content=secret, author=Author(kind=AuthorKind.USER, id="lin"))
        await runtime.store.append_turns("s", (ImportedTurn(turn_id="t004", messages=(said,)),))
        await verbs.accept("s", found.edit_id, secret)
        assert (await runtime.forget(Erasure(at=AT, user_id="lin"))).done
        assert await runtime.store.find_text((secret,)) == ()
        assert (await runtime.forget(Erasure(at=AT, session_id="s"))).done
        assert await runtime.store.find_text((KEPT,)) == ()


async def test_what_a_model_remembers_by_its_tools_waits_for_the_person(tmp_path, server):
    async with opened(str(tmp_path / "store"), server) as (runtime, verbs):
        model = MemoryVerbs(runtime, author="mcp", is_model=True)
        first = await verbs.remember("s", "The boat key hangs behind the blue clock.")
        asked = await model.remember("s", "Wren likes pears best of all fruit.")
        assert (asked.action, asked.author) == (MemoryAction.PROPOSE, "mcp")
        assert await model.remember("s", "Wren likes pears best of all fruit.") == asked
        changed = await model.edit("s", first.edit_id, "The boat key lies under the red mat.")
        over = await model.supersede("s", first.edit_id)
        assert "Wren" not in str(await texts_of(verbs))
        assert [each.edit_id for each in await verbs.proposals("s")] == [
            asked.edit_id,
            changed.edit_id,
            over.edit_id,
        ]
        done = await verbs.accept("s", asked.edit_id)
        assert "Wren likes pears best of all fruit." in [e.text for e in await verbs.search("s", "Wren pears")]
        await verbs.accept("s", changed.edit_id)
        assert (await verbs.search("s", "boat key"))[0].text == "The boat key lies under the red mat."
        await verbs.undo("s", done.edit_id)
        assert "Wren likes pears best of all fruit." not in [e.text for e in await verbs.search("s", "Wren pears")]
        await verbs.reject("s", asked.edit_id)
        with pytest.raises(ConfigError, match="rejected"):
            await model.remember("s", "Wren likes pears best of all fruit.")


async def test_lore_that_a_model_changes_waits_and_is_undone(address, server):
    async with opened(address, server) as (runtime, verbs):
        world = replace(build_bare_world("w"), title="The mill")
        await runtime.engine.worlds.store_pack(with_own_digest(world))
        entry = await verbs.add_lore("w", "The mill is red.", title="mill")
        model = MemoryVerbs(runtime, author="mcp", is_model=True)
        added = await model.add_lore("w", "The well is deep.", title="well")
        changed = await model.edit_lore("w", entry.entry_id, text="The mill is blue.")
        assert ("proposed" in added.tags, "proposed" in changed.tags) == (True, True)
        assert [each.text for each in await verbs.lore("w")] == ["The mill is red."]
        assert set(await runtime.store.sessions()) - {"s"} == {world_session_id("w")}
        assert [each.session_id for each in await verbs.sessions()] == ["s"]
        first, second = await verbs.proposals("s")
        assert (first.after, second.before, second.after) == (
            "The well is deep.",
            "The mill is red.",
            "The mill is blue.",
        )
        for other in (MemoryVerbs(runtime, edits_lore=False), MemoryVerbs(runtime, viewer="eve")):
            assert await other.proposals("s") == ()
            with pytest.raises(MemoryNotFoundError):
                await other.accept("s", first.edit_id)
        done = [await verbs.accept("s", first.edit_id, "The well is dry."), await verbs.accept("s", second.edit_id)]
        assert [each.text for each in await verbs.lore("w")] == ["The mill is blue.", "The well is dry."]
        assert await verbs.proposals("s") == ()
        for each in done:
            await verbs.undo("s", each.edit_id)
        assert [each.text for each in await verbs.lore("w")] == ["The mill is red."]
        assert len(await verbs.proposals("s")) == 2
        await verbs.reject("s", first.edit_id)
        assert len(await verbs.proposals("s")) == 1
        await verbs.edit_lore("w", entry.entry_id, text="The mill is white.")
        with pytest.raises(ConfigError, match="changed since"):
            await verbs.accept("s", second.edit_id)
        assert [each.text for each in await verbs.lore("w")] == ["The mill is white."]


async def test_without_the_setting_nothing_waits(tmp_path, server):
    async with opened(str(tmp_path / "store"), server, review=False) as (runtime, verbs):
        done = await runtime.engine.consolidate("s")
        assert (done.summaries, done.proposed, done.waiting) == (3, 0, 0)
        model = MemoryVerbs(runtime, is_model=True)
        assert (await model.remember("s", "Wren likes pears best of all.")).action is MemoryAction.REMEMBER
        assert await verbs.proposals("s") == ()


@pytest.mark.parametrize("face", FACES)
async def test_proposals_are_decided_in_each_face(face, tmp_path, server):
    address = str(tmp_path / "store")
    async with opened(address, server) as (runtime, _):
        await runtime.engine.consolidate("s")
    async with FACES[face](tmp_path) as verbs:
        waiting = await verbs.call("proposals", "s")
        assert len(waiting) == 6
        ids = {each["memory_id"]: each["edit_id"] for each in waiting}
        done = await verbs.call("accept", "s", ids["t002.summary"])
        assert (done["action"], done["after"]) == ("accept", KEPT)
        edited = await verbs.call("accept", "s", ids["t003.summary"], "Reed lost the key in the well.")
        assert edited["after"] == "Reed lost the key in the well."
        over = await verbs.call("reject", "s", ids["t001.summary"])
        assert over["action"] == "reject"
        assert (await verbs.call("undo", "s", over["edit_id"]))["undone_by"] == "ana"
        assert len(await verbs.call("proposals", "s")) == 4


async def test_the_command_line_lists_what_waits(tmp_path, server):
    async with opened(str(tmp_path / "store"), server) as (runtime, _):
        await runtime.engine.consolidate("s")
    async with FACES["command"](tmp_path) as verbs:
        told = await to_thread.run_sync(verbs.run, "memory", "proposals", "-s", "s")
    assert "t002.summary.proposal" in told
    assert f"+ {KEPT}" in told


@pytest.mark.parametrize("review", [True, False])
async def test_the_tools_for_proposals_are_listed_where_there_are_any_and_ask_the_user_first(tmp_path, review):
    config = RuntimeConfig(profile="assistant", memory=MemoryConfig(review=review))
    service = ServiceSettings(store=str(tmp_path / "store"), embedder="none")
    async with TenantRuntimes(service, config) as tenants:
        server = build_server(Service(tenants=tenants), lambda _: RequestNote(principal=Principal()))
        async with Client(server) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
    assert ("accept_proposal" in tools) is review
    if review:
        assert "Ask the user first" in tools["accept_proposal"].description
        assert tools["memory_proposals"].annotations.read_only_hint
