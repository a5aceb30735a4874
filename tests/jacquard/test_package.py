"""The ContextPackage of a prepared turn: evidence that leads back, limits that hold, messages in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from filament import unescape
from jacquard import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    RuntimeConfig,
    SummaryConfig,
    find_origins,
    open_runtime,
)
from jacquard.config.sections import PackageConfig
from jacquard.pipeline.record.package import constrain, document_of, source_of, to_messages
from jacquard.pipeline.record.prepared_turn import turn_to_json
from mnemosyne import Chain, Evidence, MemoryEntry, ToolCall
from mnemosyne.chains.uris import (
    EntryAddress,
    EvidenceAddress,
    TurnAddress,
    entry_uri,
    format_uri,
    parse_uri,
    resolve_uri,
    turn_uri,
)
from mnemosyne.core.errors import TurnNotFoundError, UriError
from mnemosyne.documents.json_schema import package_schema
from mnemosyne.documents.package_json import package_from_json, package_to_json
from mnemosyne.schema.package import ContextPackage, EvidenceItem, PackageBlock, PackageMessage
from mnemosyne.schema.record import TurnRecord

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "zh"
QUESTION = "那把钥匙是不是开启神庙的?我记得之前好像提到过。"
EVERYTHING = RuntimeConfig(
    history=HistoryConfig(max_messages=20),
    summary=SummaryConfig(enabled=False),
    budget=BudgetConfig(max_input_tokens=60_000),
    curation=CurationConfig(
        fallback_limit=50,
        select_limit=50,
        relevance_floor=0,
        relevance_floor_past=0,
        flesh_tokens=20_000,
        deadline_ms=20_000,
    ),
    package=PackageConfig(by_document=50, by_source=50),
)


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", world=FOREST, embedder="none") as opened:
        await opened.ensure_session("s")
        yield opened


def item(name, *, document="", uri="", source="memory"):
    return EvidenceItem(
        id=name,
        source=source,
        source_uri=uri or f"mnemosyne://session:s/event/{name}",
        title="",
        snippet=name,
        mode="exact",
        score=1.0,
        ref={"document_id": document} if document else {},
    )


items = st.lists(
    st.builds(
        item,
        st.uuids().map(str),
        document=st.sampled_from(["", "a", "b"]),
        uri=st.sampled_from(["", "https://x.test/1", "https://y.test/2", "file:///a", "http://[", "nonsense"]),
    ),
    max_size=20,
    unique_by=lambda each: each.id,
)


@given(items, st.integers(1, 4), st.integers(1, 6))
def test_no_document_and_no_source_has_more_than_its_share(given_items, by_document, by_source):
    kept, cuts = constrain(given_items, by_document=by_document, by_source=by_source)
    gone = {cut.item_id for cut in cuts}
    assert [each for each in given_items if each.id not in gone] == list(kept)
    assert len(kept) + len(cuts) == len(given_items)
    for name in map(document_of, kept):
        assert sum(document_of(each) == name for each in kept) <= by_document
    for name in map(source_of, kept):
        assert sum(source_of(each) == name for each in kept) <= by_source
    assert constrain(kept, by_document=by_document, by_source=by_source) == (kept, ())


@given(items)
def test_the_best_of_each_document_that_a_source_admits_stays(given_items):
    kept, _ = constrain(given_items, by_document=1, by_source=100)
    firsts = {document_of(each): each for each in reversed(given_items)}
    assert {each.id for each in kept} == {each.id for each in firsts.values()}


def test_sources_of_addresses():
    assert source_of(item("a")) == "session:s/event"
    assert source_of(item("a", uri="https://x.test/a?b")) == "https://x.test"
    assert source_of(item("a", uri="mnemosyne://session:s/turn/t1")) == "session:s/turn"
    assert source_of(item("a", uri="nowhere", source="resource")) == "resource"


names = st.text(min_size=1, max_size=8)


@given(names, st.sampled_from(Chain), names)
def test_an_address_reads_as_it_was_written(scope, chain, name):
    address = EntryAddress(scope=scope, chain=chain, entry_id=name)
    assert parse_uri(format_uri(address)) == address
    for other in (TurnAddress(session_id=scope, turn_id=name), EvidenceAddress(session_id=scope, evidence_id=name)):
        assert parse_uri(format_uri(other)) == other


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://x.test/a/b/c",
        "mnemosyne://a/lore",
        "mnemosyne://a/lore/b/c",
        "mnemosyne://a/dreams/b",
        "mnemosyne:///lore/b",
        "mnemosyne://world:w/turn/t1",
        "mnemosyne://world:w/evidence/e1",
        "mnemosyne://a/lore/%ff",
    ],
)
def test_what_is_no_address_is_refused(uri):
    with pytest.raises(UriError, match="leads nowhere"):
        parse_uri(uri)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text):
    try:
        address = parse_uri(f"mnemosyne://{text}")
    except UriError:
        return
    assert parse_uri(format_uri(address)) == address


async def test_a_package_says_what_it_cost_how_its_items_were_found_and_why_they_were_chosen(tmp_path):
    async with open_runtime(tmp_path / "store", world=FOREST, embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", QUESTION)
        other = await runtime.engine.prepare_turn("s", "失落的项链后来找到了吗?")
    package = turn.package
    assert package.context_id == turn.turn_id != other.package.context_id
    assert package.created_at.tzinfo is not None
    assert package.constraints["token_budget"] == {
        "limit": turn.report.budget.limit_tokens,
        "used_estimate": turn.report.budget.used_tokens,
    }
    assert f"<summary>\n{package.working_summary}\n</summary>" in turn.text
    assert package.debug["planner"]["intent"] == "narrative"
    assert {"神庙钥匙", "森林神庙"} <= set(package.debug["planner"]["queries"])
    assert len(package.debug["why_selected"]) == len(package.evidence)
    for each in package.evidence:
        assert each.mode in {"exact", "semantic", "hybrid", "relational", "associative"}
        assert each.signals["rrf_score"] > 0
        assert each.provenance["request_id"] == turn.turn_id
        assert set(each.provenance) == {"request_id", "plan_version", "retrieved_at"}
        assert any(f" {each.id}: score=" in why for why in package.debug["why_selected"])


async def test_every_item_of_a_turn_leads_back_to_what_it_names(runtime):
    turn = await runtime.engine.prepare_turn("s", "失落的项链后来找到了吗?", EVERYTHING)
    package = turn.package
    assert len(package.evidence) > 20
    chains = set()
    for each in package.evidence:
        found = await resolve_uri(runtime.store, each.source_uri)
        assert isinstance(found, MemoryEntry)
        chains.add((found.chain, found.kind == "quest"))
        assert (found.entry_id, found.title) == (each.id, each.title)
        assert found.text.startswith(each.snippet.removesuffix("…"))
        assert each.ref["memory_item_id"] == each.id
        assert each.source == ("resource" if found.chain is Chain.LORE else "memory")
        if "turn_id" in each.ref:
            told = await resolve_uri(runtime.store, turn_uri("s", each.ref["turn_id"]))
            assert isinstance(told, TurnRecord)
    assert chains >= {(Chain.LORE, False), (Chain.NARRATIVE, False), (Chain.EVENT, False), (Chain.EVENT, True)}
    assert {evidence.source.uri for evidence in turn.evidences} == {each.source_uri for each in package.evidence}


async def test_what_a_tool_answered_is_an_item_that_leads_back_to_it(runtime):
    call = ToolCall(tool_call_id="c1", tool="harbour", args_digest={"ship": "Gannet"})
    await runtime.engine.record_tool_call("s", call, result="鸬鹚号天亮前出港，载了九桶 <灯油>。")
    turn = await runtime.engine.prepare_turn("s", "鸬鹚号什么时候出的港？", EVERYTHING)
    (item,) = (each for each in turn.package.evidence if each.group == "results")
    assert (item.source, item.title, item.snippet) == ("resource", "harbour", "鸬鹚号天亮前出港，载了九桶 <灯油>。")
    evidence = await resolve_uri(runtime.store, item.source_uri)
    assert isinstance(evidence, Evidence)
    assert evidence.content == item.snippet
    assert source_of(item) == "session:s/evidence"
    assert any(item.id in why for why in turn.package.debug["why_selected"])
    assert "九桶 &lt;灯油&gt;" in to_messages(turn.package)[-2].content
    (origin,) = find_origins(turn, "鸬鹚号天亮前出港")
    assert origin.uri == item.source_uri


async def test_addresses_of_nothing(runtime):
    nowhere = ("session:s/event/gone", "world:x/lore/gone", "session:s/evidence/gone")
    for gone in (f"mnemosyne://{each}" for each in nowhere):
        with pytest.raises(UriError, match="nothing has this name"):
            await resolve_uri(runtime.store, gone)
    with pytest.raises(TurnNotFoundError):
        await resolve_uri(runtime.store, turn_uri("s", "gone"))
    lore = (await resolve_uri(runtime.store, "mnemosyne://world:whispering_forest/lore/lore_temple_key")).entry_id
    assert lore == "lore_temple_key"
    with pytest.raises(UriError, match="nothing has this name"):
        await resolve_uri(runtime.store, "mnemosyne://world:whispering_forest/event/lore_temple_key")


async def test_limits_hold_and_are_told(runtime):
    limits = PackageConfig(by_document=1, by_source=2, recent_turns_max=3, snippets_max_chars=20)
    turn = await runtime.engine.prepare_turn("s", QUESTION, replace(EVERYTHING, package=limits))
    package = turn.package
    diversity, truncation = package.constraints["diversity"], package.constraints["truncation"]
    assert (diversity["by_document"], diversity["by_source"]) == (1, 2)
    assert (diversity["most_of_one_document"], diversity["most_of_one_source"]) == (1, 2)
    assert diversity["cut"] > 0
    assert len(package.evidence) + diversity["cut"] == len(turn.evidences)
    assert sum("diversity." in line for line in package.debug["ignored"]) == diversity["cut"]
    assert max(len(each.snippet) for each in package.evidence) == 20
    assert truncation["snippets_cut"] == sum(each.snippet.endswith("…") for each in package.evidence)
    assert sum(message.role == "user" for message in package.recent_turns) == truncation["recent_turns"] == 3
    assert package.recent_turns[0].role == "user"
    assert truncation["recent_turns_cut"] > 0
    assert any(line.startswith("recent_turns: ") for line in package.debug["ignored"])
    assert len(package.debug["why_selected"]) == len(package.evidence)


async def test_a_turn_s_package_is_valid_and_says_what_was_said(runtime):
    await runtime.engine.prepare_turn("s", "<system>&", EVERYTHING)
    await runtime.engine.commit_assistant_message("s", "<content>1 < 2 &amp; 3</content>")
    turn = await runtime.engine.prepare_turn("s", QUESTION)
    data = turn_to_json(turn)["package"]
    Draft202012Validator(package_schema()).validate(data)
    package, ignored = package_from_json(data)
    assert ignored == ()
    assert package_to_json(package) == data
    assert [message.content for message in package.recent_turns[-2:]] == ["<system>&", "1 < 2 & 3"]
    assert package.user_message.content == QUESTION
    assert [block.type for block in package.developer_blocks] == ["format_rules", "other", "other"]
    assert "core_profile" in {block.type for block in package.system_blocks}
    assert {block.updated_at for block in package.system_blocks} == {None, package.created_at}


def test_messages_stand_in_the_order_of_the_specification():
    package = ContextPackage(
        context_id="c",
        session_id="s",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        system_blocks=(PackageBlock(type="core_profile", text="S1"), PackageBlock(type="goals", text="S2")),
        developer_blocks=(PackageBlock(type="format_rules", text="D"),),
        working_summary="so <far>",
        recent_turns=(PackageMessage(role="user", content="</b>"), PackageMessage(role="assistant", content="ok")),
        evidence=(replace(item("e1"), title='a"b', snippet="x</evidence>\n<evidence>"),),
        user_message=PackageMessage(role="user", content="1 < 2"),
    )
    told = [(message.role, message.content) for message in to_messages(package)]
    assert told == [
        ("system", "S1\n\nS2"),
        ("developer", "D"),
        ("system", "Summary:\nso &lt;far&gt;"),
        ("user", "&lt;/b&gt;"),
        ("assistant", "ok"),
        (
            "system",
            'Evidence:\n<evidence id="e1" source_uri="mnemosyne://session:s/event/e1" title="a&quot;b">'
            "x&lt;/evidence&gt;\n&lt;evidence&gt;</evidence>",
        ),
        ("user", "1 &lt; 2"),
    ]
    plain = [(message.role, message.content) for message in to_messages(package, developer_role=False)]
    assert plain == [("system", "S1\n\nS2\n\nD"), *told[2:]]
    bare = replace(package, system_blocks=(), developer_blocks=(), working_summary="", recent_turns=(), evidence=())
    assert [(m.role, m.content) for m in to_messages(bare)] == [("user", "1 &lt; 2")]


@given(st.text(), st.text(), st.text())
def test_no_text_breaks_out_of_its_message(snippet, title, said):
    package = ContextPackage(
        session_id="s",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        evidence=(replace(item("e1"), title=title, snippet=snippet), item("e2")),
        user_message=PackageMessage(role="user", content=said),
    )
    evidence, user = to_messages(package)
    assert evidence.content.count("<") == evidence.content.count(">") == 4
    assert "<" not in user.content
    assert unescape(user.content) == unescape(user.content.replace("\r", ""))


async def test_an_entry_s_address_escapes_what_stands_in_the_way(runtime):
    entry = MemoryEntry(entry_id="a/b c:%", scope="session:墨点/1", chain=Chain.EVENT, kind="x", text="")
    assert entry_uri(entry) == "mnemosyne://session:%E5%A2%A8%E7%82%B9%2F1/event/a%2Fb%20c:%25"
    assert parse_uri(entry_uri(entry)) == EntryAddress(scope="session:墨点/1", chain=Chain.EVENT, entry_id="a/b c:%")
