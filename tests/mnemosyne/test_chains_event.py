from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Chain
from mnemosyne.chains.event import closed_quests, quest_distances, quest_events
from mnemosyne.chains.session_start import session_start
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus
from mnemosyne.schema.world import PlannerRules, PrologueEvent, PrologueNarrative, PrologueTurn, WorldPack

AT = datetime(2026, 1, 31, tzinfo=UTC)


def quest(quest_id: str, status: str = "active", **fields) -> dict:
    return {"id": quest_id, "title": quest_id.upper(), "status": status, **fields}


STATE = {
    "quests": {
        "well": quest("well", "completed", description="找井", outcome="找到了", entities=["井"]),
        "key": quest("key", "completed", links={"requires": ["well", "map"], "leads_to": ["temple"]}),
        "temple": quest("temple", links={"leads_to": ["king"]}),
        "map": quest("map", ["failed", "烧掉了"]),
        "king": quest("king", "inactive", links={"parent": "saga"}),
        "saga": quest("saga"),
        "fish": quest("fish"),
        "$meta": {"extensible": True},
        "broken": "not a quest",
    }
}


def test_closed_quests_are_candidates_of_the_event_chain():
    found = closed_quests(STATE, "s1")
    assert [(entry.entry_id, entry.tags) for entry in found] == [
        ("well", ("completed",)),
        ("key", ("completed",)),
        ("map", ("failed",)),
    ]
    assert found[0].text == "WELL\n找井\n找到了"
    assert (found[0].chain, found[0].kind, found[0].quest_id, found[0].scope) == (
        Chain.EVENT,
        "quest",
        "well",
        "session:s1",
    )
    assert found[0].entities == ("井",)
    assert closed_quests({}, "s1") == ()


def test_distances_go_both_ways_along_links():
    assert quest_distances(STATE, "temple") == {"temple": 0, "key": 1, "king": 1, "well": 2, "map": 2, "saga": 2}
    assert quest_distances(STATE, "fish") == {"fish": 0}
    assert quest_distances(STATE, None) == {}
    assert quest_distances(STATE, "unknown") == {}


def test_links_may_name_a_quest_by_its_key():
    state = {"quests": {"a_key": quest("a", links={"leads_to": "b_key"}), "b_key": quest("b")}}
    assert quest_distances(state, "b") == {"b": 0, "a": 1}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.integers(0, 5))
def test_distances_are_those_of_the_graph(edges, focus):
    quests = {f"q{n}": quest(f"q{n}", links={"requires": [f"q{b}" for a, b in edges if a == n]}) for n in range(6)}
    found = quest_distances({"quests": quests}, f"q{focus}")
    reached, frontier, hops = {focus: 0}, {focus}, 0
    while frontier:
        hops += 1
        near = {b for a, b in edges if a in frontier} | {a for a, b in edges if b in frontier}
        frontier = near - reached.keys()
        reached |= dict.fromkeys(frontier, hops)
    assert found == {f"q{n}": hops for n, hops in reached.items()}
    assert list(found.values()) == sorted(found.values())


def test_a_change_of_status_is_an_event_of_the_turn():
    after = {
        "quests": {**STATE["quests"], "temple": quest("temple", "completed", outcome="门开了"), "new": quest("new")}
    }
    record = TurnRecord(
        turn_id="t7",
        session_id="s1",
        branch_id="main",
        depth=7,
        parent_id=None,
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.PREPARED,
        messages=(),
    )
    events = quest_events(STATE, after, record, AT)
    assert [(event.entry_id, event.text) for event in events] == [
        ("t7.quest.temple", "TEMPLE: active → completed\n门开了"),
        ("t7.quest.new", "NEW: active"),
    ]
    assert (events[0].kind, events[0].depth, events[0].at, events[0].quest_id) == ("quest_update", 7, AT, "temple")
    assert quest_events(STATE, STATE, record, AT) == ()


def test_a_session_starts_from_its_world():
    world = WorldPack(
        world_id="w",
        title="W",
        locale="zh",
        instruction="",
        persona={"name": "旁白"},
        state={"hero": {"id": "hero"}},
        entities=(),
        lore=(),
        actions=(),
        planner=PlannerRules(),
        prologue=(
            PrologueTurn(user="你好", assistant="欢迎", summary="相遇"),
            PrologueTurn(
                user="",
                assistant="天黑了",
                events=(
                    PrologueEvent(
                        event_id="e1", type="plot_point", summary="夜", participants=("hero",), location="林"
                    ),
                ),
            ),
        ),
        narratives=(PrologueNarrative(narrative_id="n1", title="开端", text="很久以前", from_turn=1, to_turn=2),),
        digest="d",
        user_name="林",
    )
    start = session_start("s1", world, AT)
    assert [[message.message_id for message in turn.messages] for turn in start.turns] == [
        ["p001.u", "p001.a"],
        ["p002.a"],
    ]
    first = start.turns[0].messages
    assert [message.author.id for message in first if message.author] == ["林", "旁白"]
    assert [(entry.entry_id, entry.chain.value, entry.kind, entry.turn_id, entry.depth) for entry in start.entries] == [
        ("p001.summary", "narrative", "turn_summary", "p001", 1),
        ("e1", "event", "plot_point", "p002", 2),
        ("n1", "narrative", "macro", "p002", 2),
    ]
    assert start.entries[1].entities == ("hero", "林")
    assert (start.world_id, start.locale, start.state, start.at) == ("w", "zh", world.state, AT)
