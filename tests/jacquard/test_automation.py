"""Stream A: exact blocks, anchors of what is shown, directives, talk; nothing breaks out of its element."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from forest_parts import PLAN, STATE, WORLD, CharacterEstimator, lore, said, talk, window
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filament import clean_text, display, load_yaml, unescape, with_anchors
from jacquard import HistoryConfig, JacquardError, RuntimeConfig
from jacquard.core.block_kinds import HISTORY_SLOT
from jacquard.core.blocks import Block, Position
from jacquard.core.errors import TemplateError
from jacquard.pipeline.skeleton.automation import AutomationStream, Skeleton
from jacquard.pipeline.skeleton.todo import TASKS_SHOWN, TEXT_CHARS
from jacquard.pipeline.turn import Turn, TurnLore
from jacquard.templating import find_shipped_templates
from mnemosyne import Author, AuthorKind, Message, Priority, Role, Task, TaskStatus
from mnemosyne.schema.memory import LoreCategory, Trust
from mnemosyne.schema.record import SessionWindow

STREAM = AutomationStream(CharacterEstimator(), find_shipped_templates())
GOLDEN = Path(__file__).parent.parent / "golden"
TALK = talk(["村长在吗?", "他在井边。<b>", "走过去", "他抬起头。"])


def said_now(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def render(text: str = "你好", *, world=WORLD, plan=PLAN, view: SessionWindow | None = None, **more: Any) -> Skeleton:
    config = more.pop("config", RuntimeConfig())
    view = window(TALK) if view is None else view
    return STREAM.render(Turn(plan=plan, window=view, world=world, message=said_now(text), config=config, **more))


def block(skeleton: Skeleton, block_id: str) -> Block:
    return next(each for each in skeleton.blocks if each.block_id == block_id)


def body(content: str) -> Any:
    """The value of a block whose body is YAML, read as any reader would."""
    return load_yaml(unescape(content[content.index(">") + 1 : content.rindex("<")]))


ENGLISH = replace(
    WORLD, locale="en", instruction="You narrate the Whispering Forest.", persona={"name": "Lin", "voice": "low"}
)


TASKS = (
    Task(task_id="map", name="画出通往神庙的路", status=TaskStatus.COMPLETED),
    Task(task_id="key", name="Find out where the <elder> keeps the key: {{ ask }}", depends_on=("map",)),
    Task(task_id="door", name="open the door", depends_on=("key",)),
    Task(task_id="rope", name="buy rope", status=TaskStatus.FAILED, error="the shop is shut\n</todo>"),
    Task(task_id="guide", name="ask for a guide", status=TaskStatus.IN_PROGRESS),
    Task(task_id="horse", name="hire a horse", status=TaskStatus.CANCELLED),
)


@pytest.mark.parametrize(
    ("name", "world", "template"),
    [
        ("stream_a_zh_chat", WORLD, "chat"),
        ("stream_a_en_chat", ENGLISH, "chat"),
        ("stream_a_zh_combat", WORLD, "combat"),
        ("stream_a_en_flashback", ENGLISH, "flashback"),
        ("stream_a_en_dense", ENGLISH, "dense"),
        ("stream_a_en_todo", ENGLISH, "chat"),
        ("stream_a_zh_todo", WORLD, "chat"),
    ],
)
def test_golden(name, world, template):
    """Each block beside the exact text it must become. After a change on purpose: UPDATE_GOLDEN=1, then read the diff."""
    view = window(TALK, summary="凯来到村里。")
    if name.endswith("todo"):
        view = replace(view, tasks=TASKS)
    skeleton = render("写一首诗", world=world, plan=replace(PLAN, template_id=template), view=view)
    blocks = (*skeleton.blocks, *skeleton.history, skeleton.user_input)
    shown = "".join(
        f"=== {b.block_id} ({b.place.slot}, {b.place.role.value}, {b.priority.value})\n{b.content}\n" for b in blocks
    )
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def test_the_status_is_the_state_exactly_as_stored():
    status = body(block(render(), "status").content)
    assert status == display({key: value for key, value in STATE.items() if key != "quests"})
    assert status["hero"]["health"] == "85 (受伤状态)"
    assert "health: 85 (受伤状态)" in block(render(), "status").content


def test_what_is_usual_of_a_quest_is_not_said():
    quests = {
        "q": {
            "id": "q",
            "title": "The bell",
            "status": "active",
            "objectives": [
                {"id": "one", "text": "Ask", "status": "active", "optional": False},
                {"id": "two", "text": "Climb", "status": "active", "optional": True},
            ],
        }
    }
    shown = block(render(view=window(TALK, state={"quests": quests})), "active_quests").content
    assert "status" not in shown
    assert "optional: false" not in shown
    assert "optional: true" in shown


def test_a_persona_shows_no_key_without_a_value():
    world = replace(WORLD, persona={"name": "Lin", "voice": "dry", "a little amused": None, "past": {"town": ""}})
    assert block(render(world=world), "persona").content == "<persona>\nname: Lin\nvoice: dry\n</persona>"
    assert "persona" not in {each.block_id for each in render(world=replace(WORLD, persona={"voice": None})).blocks}


def test_quests_show_their_open_steps_and_the_focus():
    quests = body(block(render(), "active_quests").content)
    assert [quest["id"] for quest in quests] == ["q_001", "q_002"]
    assert [quest.get("focus") for quest in quests] == [True, None]
    assert quests[0]["progress"] == "已找到 2/3 个符文"
    assert [step["id"] for step in quests[0]["objectives"]] == ["q_001_b"]
    assert "unmask the elder" not in "".join(each.content for each in render().blocks)


def test_the_to_do_list_shows_what_is_open_and_nothing_else():
    todo = block(render(view=replace(window(TALK), tasks=TASKS)), "todo")
    assert body(todo.content) == {
        "open": [
            {"id": "guide", "name": "ask for a guide", "status": "in_progress"},
            {"id": "key", "name": "Find out where the <elder> keeps the key: {{ ask }}", "status": "pending"},
            {"id": "door", "name": "open the door", "status": "pending", "waits_for": ["key"]},
            {"id": "rope", "name": "buy rope", "status": "failed", "error": "the shop is shut </todo>"},
        ],
        "completed": 1,
    }
    assert (todo.place.slot, todo.place.layer, todo.place.volatile) == ("todo", "deterministic", True)
    assert todo.origin.title == "待办事项"
    finished = [replace(task, status=TaskStatus.COMPLETED) for task in TASKS]
    assert "todo" not in {each.block_id for each in render(view=replace(window(TALK), tasks=tuple(finished))).blocks}


def test_a_to_do_list_of_any_length_stays_short():
    many = tuple(Task(task_id=f"t{n}", name="word " * 2000, error="e" * 9999) for n in range(500))
    todo = block(render(view=replace(window(TALK), tasks=many)), "todo")
    shown = body(todo.content)
    assert (len(shown["open"]), shown["more"]) == (TASKS_SHOWN, 500 - TASKS_SHOWN)
    assert len(todo.content) < TASKS_SHOWN * 3 * TEXT_CHARS


def test_limits_of_the_state_stand_beside_it_and_the_reply_format_names_the_legal_statuses():
    assert block(render(), "limits").content == "<limits>\nhero.health: 0..100\n</limits>"
    for world, words in ((WORLD, "任务的 status 只能是"), (ENGLISH, "The status of a quest is")):
        shown = block(render(world=world), "instruction").content
        assert words in shown
        assert all(status in shown for status in ("inactive", "active", "completed", "failed", "paused"))
        assert '["SET", ' in shown


def test_guidance_carries_the_goal():
    assert body(block(render(), "guidance").content)["current_goal"] == PLAN.current_goal


def test_blocks_say_where_they_belong():
    skeleton = render("一首诗")
    assert [each.block_id for each in skeleton.blocks] == [
        "instruction", "persona", "axioms", "status", "limits", "active_quests", "guidance", "dir_always", "dir_poem",
    ]  # fmt: skip
    assert [each.place.layer for each in skeleton.blocks] == [None] * 3 + ["deterministic"] * 4 + [None] * 2
    assert all(each.tokens == len(each.content) for each in (*skeleton.blocks, *skeleton.history, skeleton.user_input))
    assert block(skeleton, "status").place.volatile
    assert not block(skeleton, "axioms").place.volatile
    assert block(skeleton, "guidance").origin.source == "automation:chat/guidance.j2"
    assert block(skeleton, "guidance").origin.title == "规划指导"
    poem = block(skeleton, "dir_poem")
    assert (poem.place.slot, poem.origin.category, poem.place.placement.position) == (
        "directive",
        LoreCategory.DIRECTIVE,
        Position.USER_ANCHOR,
    )
    assert poem.content == '<directive id="dir_poem">写成四行诗。</directive>'


def test_directives_come_when_called():
    assert [each.block_id for each in render("hello").blocks if each.place.slot == "directive"] == ["dir_always"]
    assert "dir_poem" in [each.block_id for each in render("A POEM, please").blocks]
    assert "dir_poem" not in [each.block_id for each in render("poems").blocks]
    assert "dir_poem" not in [
        each.block_id for each in render("诗", lore=TurnLore(hidden=frozenset({"dir_poem"}))).blocks
    ]


def test_hidden_entries_are_nowhere():
    shown = "".join(each.content for each in render(lore=TurnLore(hidden=frozenset({"axiom_secret"}))).blocks)
    assert "死者不会回来" in shown
    assert "凶手" not in shown


def test_what_is_empty_makes_no_block():
    bare = replace(WORLD, persona={}, lore=(), digest="bare")
    skeleton = render(world=bare, view=window(state={}))
    assert [each.block_id for each in skeleton.blocks] == ["instruction", "guidance"]
    assert "state_update" not in skeleton.blocks[0].content
    assert (skeleton.history, skeleton.history_start, skeleton.anchors) == ((), None, {})


def test_anchors_are_those_of_what_is_shown():
    assert render().anchors == {
        "bag_main": "/inventory/main_bag",
        "item_sword_01": "/inventory/main_bag/items/0",
        "item_potion_02": "/inventory/main_bag/items/1",
        "q_001": "/quests/q_001",
        "q_001_b": "/quests/q_001/objectives/1",
        "q_002": "/quests/q_002",
        "q_002_a": "/quests/q_002/objectives/0",
    }


def test_every_anchor_stands_in_the_prompt_and_nameless_things_get_one():
    state = {**STATE, "inventory": {"sack": {"_anchor": "sack", "items": [{"name": "Apple"}]}}}
    skeleton = render(view=window(state=state))
    shown = "".join(each.content for each in skeleton.blocks)
    assert skeleton.anchors["item_1"] == "/inventory/sack/items/0"
    assert all(anchor in shown for anchor in skeleton.anchors)


def test_ambiguous_anchors_are_an_error_that_names_them():
    with pytest.raises(JacquardError, match="twin"):
        render(view=window(state={"a": {"id": "twin"}, "b": {"id": "twin"}}))


# --- talk


def test_talk_is_escaped_and_ranked_by_age():
    history = render(view=window(talk(["<x>"] * 10))).history
    assert {each.content for each in history} == {"&lt;x&gt;"}
    assert [each.rank for each in history] == list(range(9, -1, -1))
    assert [each.priority for each in history] == [Priority.MEDIUM] * 4 + [Priority.HIGH] * 6
    assert [each.place.role for each in history[:2]] == [Role.USER, Role.ASSISTANT]
    assert [each.origin.trust for each in history[:2]] == [Trust.USER, Trust.MODEL]
    assert {each.place.slot for each in history} == {HISTORY_SLOT}


@pytest.mark.parametrize(
    ("author", "content"),
    [
        (None, "hi"),
        (Author(kind=AuthorKind.USER, id="user"), "hi"),
        (Author(kind=AuthorKind.USER, id="凯"), "hi"),
        (Author(kind=AuthorKind.AGENT, id="林语"), "hi"),
        (Author(kind=AuthorKind.USER, id="Caroline"), "Caroline: hi"),
        (Author(kind=AuthorKind.AGENT, id="a\n</message>"), "a &lt;/message&gt;: hi"),
    ],
)
def test_a_speaker_is_named_where_the_role_does_not_tell(author, content):
    assert render(view=window([said(0, Role.USER, "hi", author=author)])).history[0].content == content


def test_a_tool_call_and_its_result_are_one_group():
    messages = [
        said(0, Role.USER, "time?", turn="t1"),
        said(1, Role.ASSISTANT, "[call clock]", turn="t1"),
        said(2, Role.TOOL, "noon", turn="t1"),
        said(3, Role.ASSISTANT, "It is noon.", turn="t1"),
        said(4, Role.USER, "ok", turn="t2"),
    ]
    assert [each.group for each in render(view=window(messages)).history] == [
        None,
        "turn:t1",
        "turn:t1",
        "turn:t1",
        None,
    ]


def test_the_window_keeps_its_start_through_the_record():
    config = RuntimeConfig(history=HistoryConfig(max_messages=10, low_water=0.6))
    first = render(view=window(talk(["hi"] * 12)), config=config)
    later = render(view=window(talk(["hi"] * 14), start=first.history_start), config=config)
    assert first.history_start == later.history_start == "m006"


# --- templates of a pack


def test_a_pack_overrides_one_file_and_adds_a_template(tmp_path):
    for name, text in {
        "chat/persona.j2": "<persona>\nmine: {{ persona.name }}\n</persona>",
        "duel/template.yaml": "id: duel\nextends: combat\nwithout: [summary]\nblocks:\n  - {id: persona, priority: low}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    world = replace(WORLD, template_root=str(tmp_path))
    assert body(block(render(world=world), "persona").content) == {"mine": "林语"}
    duel = render(world=world, plan=replace(PLAN, template_id="duel"), view=window(summary="so far"))
    assert block(duel, "persona").priority is Priority.LOW
    assert "summary" not in [each.block_id for each in duel.blocks]
    assert "战斗" in block(duel, "guidance").content


def test_the_configuration_may_choose_the_template():
    assert "战斗" in block(render(config=RuntimeConfig(template_id="combat")), "guidance").content


def test_an_unknown_template_is_named_with_those_there_are():
    with pytest.raises(
        TemplateError, match=r"there is no template 'opera'; there are: assistant, chat, coding, combat"
    ):
        render(plan=replace(PLAN, template_id="opera"))


def test_a_broken_template_of_a_pack_names_file_and_line(tmp_path):
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat/status.j2").write_text("<status>\n{{ statsu | yaml }}\n</status>")
    with pytest.raises(TemplateError, match=r"status\.j2:2: 'statsu' is undefined"):
        render(world=replace(WORLD, template_root=str(tmp_path)))


# --- laws


def test_same_input_same_bytes():
    assert render() == AutomationStream(CharacterEstimator(), find_shipped_templates()).render(
        Turn(plan=PLAN, window=window(TALK), world=WORLD, message=said_now("你好"), config=RuntimeConfig())
    )


NASTY = st.sampled_from(
    [
        "</status>", "<context_layer>", "]]>", "<![CDATA[x]]>", "<!-- -->", "&amp;", "&#x3c;b>", "{{ 7*7 }}",
        "{% for x in y %}", "{# #}", "---", "...", "- a", "a: b", "key: [", "{a", "#c", " # c", "*x", "&x y",
        "!!python/object:os.system x", "|", ">-", "'", '"', "\\", "%YAML 1.1", "null", "yes", "0x1F", "1e3", "12:30",
        "\t", "\r\n", "\n\n", " ", "\u2028", "\x85", "\ufeff", "\u202e", "\u200f",
        "\x00", "\x1b[31m", "\x7f", "\ud800", "\ufffe", "\U0001f600", "神庙", "<thought>", "```", "]]}}%}",
    ]
)  # fmt: skip
TEXTS = st.text(max_size=20) | st.lists(NASTY | st.text(max_size=4), max_size=5).map("".join)
KEYS = TEXTS.filter(lambda key: key not in ("id", "_anchor", "$meta", "quests"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def hostile_requests(draw: st.DrawFn) -> Turn:
    """A whole turn whose every text is arbitrary."""
    quest = {
        "id": draw(TEXTS),
        "title": draw(TEXTS),
        "status": "active",
        "progress": draw(TEXTS),
        "objectives": [{"text": draw(TEXTS), "status": "active"}],
    }
    state = {**draw(st.dictionaries(KEYS, VALUES, max_size=4)), "quests": {draw(KEYS): quest}}
    entries = (
        lore(draw(TEXTS), "axiom", draw(TEXTS), title=draw(TEXTS)),
        lore(draw(TEXTS), "directive", draw(TEXTS), metadata={"constant": True}),
    )
    world = replace(
        WORLD,
        instruction=draw(TEXTS),
        persona=draw(st.dictionaries(KEYS, VALUES, max_size=3)),
        lore=entries,
        locale=draw(st.sampled_from(["zh", "en"])),
        state=state,
    )
    speaker = Author(kind=AuthorKind.USER, id=draw(TEXTS))
    messages = [said(0, Role.USER, draw(TEXTS), author=speaker), said(1, Role.ASSISTANT, draw(TEXTS.filter(str.strip)))]
    return Turn(
        plan=replace(PLAN, current_goal=draw(TEXTS), active_quest_id=quest["id"]),
        window=window(messages, state=state, summary=draw(TEXTS)),
        world=world,
        message=said_now(draw(TEXTS)),
        config=RuntimeConfig(),
    )


def check_nothing_breaks_out(request: Turn) -> None:
    """Every block is one well-formed piece of the expected elements, and its YAML reads back to what was to be shown."""
    skeleton = STREAM.render(request)
    trees = {
        each.block_id if each.place.slot != "directive" else "directive": ElementTree.fromstring(
            f"<r>{each.content}</r>"
        )
        for each in skeleton.blocks
    }
    world, state = request.world, request.window.state
    wanted = {"instruction": ["instruction", "reply_format"], "axioms": ["axioms"], "directive": ["directive"]}
    for block_id, tree in trees.items():
        assert [child.tag for child in tree] == wanted.get(block_id, [block_id]), block_id
    assert [child.tag for child in trees["instruction"][1]] == ["thought", "content", "state_update"]
    assert all(len(tree[0]) == 0 for name, tree in trees.items() if name not in ("instruction", "axioms"))
    assert trees["instruction"][0].text == f"\n{clean_text(world.instruction)}\n"
    assert (trees["axioms"][0][0].text or "") == clean_text(world.lore[0].text)
    assert trees["axioms"][0][0].attrib == {"id": clean_text(world.lore[0].entry_id)}
    assert (trees["directive"][0].text or "") == clean_text(world.lore[1].text)
    shown = {
        name: body(block(skeleton, name).content)
        for name in trees
        if name in ("persona", "status", "active_quests", "guidance")
    }
    if told := _without_empty(world.persona):
        assert shown["persona"] == readable(display(told))
    if len(state) > 1:
        named = with_anchors(state)
        assert shown["status"] == readable(display({key: value for key, value in named.items() if key != "quests"}))
    quest = next(iter(state["quests"].values()))
    row = shown["active_quests"][0]
    assert [row["title"], row["progress"], row["objectives"][0]["text"]] == readable(
        [quest["title"], quest["progress"], quest["objectives"][0]["text"]]
    )
    if request.plan.current_goal:
        assert shown["guidance"]["current_goal"] == readable(request.plan.current_goal)
    if request.window.summary:
        assert trees["summary"][0].text == f"\n{clean_text(request.window.summary.summary.content)}\n"
    for talked in (*skeleton.history, skeleton.user_input):
        assert len(ElementTree.fromstring(f"<r>{talked.content}</r>")) == 0
    assert unescape(skeleton.user_input.content) == clean_text(request.text)
    assert unescape(skeleton.history[1].content) == clean_text(request.window.messages[1].message.content)


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return [_without_empty(each) for each in value] if isinstance(value, list) else value
    told = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in told.items() if each not in (None, "", {}, [])}


def readable(value: Any) -> Any:
    """What YAML can carry: lone surrogates are replaced, all else is as it was."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in value)
    if isinstance(value, dict):
        return {readable(key): readable(item) for key, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list) else value


