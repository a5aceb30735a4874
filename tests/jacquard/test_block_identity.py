"""Ids of data and ids of our own blocks never meet, whatever the data are called."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers.scripted_model import ScriptedModel
from typer.testing import CliRunner

from jacquard import (
    BudgetConfig,
    CurationConfig,
    GreedyPriorityPruner,
    PruneConfig,
    RuntimeConfig,
    create_context_engine,
)
from jacquard.cli.app import app
from mnemosyne import (
    Chain,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryEntry,
    MemoryStore,
    Message,
    Ref,
    Role,
    SessionStart,
    SourceKind,
)
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.world import Injection, PlannerRules, WorldPack

TEMPLATES = Path(__file__).parents[2] / "templates"
DATA = Path(__file__).with_name("data")
LAYOUTS = ("classic", "cache_first", "layers")
INPUT = "What is the zqinput tower like?"
SESSION = "s"
STATE = {
    "location": "jetty",
    "quests": {"q1": {"id": "q1", "title": "Climb", "status": "active", "objectives": [{"id": "o1", "text": "Climb"}]}},
}


def manifests():
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(TEMPLATES.glob("*/template.yaml"))]


def our_ids():
    """Every id that a template, a layout or the code gives to something of its own, and what such ids are made with."""
    blocks = [block for manifest in manifests() for block in manifest.get("blocks", ())]
    slots = [slot for path in TEMPLATES.glob("layouts/*.yaml") for slot in yaml.safe_load(path.read_text())["slots"]]
    own = {block["id"] for block in blocks} | {block.get("slot", "") for block in blocks} | {s["slot"] for s in slots}
    own |= {"user_input", "frame", "history", "flesh", "rationale", "deterministic", "probabilistic", "evidence"}
    made = {
        f"{start}:{name}"
        for start in ("flesh", "host", "evidence", "directive", "message", "template", "memory", "turn")
        for name in ("status", "user_input", "rationale", "flesh:status")
    }
    return sorted((own | made) - {""})


CHAT = yaml.safe_load((TEMPLATES / "chat" / "template.yaml").read_text(encoding="utf-8"))
MUST = {block["id"] for block in CHAT["blocks"] if block.get("priority") == "must"}
OURS = our_ids()
IDS = st.sampled_from(OURS)


@dataclass(frozen=True)
class Named:
    """The ids of everything that one prompt is made of beside our own blocks."""

    lore: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    injections: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    narratives: tuple[str, ...] = ()
    evidences: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    words: int = 1


def marker(kind, place):
    return f"zq{kind}{place}"


def text(kind, place):
    mark = marker(kind, place)
    return f"tower {mark} {mark}b {mark}c {mark}d"


def entry(data, place, name, scope, **more):
    return MemoryEntry(entry_id=name, scope=scope, text=text(data, place), **more)


def world_of(names):
    scope = world_scope("isle")
    lore = [entry("lore", n, name, scope, chain=Chain.LORE, kind="encyclopedia") for n, name in enumerate(names.lore)]
    lore += [
        entry("directive", n, name, scope, chain=Chain.LORE, kind="directive", metadata={"constant": True})
        for n, name in enumerate(names.directives)
    ]
    axiom = MemoryEntry(entry_id="zqaxiom", scope=scope, chain=Chain.LORE, kind="axiom", text="The lamp burns.")
    return WorldPack(
        world_id="isle",
        title="The isle",
        locale="en",
        instruction="You tell a story.",
        persona={"name": "Narrator"},
        state=STATE,
        entities=(),
        lore=(*lore, axiom),
        actions=(),
        planner=PlannerRules(),
        prologue=(),
        narratives=(),
        digest="d",
        injections=tuple(
            Injection(injection_id=name, text=text("injection", n)) for n, name in enumerate(names.injections)
        ),
    )


def start_of(names):
    roles = (Role.USER, Role.ASSISTANT)
    turns = tuple(
        ImportedTurn(
            turn_id=f"zqturn{n}",
            messages=(
                Message(role=roles[n % 2], content=text("message", n) + ". Then more." * names.words, message_id=name),
            ),
        )
        for n, name in enumerate(names.messages)
    )
    narratives = tuple(
        entry("narrative", n, name, session_scope(SESSION), chain=Chain.NARRATIVE, kind="macro", depth=len(turns))
        for n, name in enumerate(names.narratives)
    )
    return SessionStart(session_id=SESSION, world_id="isle", locale="en", state=STATE, turns=turns, entries=narratives)


def config_of(names, layout, *, tokens=60_000, policy="greedy_priority", **more):
    return RuntimeConfig(
        layout=layout,
        prune=PruneConfig(policy=policy),
        instructions={name: text("instruction", n) for n, name in enumerate(names.instructions)},
        budget=BudgetConfig(max_input_tokens=tokens),
        curation=CurationConfig(
            select_limit=20,
            fallback_limit=20,
            relevance_floor=0,
            relevance_floor_past=0,
            flesh_tokens=8_000,
            deadline_ms=600_000,
            **more,
        ),
    )


@asynccontextmanager
async def playing(names, layout, *, model=None, pruner=None, **settings):
    store, world = MemoryStore(), world_of(names)
    try:
        await store.replace_world("isle", world.digest, world.lore)
        await store.create_session(start_of(names))
        for n, name in enumerate(names.evidences):
            source = EvidenceSource(kind=SourceKind.TOOL, name="look", uri=f"tool:{n}")
            held = Evidence(evidence_id=name, type=EvidenceType.TOOL_RESULT, source=source, content=text("evidence", n))
            await store.put_evidence(SESSION, held)
        config = config_of(names, layout, **settings)
        async with create_context_engine(store, None, model, config, world=world, pruner=pruner) as engine:
            yield engine, store
    finally:
        await store.close()


async def weave(names, layout):
    async with playing(names, layout) as (engine, store):
        turn = await engine.prepare_turn(SESSION, INPUT)
        held = {name: (await store.get_evidence(SESSION, name)).content for name in names.evidences}
        return turn, held


def block_of(turn, mark):
    """The decision of the one block in which a mark stands, by its span."""
    found = [
        span.block_id
        for span in turn.report.spans
        if re.search(rf"\b{mark}\b", turn.messages[span.message].content[span.start : span.end])
    ]
    assert len(found) == 1, (mark, found)
    (decision,) = [each for each in turn.report.decisions if each.block_id == found[0]]
    return decision


def check_prompt(turn):
    """What holds of every prompt: must blocks and input once, one decision a block, tokens that add up."""
    report, whole = turn.report, "\n".join(message.content for message in turn.messages)
    assert whole.count(INPUT) == 1
    for tag in ("status", "active_quests", "guidance", "axioms"):
        assert whole.count(f"<{tag}>\n") == 1
    names = [d.block_id for d in report.decisions]
    assert len(set(names)) == len(names)
    assert "frame" not in names
    assert [d.kind.value for d in report.decisions if d.source == "user"] == ["input"]
    own = [d for d in report.decisions if d.kind == "template" and d.block_id in MUST]
    assert Counter(d.block_id for d in own) == Counter(MUST)
    assert {(d.action.value, d.code) for d in own} == {("kept", "must")}
    spent = Counter()
    for span in report.spans:
        spent[span.block_id, span.kind] += span.tokens
    frame = spent.pop(("frame", ""))
    standing = {(d.block_id, d.kind): d.tokens for d in report.decisions if d.action.value != "dropped"}
    assert dict(spent) == standing
    assert frame + sum(standing.values()) == report.budget.used_tokens == sum(span.tokens for span in report.spans)


def check_sources(turn, names):
    """Each text of the data stands once, in a block of its own kind, and its evidence leads back to it."""
    expected = {
        "lore": ("memory", names.lore),
        "narrative": ("memory", names.narratives),
        "directive": ("directive", names.directives),
        "injection": ("injection", names.injections),
        "message": ("message", names.messages),
        "evidence": ("evidence", names.evidences),
        "instruction": ("instruction", names.instructions),
    }
    for kind, (block_kind, own) in expected.items():
        for place in range(len(own)):
            assert block_of(turn, marker(kind, place)).kind == block_kind
    for ids in (
        [each.block_id for each in turn.context_blocks],
        [each.evidence_id for each in turn.evidences],
        [each.id for each in turn.package.evidence],
        [each.entry_id for each in turn.report.stream_b.candidates],
    ):
        assert len(set(ids)) == len(ids)
    addresses = {marker("lore", n): f"mnemosyne://world:isle/lore/{name}" for n, name in enumerate(names.lore)}
    addresses |= {
        marker("narrative", n): f"mnemosyne://session:s/narrative/{name}" for n, name in enumerate(names.narratives)
    }
    addresses |= {
        marker("evidence", n): f"mnemosyne://session:s/evidence/{name}" for n, name in enumerate(names.evidences)
    }
    told = {re.search(r"zq[a-z]+\d+", item.snippet)[0]: item.source_uri for item in turn.package.evidence}
    assert {mark: uri for mark, uri in addresses.items() if mark in told} == told
    by_id = {each.evidence_id: each for each in turn.evidences}
    for block in turn.context_blocks:
        for ref in block.refs:
            shown = by_id.get(ref.evidence_id)
            assert (shown is None) == (block.block_type == "evidence" and ref.evidence_id in names.evidences)
            decision = next(d for d in turn.report.decisions if d.block_id == block.block_id)
            assert shown is None or block_of(turn, re.search(r"zq[a-z]+\d+", shown.content)[0]) == decision


def unique_ids(most):
    return st.lists(IDS, unique=True, max_size=most).map(tuple)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=settings.default.max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_the_data_are_called_the_prompt_is_whole(layout, data):
    lore = data.draw(unique_ids(6), "lore and directives")
    said = data.draw(unique_ids(5), "messages and narratives")
    names = Named(
        lore=lore[:3],
        directives=lore[3:],
        injections=data.draw(unique_ids(2), "injections"),
        messages=said[:3],
        narratives=said[3:],
        evidences=data.draw(unique_ids(3), "evidences"),
        instructions=data.draw(unique_ids(2), "instructions"),
    )
    turn, held = anyio.run(weave, names, layout)
    check_prompt(turn)
    check_sources(turn, names)
    assert held == {name: text("evidence", n) for n, name in enumerate(names.evidences)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OURS)
def test_one_id_for_everything(layout, name):
    names = Named(
        lore=(name,),
        injections=(name,),
        messages=(name,),
        narratives=(f"{name}.summary",),
        evidences=(name,),
        instructions=(name,),
    )
    turn, held = anyio.run(weave, names, layout)
    check_prompt(turn)
    check_sources(turn, names)
    assert held == {name: text("evidence", 0)}


@pytest.mark.anyio
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_corpus_of_our_ids_takes_nothing_from_the_prompt(layout):
    names = Named(narratives=("status", "guidance", "active_quests", "user_input"))
    async with playing(names, layout) as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
        check_prompt(turn)
        check_sources(turn, names)


@pytest.mark.anyio
@pytest.mark.parametrize("policy", ["greedy_priority", "group_aware", "degrade_to_summary"])
@pytest.mark.parametrize("tokens", [1800, 2000, 2200])
async def test_what_is_pruned_is_never_a_namesake(tokens, policy):
    """Under a budget that is short, what goes or is shortened goes by its own id, and must blocks stay."""
    names = Named(
        lore=("status", "user_input"),
        directives=("guidance",),
        messages=("status", "instruction", "flesh:status", "user_input", "frame", "host:status"),
        evidences=("status", "turn:zqturn1"),
        instructions=("status",),
        words=60,
    )
    async with playing(names, "cache_first", tokens=tokens, policy=policy) as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
    check_prompt(turn)
    assert {d.action.value for d in turn.report.decisions} > {"kept"}


@pytest.mark.anyio
async def test_ids_that_nobody_else_has_stay_as_they_are():
    names = Named(lore=("key",), directives=("poem",), messages=("m1",), evidences=("e1",), instructions=("tone",))
    async with playing(names, "classic") as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
    shown = {d.block_id for d in turn.report.decisions}
    assert {"flesh:key", "poem", "m1", "evidence:e1", "host:tone", "user_input", "status"} <= shown
    assert [each.evidence_id for each in turn.evidences] == ["key"]
    assert turn.report.stream_b.selected == ("key",)


@pytest.mark.anyio
async def test_a_directive_is_called_the_same_whether_its_namesake_is_there_or_not():
    async with playing(Named(directives=("todo",)), "classic") as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
    assert "todo" not in {each.block_id for each in turn.context_blocks}
    assert block_of(turn, "zqdirective0").block_id == "directive:todo"
    blocks = [block for block in turn.package.developer_blocks if "zqdirective0" in block.text]
    assert [block.source["memory_item_id"] for block in blocks] == ["todo"]


@pytest.mark.anyio
async def test_a_world_and_a_session_may_use_one_id():
    """Both are recalled, chosen, shown and kept as evidence, and stay the same evidence from turn to turn."""
    names = Named(lore=("p001.summary",), narratives=("p001.summary",), evidences=("look",))
    async with playing(names, "classic") as (engine, store):
        first = await engine.prepare_turn(SESSION, INPUT)
        check_prompt(first)
        check_sources(first, names)
        await engine.commit_assistant_message(SESSION, "Tall.")
        second = await engine.prepare_turn(SESSION, INPUT.replace("like", "made of"))
        ids = [{each.source.uri: each.evidence_id for each in turn.evidences} for turn in (first, second)]
        assert ids[0] == ids[1]
        assert len(ids[0]) == 2
        held = [await store.get_evidence(SESSION, evidence_id) for evidence_id in ids[0].values()]
        assert {each.source.uri for each in held} == set(ids[0])


@pytest.mark.anyio
async def test_a_recalled_entry_never_writes_over_what_a_tool_answered():
    names = Named(lore=("e1",), evidences=("e1",))
    async with playing(names, "classic") as (engine, store):
        turn = await engine.prepare_turn(SESSION, INPUT)
        check_sources(turn, names)
        assert (await store.get_evidence(SESSION, "e1")).content == text("evidence", 0)
        for evidence in turn.evidences:
            assert (await store.get_evidence(SESSION, evidence.evidence_id)).content == text("lore", 0)
        cited = Ref(evidence_id=turn.evidences[0].evidence_id)
        await engine.commit_assistant_message(SESSION, "Tall.", refs=[cited])


@pytest.mark.anyio
async def test_a_message_in_the_prompt_hides_no_lore_of_its_id():
    names = Named(lore=("m1",), messages=("m1",))
    async with playing(names, "classic") as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
    check_sources(turn, names)


@pytest.mark.anyio
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_memory_with_the_id_of_a_message_breaks_no_prompt(layout):
    names = Named(messages=("m1", "m2"), narratives=("m1", "m2"))
    async with playing(names, layout) as (engine, _):
        turn = await engine.prepare_turn(SESSION, INPUT)
    check_prompt(turn)
    assert [block_of(turn, marker("message", n)).kind.value for n in range(2)] == ["message"] * 2


def choose_all(pool):
    return re.findall(r'<item id="([^"]*)"', pool) or re.findall(r'\bid="([^"]*)"', pool)


@pytest.mark.anyio
async def test_a_model_tells_entries_of_one_id_apart_and_a_lease_remembers_which():
    model, names = ScriptedModel(choose_all), Named(lore=("p1",), narratives=("p1",))
    async with playing(names, "classic", model=model, lease_turns=3) as (engine, _):
        first = await engine.prepare_turn(SESSION, INPUT)
        assert first.report.stream_b.path.value == "selected"
        check_sources(first, names)
        await engine.commit_assistant_message(SESSION, "Tall.")
        second = await engine.prepare_turn(SESSION, "And the zqinput tower?")
        assert second.report.stream_b.path.value == "leased"
        check_sources(second, names)


class Unkind:
    """A pruner of a host's that was written before there were kinds."""

    def prune(self, blocks, budget, rules=None):
        shipped = GreedyPriorityPruner()
        done = shipped.prune(blocks, budget) if rules is None else shipped.prune(blocks, budget, rules)
        return replace(done, decisions=tuple(replace(each, kind=type(each.kind)("")) for each in done.decisions))


