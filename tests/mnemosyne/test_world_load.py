"""What a pack becomes: values, the merged state, the digest; and what the authors' page shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from filament import display
from mnemosyne import Chain, load_world
from mnemosyne.chains.state import apply_reply_ops
from mnemosyne.schema.memory import Comparison, Condition, Trust
from mnemosyne.schema.world import NumericalAction, PrologueEvent, TemplateRule
from mnemosyne.world import describe
from mnemosyne.world.scaffold import starter_files

DOCS = Path(__file__).parents[2] / "docs"
MINIMAL = {"world.yaml": "id: w\ntitle: W\nlocale: en\n"}


def write(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return folder


def test_the_smallest_pack(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, MINIMAL))
    assert (world.world_id, world.title, world.locale) == ("w", "W", "en")
    assert (world.state, world.persona, world.lore, world.actions, world.prologue) == ({}, {}, (), (), ())
    assert world.planner.default_template == "chat"
    assert world.template_root is None


def test_lore_becomes_memory(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, starter_files("en")))
    entry = next(each for each in world.lore if each.entry_id == "lore_cellar")
    assert entry.scope == "world:lighthouse"
    assert (entry.chain, entry.kind, entry.trust) == (Chain.LORE, "encyclopedia", Trust.AUTHORED)
    assert entry.title == "What lies in the cellar"
    assert entry.when == (Condition(path="found.brass_key", op=Comparison.EQ, value=True),)
    assert entry.metadata == {"kind": "secret", "constant": False, "source": "lore/places.yaml"}
    keeper = next(each for each in world.lore if each.entry_id == "lore_keeper")
    assert keeper.text.startswith("Tobias Finn has kept the light")
    assert keeper.text.endswith("never said how.")
    assert keeper.metadata["source"] == "lore/people.md"
    assert keeper.priority == 80


def test_quests_become_state(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, starter_files("en")))
    quests = world.state["quests"]
    assert list(quests) == ["q_light", "q_cellar", "q_crossing"]
    light = quests["q_light"]
    assert list(light)[:4] == ["id", "title", "status", "description"]
    assert light["objectives"][0] == {
        "id": "q_light_oil",
        "text": "Carry oil up to the lamp room",
        "status": "active",
        "optional": False,
    }
    assert light["links"]["leads_to"] == ["q_cellar"]
    assert light["progress"] == [1, "one of three cans of oil is upstairs"]
    assert quests["q_crossing"]["outcome"].startswith("Ada reached")
    assert "progress" not in quests["q_crossing"]


def test_a_quest_of_two_entities_stays_a_list_when_shown(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, starter_files("en")))
    shown = display(world.state)["quests"]["q_light"]
    assert shown["entities"] == ["lighthouse", "keeper"]
    assert shown["progress"] == "1 (one of three cans of oil is upstairs)"


def test_actions_planner_and_prologue(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, starter_files("en")))
    eat = world.actions[0]
    assert isinstance(eat, NumericalAction)
    assert eat.ops == (("SUB", "item_bread.count", 1), ("ADD", "hero.health", 10))
    assert eat.guards[0] == Condition(
        path="item_bread.count", op=Comparison.GT, value=0, message="There is no bread left."
    )
    assert world.planner.templates == (
        TemplateRule(template_id="combat", keywords=("draw my knife",), intents=("fight",)),
        TemplateRule(template_id="flashback", intents=("recall",)),
        TemplateRule(template_id="dense", intents=("overview",)),
    )
    assert world.planner.domain_weights["past"] == {"narrative": 0.9, "lore": 0.4, "event": 0.6}
    assert "future" not in world.planner.domain_weights
    assert world.prologue[0].events == (
        PrologueEvent(
            event_id="event_landing",
            type="location_change",
            summary="Ada landed at the jetty of Gull Rock.",
            participants=("keeper",),
            location="gull_rock",
            quest_id="q_crossing",
        ),
    )
    assert (world.narratives[0].from_turn, world.narratives[0].to_turn) == (1, 2)


def test_a_single_lore_entry_may_be_a_mapping(tmp_path: Path) -> None:
    entry = "id: lore_a\nname: A\ncategory: axiom\ncontent: text\n"
    world = load_world(write(tmp_path, {**MINIMAL, "lore/deep/er/a.yaml": entry}))
    assert [each.entry_id for each in world.lore] == ["lore_a"]


def test_what_yaml_leaves_empty_counts_as_absent(tmp_path: Path) -> None:
    files = {
        "world.yaml": MINIMAL["world.yaml"] + "instruction:\npersona:\nentities:\nstate:\n",
        "quests.yaml": "- id: q\n  title: Q\n  objectives:\n  links:\n  progress:\n  outcome:\n",
        "planner.yaml": "templates:\ndomain_weights: {past: {lore: , event: 0.5}, now: }\n",
    }
    world = load_world(write(tmp_path, files))
    assert world.state == {
        "quests": {"q": {"id": "q", "title": "Q", "status": "inactive", "description": "", "objectives": []}},
        "$meta": {"typed": True},
    }
    assert world.planner.domain_weights == {"past": {"event": 0.5}}


def test_templates_are_noted_and_counted_into_the_digest(tmp_path: Path) -> None:
    plain = load_world(write(tmp_path / "plain", MINIMAL))
    pack = write(tmp_path / "own", {**MINIMAL, "templates/chat/status.j2": "{{ not even parsed"})
    world = load_world(pack)
    assert world.template_root == str(pack.resolve() / "templates")
    assert world.digest != plain.digest


def test_the_digest_follows_every_file_and_nothing_else(tmp_path: Path) -> None:
    files = starter_files("en")
    first = load_world(write(tmp_path / "first", files))
    assert load_world(write(tmp_path / "second", files)).digest == first.digest
    for name, data in files.items():
        changed = load_world(write(tmp_path / f"changed-{name.replace('/', '-')}", {**files, name: data + b"\n"}))
        assert changed.digest != first.digest, name


def test_describe_counts(tmp_path: Path) -> None:
    shown = describe(load_world(write(tmp_path, starter_files("zh"))))
    assert shown["lore"] == {"total": 6, "axiom": 1, "agent": 1, "encyclopedia": 3, "directive": 1}
    assert shown["quests"] == {"total": 3, "active": 1, "completed": 1, "inactive": 1}
    assert (shown["actions"], shown["prologue_turns"], shown["events"], shown["restricted_lore"]) == (2, 2, 1, 1)
    assert shown["described_values"] == ["weather", "hero.health", "quests.q_light.progress"]


@pytest.mark.parametrize(("language", "skills"), [("en", ["milling", "mending"]), ("zh", ["磨面", "修补"])])
def test_the_pack_on_the_authors_pages_loads(language: str, skills: list[str], tmp_path: Path) -> None:
    page = "\n".join(each.read_text(encoding="utf-8") for each in sorted((DOCS / language).glob("pack-*.md")))
    blocks = re.findall(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert {name for name, _ in blocks} == {
        *(
            "world.yaml",
            "quests.yaml",
            "actions.yaml",
            "planner.yaml",
            "history.yaml",
            "injections.yaml",
            "lore/all.yaml",
        )
    }
    (markdown,) = re.findall(r"^```markdown\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    world = load_world(write(tmp_path, {**dict(blocks), "lore/rule.md": markdown}))
    assert world.state["hero"]["skills"] == skills
    assert describe(world)["described_values"] == ["hero.health", "quests.q_wheel.progress"]


@pytest.mark.parametrize("count", [5_000])
def test_a_large_pack_loads(count: int, tmp_path: Path) -> None:
    entries = "".join(
        f"- id: lore_{number}\n  name: Entry {number} 条目\n  category: encyclopedia\n  kind: place\n"
        f"  keys: [key{number}, 钥匙{number}]\n  entities: [keeper]\n  when: ['hero.health > {number % 100}']\n"
        f"  content: |\n    The stone number {number} stands on the cliff.\n    第 {number} 块石头立在悬崖上。\n"
        for number in range(count)
    )
    world = load_world(write(tmp_path, {**starter_files("en"), "lore/many.yaml": entries}))
    assert len(world.lore) == count + 6


def test_members_of_plain_lists_get_ids_and_validate_lists_them(tmp_path: Path) -> None:
    world_yaml = MINIMAL["world.yaml"] + "state:\n  crew: [{name: Ann, oars: 2}, {id: bo, name: Bo}]\n"
    world = load_world(write(tmp_path, {**MINIMAL, "world.yaml": world_yaml}))
    assert world.state["crew"][0] == {"id": "item_1", "name": "Ann", "oars": 2}
    assert describe(world)["generated_ids"] == ["crew.0: item_1"]
    assert apply_reply_ops(world.state, [["SUB", "item_1.oars", 1]]).tree["crew"][0]["oars"] == 1
