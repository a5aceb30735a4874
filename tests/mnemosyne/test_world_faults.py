"""Every kind of fault of a pack: the file, the line and the key that are named, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mnemosyne import WorldPackError, load_world
from mnemosyne.world import examine_world
from mnemosyne.world.scaffold import starter_files


@dataclass(frozen=True)
class Case:
    """The starter pack with `old` replaced by `new` in `file`; the fault stands on the line that holds `at`."""

    file: str
    old: str
    new: str
    at: str
    key: str
    says: str


def write_pack(folder: Path, changes: Mapping[str, bytes | str | None] | None = None) -> Path:
    files: dict[str, bytes | str | None] = {**starter_files("en"), **(changes or {})}
    for name, data in files.items():
        if data is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return folder


def faults_of(folder: Path) -> tuple[str, ...]:
    with pytest.raises(WorldPackError) as caught:
        load_world(folder, try_patterns=True)
    return caught.value.faults


def line_of(text: str, part: str) -> int:
    assert part in text, part
    return text[: text.index(part)].count("\n") + 1


def case(file: str, old: str, new: str, key: str, says: str, at: str | None = None) -> Case:
    return Case(file=file, old=old, new=new, at=new if at is None else at, key=key, says=says)


W, L, Q, A, P, H, M = (
    "world.yaml",
    "lore/places.yaml",
    "quests.yaml",
    "actions.yaml",
    "planner.yaml",
    "history.yaml",
    "lore/people.md",
)

CASES = {
    # keys and types
    "unknown key": case(W, "user_name: Ada", "user_nam: Ada", "user_nam", "did you mean 'user_name'?"),
    "unknown key far off": case(W, "user_name: Ada", "zzz: Ada", "zzz", "known keys: id, title"),
    "missing key": case(W, "title: The Lighthouse at Gull Rock\n", "", "title", "is missing", at="id: lighthouse"),
    "missing key of an item": case(
        Q, "  title: Keep the light\n", "", "quests[0].title", "is missing", at="- id: q_light\n"
    ),
    "text wanted": case(W, "locale: en", "locale: 12", "locale", "is a number, but must be text; write it in quotes"),
    "empty key": case(
        W, "title: The Lighthouse at Gull Rock", "title:", "title", "is empty, but must be text", at="title:"
    ),
    "blank text": case(W, "title: The Lighthouse at Gull Rock", "title: ' '", "title", "is empty; write"),
    "list wanted": case(
        L, "keys: [island, jetty, cliffs]", "keys: island", "lore[1].keys", "is text, but must be a list; write [ ]"
    ),
    "mapping wanted": case(
        W,
        "{id: gull_rock, name: Gull Rock, aliases: [the island, the rock], kind: place}",
        "gull",
        "entities[0]",
        "a mapping",
    ),
    "flag wanted": case(P, "focus_locked: false", "focus_locked: no", "focus_locked", "must be true or false"),
    "whole number wanted": case(L, "priority: 70", "priority: 7.5", "lore[2].priority", "must be a whole number"),
    "number out of range": case(L, "priority: 70", "priority: 170", "lore[2].priority", "between 0 and 100"),
    "endless number": case(
        P, "confidence_threshold: 0.6", "confidence_threshold: .nan", "confidence_threshold", "between 0 and 1"
    ),
    "unknown category": case(L, "  category: axiom", "  category: axion", "lore[0].category", "did you mean 'axiom'?"),
    "unknown status": case(
        Q, "  status: inactive", "  status: idle", "quests[1].status", "must be one of inactive, active"
    ),
    "unknown weight": case(
        P, "past: {narrative", "past: {narative", "domain_weights.past.narative", "mean 'narrative'"
    ),
    "slug": case(W, "id: lighthouse\n", "id: The Light\n", "id", "a world id consists of", at="id: The Light"),
    "locale form": case(W, "locale: en", "locale: english please", "locale", "a locale looks like"),
    "id with a space": case(
        L, "id: lore_sea_voice", "id: lore sea", "lore[4].id", "an id has 1 to 128 characters", at="id: lore sea"
    ),
    "content twice": case(
        M, "name: Tobias Finn\n", "name: Tobias Finn\ncontent: x\n", "content", "belongs below it", at="content: x"
    ),
    "front matter key": case(M, "kind: person", "knd: person", "knd", "did you mean 'kind'?"),
    "front matter open": case(M, "priority: 80\n---\n", "priority: 80\n", "", "does not end", at="---"),
    "front matter absent": case(M, "---\n# A Markdown", "# A Markdown", "", "does not begin with", at="# A Markdown"),
    # unique ids
    "lore id twice": case(
        L,
        "- id: lore_cellar",
        "- id: lore_gull_rock",
        "lore[3].id",
        "is used already at lore/places.yaml:8 (lore[1].id)",
        at="- id: lore_gull_rock\n  name: What lies",
    ),
    "lore id twice over files": case(
        L, "id: lore_cellar", "id: lore_keeper", "lore[3].id", "is used already at lore/people.md:3 (id)"
    ),
    "quest id twice": case(
        Q,
        "- id: q_cellar\n",
        "- id: q_light\n",
        "quests[1].id",
        "is used already at quests.yaml:2",
        at="- id: q_light\n  title: The locked",
    ),
    "entity id twice": case(
        W,
        "{id: keeper,",
        "{id: lighthouse,",
        "entities[2].id",
        "is used already at world.yaml:",
        at="{id: lighthouse, name: Tobias",
    ),
    "action id twice": case(
        A,
        "- id: light_lamp",
        "- id: eat_bread",
        "actions[1].id",
        "is used already at actions.yaml:2",
        at="- id: eat_bread\n  patterns: [",
    ),
    "event id of a lore entry": case(
        H, "id: event_landing", "id: lore_keeper", "turns[0].events[0].id", "is used already at lore/people.md:3"
    ),
    "narrative id of an event": case(
        H,
        "id: narrative_arrival",
        "id: event_landing",
        "narratives[0].id",
        "(turns[0].events[0].id)",
        at="id: event_landing\n    title",
    ),
    "anchor twice": case(W, "{id: item_lamp,", "{id: bag_main,", "state.bag.items[1].id", "(state.bag._anchor)"),
    "objective id of a state anchor": case(
        Q, "{id: q_light_oil,", "{id: item_bread,", "quests[0].objectives[0].id", "(state.bag.items[0].id)"
    ),
    "anchor like a root key": case(
        W, "{id: item_lamp,", "{id: location,", "state.bag.items[1]", "also a key at the root"
    ),
    # references
    "entity of lore": case(
        L,
        "entities: [gull_rock]",
        "entities: [gul_rock]",
        "lore[1].entities[0]",
        "no entity 'gul_rock'; did you mean 'gull_rock'?",
    ),
    "entity of a quest": case(
        Q, "entities: [gull_rock]", "entities: [mars]", "quests[2].entities[0]", "no entity 'mars'"
    ),
    "quest link": case(
        Q, "{requires: [q_light]}", "{requires: [q_lihgt]}", "quests[1].links.requires[0]", "did you mean 'q_light'?"
    ),
    "quest parent": case(
        Q, "{requires: [q_light]}", "{parent: q_none}", "quests[1].links.parent", "there is no quest 'q_none'"
    ),
    "quest of itself": case(
        Q, "{requires: [q_light]}", "{requires: [q_cellar]}", "quests[1].links.requires[0]", "links the quest to itself"
    ),
    "quest circle": case(
        Q,
        "links: {leads_to: [q_cellar]}",
        "links: {requires: [q_cellar]}",
        "quests[0].links.requires",
        "q_light -> q_cellar -> q_light",
    ),
    "quest of an event": case(
        H, "quest: q_crossing", "quest: q_cross", "turns[0].events[0].quest", "no quest 'q_cross'"
    ),
    "narrative beyond": case(H, "to_turn: 2", "to_turn: 9", "narratives[0].to_turn", "there are 2 turns"),
    "narrative turned": case(
        H, "from_turn: 1\n    to_turn: 2", "from_turn: 2\n    to_turn: 1", "narratives[0].from_turn", "swap"
    ),
    # conditions
    "condition form": case(
        L, '"found.brass_key == true"', '"found.brass_key"', "lore[3].when[0]", "write 'path op value'"
    ),
    "condition with one sign": case(L, "brass_key == true", "brass_key = true", "lore[3].when[0]", "write '=='"),
    "condition path": case(
        L,
        "found.brass_key == true",
        "found.bras_key == true",
        "lore[3].when[0]",
        "not in the state; did you mean 'brass_key'?",
    ),
    "condition operator": case(A, 'op: ">"', "op: gt", "actions[0].guards[0].op", "must be one of ==, !="),
    "condition in no list": case(L, "brass_key == true", "brass_key in yes", "lore[3].when[0]", "choices in [ ]"),
    "condition by size of text": case(
        A, 'op: ">", value: 0', 'op: ">", value: none', "actions[0].guards[0]", "write a number without quotes"
    ),
    "condition by size on text": case(
        L, "found.brass_key == true", "location > 3", "lore[3].when[0]", "is not a number"
    ),
    "condition on a status": case(
        L, "found.brass_key == true", "q_light.status == complete", "lore[3].when[0]", "did you mean 'completed'?"
    ),
    "condition on a step's status": case(
        L,
        "found.brass_key == true",
        "q_light_oil.status == paused",
        "lore[3].when[0]",
        "it can be active, completed, failed",
    ),
    "condition contains": case(
        L, "found.brass_key == true", "hero.coins contains 2", "lore[3].when[0]", "neither a list nor text"
    ),
    "planner condition": case(
        P,
        "draw my knife]}",
        "draw my knife], when: [hero.x == 1]}",
        "templates[0].when[0]",
        "not in the state",
        at="draw my knife]",
    ),
    "guard path": case(A, "path: hero.health", "path: hero.helth", "actions[0].guards[1]", "did you mean 'health'?"),
    # ops
    "op verb": case(
        A, "[SUB, item_bread.count, 1]", "[SUBB, item_bread.count, 1]", "actions[0].ops[0]", "did you mean 'SUB'?"
    ),
    "op verb in small": case(
        A, "[SUB, item_bread.count, 1]", "[sub, item_bread.count, 1]", "actions[0].ops[0]", "did you mean 'SUB'?"
    ),
    "op length": case(
        A,
        "[SUB, item_bread.count, 1]",
        "[SUB, item_bread.count]",
        "actions[0].ops[0]",
        "write SUB as [VERB, path, value]",
    ),
    "op without value": case(
        A, "[SUB, item_bread.count, 1]", "[DELETE, item_lamp, 1]", "actions[0].ops[0]", "write DELETE as [VERB, path]"
    ),
    "op as a mapping": case(
        A, "[SUB, item_bread.count, 1]", "{op: replace, path: /x}", "actions[0].ops[0]", "is a mapping"
    ),
    "op path": case(
        A, "[SUB, item_bread.count, 1]", "[SUB, item_bred.count, 1]", "actions[0].ops[0]", "did you mean 'item_bread'?"
    ),
    "op path type": case(A, "[SUB, item_bread.count, 1]", "[SUB, 3, 1]", "actions[0].ops[0]", "as its path"),
    "op on text": case(
        A,
        "[SUB, item_bread.count, 1]",
        "[SUB, item_bread.name, 1]",
        "actions[0].ops[0]",
        "is not a number to calculate with",
    ),
    "op with text": case(
        A,
        "[SUB, item_bread.count, 1]",
        '[SUB, item_bread.count, "1"]',
        "actions[0].ops[0]",
        "was text and was read as 1",
    ),
    "op by zero": case(
        A, "[SUB, item_bread.count, 1]", "[DIV, item_bread.count, 0]", "actions[0].ops[0]", "divided by zero"
    ),
    "op on no list": case(A, "[SUB, item_bread.count, 1]", "[PUSH, location, x]", "actions[0].ops[0]", "is not a list"),
    "op outside limits": case(
        A, "[ADD, hero.health, 10]", "[SET, hero.health, 101]", "actions[0].ops[1]", "outside the limits"
    ),
    "op on an id": case(
        A, "[ADD, hero.health, 10]", "[SET, item_bread.id, x]", "actions[0].ops[1]", "of a thing cannot be changed"
    ),
    "no ops": case(
        A, "  ops:\n    - [SET, item_lamp.lit, true]", "  ops: []", "actions[1].ops", "at least 1", at="  ops: []"
    ),
    # patterns
    "pattern": case(
        A,
        '"(?:light|kindle) (?:the |my )?(?:oil )?lamp"',
        '"(light the lamp"',
        "actions[1].patterns[0]",
        "is not a regular expression",
    ),
    "pattern without end": case(
        A,
        '"(?:light|kindle) (?:the |my )?(?:oil )?lamp"',
        '"(?:l|li|i)+ght the lamp"',
        "actions[1].patterns[0]",
        "is too slow",
    ),
    "pattern for all": case(
        A, '"(?:light|kindle) (?:the |my )?(?:oil )?lamp"', '".*"', "actions[1].patterns[0]", "matches any input"
    ),
    "pattern in full width": case(
        A,
        '"(?:light|kindle) (?:the |my )?(?:oil )?lamp"',
        '"light，the lamp"',
        "actions[1].patterns[0]",
        "where it is ','; write that",
    ),
    "guard without a message": case(
        A,
        ", message: There is no bread left.}",
        "}",
        "actions[0].guards[0].message",
        "is missing",
        at='op: ">", value: 0}',
    ),
    "guard as short text": case(
        A,
        '{path: hero.health, op: "<", value: 100, message: You are not hungry.}',
        "hero.health < 100",
        "actions[0].guards[1]",
        "has no message",
    ),
    # the tree
    "quests in the state": case(
        W,
        "  found:\n",
        "  quests: {}\n  found:\n",
        "state.quests",
        "quests belong in quests.yaml",
        at="  quests: {}",
    ),
    "dotted key": case(
        W,
        "  found:\n    brass_key: false",
        "  found:\n    brass_key: false\n    a.b: 1",
        "state.found.a.b",
        "no flat path can name",
        at="    a.b: 1",
    ),
    "dollar key": case(W, "    $meta:\n", "    $mta:\n", "state.hero.$mta", "did you mean '$meta'?", at="    $mta:"),
    "number as id": case(W, "{id: item_lamp,", "{id: 7,", "state.bag.items[1].id", "an anchor must be text"),
    "anchor without list": case(
        W,
        "    items:\n      - {id: item_bread",
        "    goods:\n      a:\n      - {id: item_bread",
        "state.bag",
        "add 'items: []'",
        at="  bag:",
    ),
    "mapping with a description": case(
        W,
        "weather: [windy, the storm is six hours away]",
        "weather: [{a: 1}, windy]",
        "state.weather",
        "only a single value can have one",
    ),
    "empty description": case(W, "[90, a bruised knee]", '[90, ""]', "state.hero.health", "has an empty description"),
    "unknown meta": case(W, "limits: {health", "limit: {health", "state.hero.$meta.limit", "did you mean 'limits'?"),
    "limits of nothing": case(
        W, "{health: [0, 100]", "{helth: [0, 100]", "state.hero.$meta.limits.helth", "did you mean 'health'?"
    ),
    "limits turned": case(W, "{health: [0, 100]", "{health: [100, 0]", "state.hero.$meta.limits.health", "swap them"),
    "limits outside": case(
        W,
        "{health: [0, 100]",
        "{health: [0, 50]",
        "state.hero.health",
        "starts at 90",
        at="health: [90",
    ),
    "limits form": case(W, "{health: [0, 100]", "{health: 100", "state.hero.$meta.limits.health", "two numbers"),
    "necessary field": case(
        W,
        "limits: {health",
        "necessary: [hat]\n      limits: {health",
        "state.hero.$meta.necessary[0]",
        "not a field",
        at="necessary: [hat]",
    ),
    "lists no list": case(
        W,
        "limits: {health",
        "lists: [coins]\n      limits: {health",
        "state.hero.$meta.lists[0]",
        "not a list",
        at="lists: [coins]",
    ),
    "updatable": case(
        W,
        "limits: {health",
        "updatable: maybe\n      limits: {health",
        "state.hero.$meta.updatable",
        "true or false",
        at="updatable: maybe",
    ),
    "protected by meta": case(
        A,
        "[SUB, item_bread.count, 1]",
        "[DELETE, bag_main.items, 1]",
        "actions[0].ops[0]",
        "write DELETE as [VERB, path]",
    ),
    "huge number": case(W, "coins: 12", "coins: 99999999999999999999", "state.hero.coins", "more than 64 bits"),
    "progress": case(
        Q,
        "progress: [1, one of three cans of oil is upstairs]",
        "progress: [[1], x]",
        "quests[0].progress",
        "a single value",
    ),
    # focus
    "locked focus": case(P, "focus_locked: false", "focus_locked: true", "", "", at="focus_locked: true"),
    # yaml
    "yaml syntax": case(Q, "title: Keep the light", "title: [Keep", "", "", at="title: [Keep"),
    "yaml key twice": case(W, "locale: en", "locale: en\ntitle: Again", "", "title", at="title: Again"),
    "yaml tab": case(Q, "  title: Keep the light", "\ttitle: Keep the light", "", "tab", at="\ttitle"),
    "yaml alias": case(W, "location: the jetty of Gull Rock", "location: *jetty", "", "alias", at="location: *jetty"),
    "yaml tag": case(W, "locale: en", "locale: !!python/name:os.system en", "", "tag", at="locale: !!"),
    "yaml in front matter": case(M, "kind: person", "kind: [person", "", "", at="kind: [person"),
}

SPECIAL = ("locked focus", "yaml syntax", "yaml in front matter")


@pytest.mark.parametrize("name", [name for name in CASES if name not in SPECIAL])
def test_a_fault_names_its_file_line_and_key(name: str, tmp_path: Path) -> None:
    one = CASES[name]
    text = starter_files("en")[one.file].decode()
    assert text.count(one.old) >= 1, "the starter pack has changed"
    changed = text.replace(one.old, one.new, 1)
    found = faults_of(write_pack(tmp_path, {one.file: changed}))
    start = f"{one.file}:{line_of(changed, one.at)}: " + (f"{one.key}: " if one.key else "")
    assert any(fault.startswith(start) and one.says in fault for fault in found), found


def test_a_locked_focus_needs_an_active_quest(tmp_path: Path) -> None:
    base = starter_files("en")
    quests = base["quests.yaml"].decode().replace("  status: active\n", "  status: inactive\n", 1)
    planner = base["planner.yaml"].decode().replace("focus_locked: false", "focus_locked: true")
    (fault,) = faults_of(write_pack(tmp_path, {"quests.yaml": quests, "planner.yaml": planner}))
    line = line_of(planner, "focus_locked: true")
    assert fault == f"planner.yaml:{line}: focus_locked: locks the focus, but no quest is active; make one active"


@pytest.mark.parametrize("name", ["yaml syntax", "yaml in front matter"])
def test_a_syntax_fault_names_a_line_near_it(name: str, tmp_path: Path) -> None:
    one = CASES[name]
    changed = starter_files("en")[one.file].decode().replace(one.old, one.new, 1)
    found = faults_of(write_pack(tmp_path, {one.file: changed}))
    (mine,) = [fault for fault in found if fault.startswith(f"{one.file}:")]
    assert 0 <= int(mine.split(":")[1]) - line_of(changed, one.at) <= 2


def test_all_faults_come_at_once_ordered_by_file_and_line(tmp_path: Path) -> None:
    base = {name: data.decode() for name, data in starter_files("en").items()}
    changes = {
        "world.yaml": base["world.yaml"].replace("locale: en", "locale: 3").replace("user_name", "user_nam"),
        "quests.yaml": base["quests.yaml"].replace("q_cellar_key", "q_light_oil"),
        "lore/places.yaml": base["lore/places.yaml"].replace("category: axiom", "category: law"),
    }
    found = faults_of(write_pack(tmp_path, changes))
    assert [fault.split(":")[0] for fault in found] == ["world.yaml", "world.yaml", "lore/places.yaml", "quests.yaml"]
    assert len(set(found)) == len(found)


DOUBTS = {
    "two texts": ("  location:", "  skills: [黑客, 潜行]\n  location:", "state.skills", "$meta: {lists: [skills]}"),
    "two texts in a template": (
        "  location:",
        "  crew: {$meta: {extensible: true, template: {likes: [tea, cake]}}}\n  location:",
        "state.crew.$meta.template.likes",
        "$meta: {types: {likes: text}}",
    ),
    "two texts in a persona": ("persona:\n", "persona:\n  goals: [rest, peace]\n", "persona.goals", "'rest (peace)'"),
    "nothing in a persona": (
        "persona:\n",
        "persona:\n  manner: {dry, a little amused}\n",
        "persona.manner.a little amused",
        "shows null",
    ),
    "a template that no new thing can follow": (
        "  location:",
        "  crew: {$meta: {template: {trust: 5}}, tom: {name: Tom}}\n  location:",
        "state.crew.$meta.template",
        "extensible: true",
    ),
    "a persona of many words": ("persona:\n", f"persona:\n  past: {'She counts. ' * 2000}\n", "persona", "lore/"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_what_was_probably_meant_otherwise_is_a_warning_with_its_place(name: str, tmp_path: Path) -> None:
    old, new, key, says = DOUBTS[name]
    changed = starter_files("en")["world.yaml"].decode().replace(old, new, 1)
    _, warnings = examine_world(write_pack(tmp_path, {"world.yaml": changed}))
    line = line_of(changed, new) + ("persona" in key and key != "persona")
    assert any(each.startswith(f"world.yaml:{line}: {key}: ") and says in each for each in warnings), warnings


@pytest.mark.parametrize(
    "line",
    [
        "mood: [uneasy, keeps watching the keyhole]",
        "mood: [不安, 一直看着锁孔]",
        "skills: [黑客, 潜行]\n  $meta: {lists: [skills]}",
        "job: [cook, of this house]\n  $meta: {types: {job: text}}",
        "oil: [6, measures]",
        "crew: {$meta: {extensible: false, template: {trust: 5}}, tom: {name: Tom}}",
        "bag: {_anchor: sack, items: [], $meta: {template: {count: 1}}}",
    ],
)
def test_what_is_clear_is_no_doubt(line: str, tmp_path: Path) -> None:
    text = f"id: inn\ntitle: Inn\nlocale: en\ninstruction: Tell.\nstate:\n  {line}\n"
    (tmp_path / "world.yaml").write_text(text, encoding="utf-8")
    assert examine_world(tmp_path)[1] == ()


@pytest.mark.parametrize("folder", ["dinner_party", "whispering_forest/en", "whispering_forest/zh"])
def test_the_example_worlds_leave_no_doubt(folder: str) -> None:
    assert examine_world(Path(__file__).parents[2] / "examples" / folder)[1] == ()


def test_one_mistake_is_said_once(tmp_path: Path) -> None:
    """A broken entity list must not make every reference to an entity a fault."""
    world = starter_files("en")["world.yaml"].decode()
    start, end = world.index("entities:\n"), world.index("# The state at")
    found = faults_of(write_pack(tmp_path, {"world.yaml": world[:start] + "entities: all\n" + world[end:]}))
    assert len(found) == 1
    assert "entities: is text, but must be a list" in found[0]


def test_a_number_of_an_action_that_is_no_mapping_is_a_fault_like_any_other(tmp_path: Path) -> None:
    actions = "- {id: a, patterns: ['take'], numbers: [[1]], ops: [[SET, hero.health, 1]], reply: x}\n"
    assert "actions.yaml:1: actions[0].numbers[0]: is a list, but must be a mapping; change it" in faults_of(
        write_pack(tmp_path, {"actions.yaml": actions})
    )