@pytest.mark.anyio
async def test_a_pruner_need_not_know_of_kinds():
    async with playing(Named(lore=("status",)), "cache_first", pruner=Unkind()) as (engine, _):
        check_prompt(await engine.prepare_turn(SESSION, INPUT))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done.stdout

    return call


LORE = ("status", "user_input", "guidance", "frame", "flesh:status", "rationale")
DIRECTIVES = ("active_quests", "instruction", "host:status")


def write_pack(folder, *, template=""):
    (folder / "lore").mkdir(parents=True)
    world = {"id": "isle", "title": "The isle", "locale": "en", "instruction": "You tell a story.", "user_name": "Ada"}
    world |= {"persona": {"name": "Narrator"}, "state": {"location": "jetty"}}
    rows = [
        {"id": name, "name": f"N{n}", "category": "encyclopedia", "content": text("lore", n)}
        for n, name in enumerate(LORE)
    ]
    rows += [
        {"id": name, "name": f"D{n}", "category": "directive", "keys": ["tower"], "content": text("directive", n)}
        for n, name in enumerate(DIRECTIVES)
    ]
    rows.append({"id": "axioms", "name": "Light", "category": "axiom", "content": "The lamp burns."})
    quest = {"id": "guide", "title": "Climb", "status": "active", "objectives": [{"id": "o1", "text": "Climb"}]}
    files = {"world.yaml": world, "lore/all.yaml": rows, "quests.yaml": [quest]}
    files["injections.yaml"] = [{"id": "todo", "title": "Fog", "text": text("injection", 0)}]
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8")
    if template:
        (folder / "templates" / "chat").mkdir(parents=True)
        (folder / "templates" / "chat" / "status.j2").write_text(template, encoding="utf-8")
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_from_a_pack_through_the_command_line(run, tmp_path, layout):
    """weave, explain, replay and the session document tell our blocks from data of the same ids."""
    pack, config = write_pack(tmp_path / "pack"), tmp_path / "config.yaml"
    told = {"layout": layout, "instructions": {"status": text("instruction", 0)}}
    told["curation"] = {"fallback_limit": 20, "relevance_floor": 0, "flesh_tokens": 20_000, "deadline_ms": 600_000}
    told["budget"] = {"max_input_tokens": 60_000}
    config.write_text(yaml.safe_dump(told), encoding="utf-8")
    run("author", "validate", pack)
    args = ("--session", SESSION, "--world", pack, "--config", config)
    turn = json.loads(run("play", "weave", *args, "--embedder", "none", "--json", "--input", INPUT))
    whole = "\n".join(message["content"] for message in turn["messages"])
    assert whole.count(INPUT) == 1
    kept = Counter(
        d["block_id"] for d in turn["report"]["decisions"] if d["kind"] == "template" and d["code"] == "must"
    )
    assert kept == Counter(MUST)
    spent = json.loads(run("play", "explain", "--json"))["tokens_by_block"]
    assert sum(spent.values()) == turn["report"]["budget"]["used_tokens"]
    assert {d["block_id"]: d["tokens"] for d in turn["report"]["decisions"] if d["action"] == "kept"} == {
        name: tokens for name, tokens in spent.items() if name != "frame"
    }
    for kind, own, chain in (("lore", LORE, "memory"), ("directive", DIRECTIVES, "directive")):
        for place, name in enumerate(own):
            (origin,) = json.loads(run("play", "explain", "--find", marker(kind, place) + " ", "--json"))["origins"]
            assert origin["decision"]["kind"] == origin["span"]["kind"] == chain
            address = origin["uri"]
            assert json.loads(run("memory", "source", address))["entry_id"] == name
            if kind == "lore":
                assert origin["candidate"]["uri"] == address
    (origin,) = json.loads(run("play", "explain", "--find", "zqinjection0 ", "--json"))["origins"]
    assert (origin["decision"]["kind"], origin["uri"]) == ("injection", "")
    (origin,) = json.loads(run("play", "explain", "--find", INPUT, "--json"))["origins"]
    assert (origin["decision"]["kind"], origin["span"]["block_id"]) == ("input", "user_input")
    (origin,) = json.loads(run("play", "explain", "--find", "location: jetty", "--json"))["origins"]
    assert (origin["decision"]["block_id"], origin["template"]) == ("status", "chat/status.j2")
    run("play", "commit", "--session", SESSION, "--text", "Tall.")
    (again,) = json.loads(run("author", "replay", "--json"))["turns"]
    assert again["same"]
    assert again["templates"]["blocks"] == []
    shown = json.loads(run("author", "template", "preview", "--world", pack, "--session", SESSION, "--json"))
    assert shown["messages"] == turn["messages"]
    assert {row["block_id"]: row["tokens"] for row in shown["blocks"]} == {
        name: tokens for name, tokens in spent.items() if name != "frame"
    }
    run("operate", "doc", "export", SESSION, "--out", tmp_path / "session.json")
    run("operate", "doc", "validate", tmp_path / "session.json")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pack_may_still_write_its_own_status(run, tmp_path, layout):
    pack = write_pack(tmp_path / "pack", template="<status>\nzqown {{ status.location }}\n</status>\n")
    args = ("--session", SESSION, "--world", pack, "--layout", layout, "--embedder", "none", "--json")
    turn = json.loads(run("play", "weave", *args, "--input", INPUT))
    (own,) = [d for d in turn["report"]["decisions"] if d["block_id"] == "status"]
    assert (own["kind"], own["action"]) == ("template", "kept")
    assert sum(message["content"].count("zqown jetty") for message in turn["messages"]) == 1