@given(hostile_requests())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_text_breaks_out_or_runs(request):
    check_nothing_breaks_out(request)


@pytest.mark.full
@given(hostile_requests())
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_text_breaks_out_or_runs_ten_thousand_times(request):
    check_nothing_breaks_out(request)


def test_a_big_state_is_rendered_quickly(capsys):
    """200 fields, 50 items, 20 quests, another state each time: the best of twenty keeps the aim of 50 ms on a busy machine."""
    state = {
        "hero": {f"field_{n}": [n, f"描述 {n}"] for n in range(200)},
        "bag": {"_anchor": "bag", "items": [{"id": f"item_{n}", "name": f"Item {n}", "count": n} for n in range(50)]},
        "quests": {
            f"q{n}": {
                "id": f"q{n}",
                "title": f"Quest {n}",
                "status": "active",
                "objectives": [{"id": f"q{n}_{k}", "text": f"Step {k}", "status": "active"} for k in range(5)],
            }
            for n in range(20)
        },
    }
    view = window(talk(["a line of talk that goes on for a while"] * 40), state=state)
    render(view=view)
    times = []
    for number in range(20):
        view = window(view.messages, state={**state, "hero": {**state["hero"], "field_0": [number, "new"]}})
        started = perf_counter()
        skeleton = render(view=view)
        times.append((perf_counter() - started) * 1000)
    assert len(skeleton.anchors) == 1 + 50 + 20 * 6
    with capsys.disabled():
        print(f"\nStream A, 200 fields, 50 items, 20 quests: {sorted(times)[10]:.1f} ms p50, {max(times):.1f} ms worst")
    assert min(times) < 50