def test_what_was_recorded_without_kinds_plays_on(run, tmp_path):
    """All ids shared one namespace then: the blocks get kinds, the turns come out byte for byte, and new ones are whole."""
    shutil.copytree(DATA / "store_before_block_kinds", tmp_path / "old")
    pack, store = DATA / "pack_block_ids", ("--store", f"file:{tmp_path / 'old'}")
    run("operate", "migrate", *store)
    assert "2 of 2 recorded turns came out byte for byte" in run("author", "replay", *store)
    old = json.loads(run("play", "explain", "--json", *store))["report"]
    assert {d["kind"] for d in old["decisions"]} == {"template", "instruction", "memory", "message", "input"}
    (origin, *_) = json.loads(run("play", "explain", "--find", "ninety steps", "--json", *store))["origins"]
    assert origin["uri"] == "mnemosyne://world:isle/lore/active_quests"
    assert origin["candidate"]["entry_id"] == "active_quests"
    run("play", "commit", "--session", SESSION, "--world", pack, "--text", "On.", *store)
    args = ("--session", SESSION, "--world", pack, "--layout", "cache_first", "--embedder", "none", *store)
    turn = json.loads(run("play", "weave", *args, "--json", "--input", "What do stairs, bell and cellar look like?"))
    must = Counter(
        d["block_id"] for d in turn["report"]["decisions"] if d["code"] == "must" and d["kind"] == "template"
    )
    assert must == Counter(MUST)
    run("play", "commit", "--session", SESSION, "--world", pack, "--text", "Old.", *store)
    assert "4 of 4 recorded turns came out byte for byte" in run("author", "replay", *store)
    other = tmp_path / "other.yaml"
    other.write_text("layout: classic\nhistory: {max_messages: 2}\n", encoding="utf-8")
    played = json.loads(run("author", "replay", "--config", other, "--json", *store))
    assert all(not each["fault"] for each in played["turns"])
