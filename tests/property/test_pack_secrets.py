"""No secret of a pack is ever shown, whoever edits the pack between turns and whether or not it is named again.

A pack is edited, named or not, and a turn is woven by an engine of its own, as on another host; the viewer is the chief, the
cook, or nobody. What the prompt and every request to a small model may hold of a pack's lore is what the version in the store
lets this viewer know: nothing of an edit that nobody named, nothing of a version before.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers.scripted_model import ScriptedModel

from jacquard import CurationConfig, RuntimeConfig, create_context_engine
from mnemosyne import MemoryStore, SqliteStore, load_world

WORLD = """\
id: keep
title: The Keep
locale: en
entities: [{id: lamp, name: the lamp, aliases: [lamp]}]
state: {hero: {id: hero, gold: 3}}
"""
ASKED = "Do you remember the lamp, and who may know of the lamp?"
IDS = ("a", "b", "c", "d")
WORD = re.compile(r"zq\d+zq")
CONDITIONS = {"always": (), "rich": ("hero.gold > 100",), "poor": ("hero.gold < 100",)}


@dataclass(frozen=True)
class Entry:
    """One entry as an author writes it; `word` stands in no other version of any entry."""

    category: str
    viewers: tuple[str, ...]
    condition: str
    word: str = ""

    def allows(self, viewer: str | None) -> bool:
        return (not self.viewers or viewer in self.viewers) and self.condition != "rich"


entries = st.builds(
    Entry,
    category=st.sampled_from(["axiom", "directive", "encyclopedia", "agent"]),
    viewers=st.sampled_from([(), ("chief",), ("cook", "chief")]),
    condition=st.sampled_from([*CONDITIONS]),
)
edits = st.dictionaries(st.sampled_from(IDS), st.none() | entries, min_size=1, max_size=3)
steps = st.lists(
    st.tuples(edits, st.booleans(), st.sampled_from([None, "chief", "cook"]), st.booleans()), min_size=1, max_size=4
)


class Author:
    """A pack in a folder, and the versions of it that were named."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0
        self.written: dict[str, Entry] = {}
        self.named: dict[str, Entry] = {}
        (folder / "lore").mkdir()
        (folder / "world.yaml").write_text(WORLD)

    def edit(self, changes):
        for name, entry in changes.items():
            self.written.pop(name, None)
            if entry is not None:
                self.count += 1
                self.written[name] = replace(entry, word=f"zq{self.count}zq")
        rows = [
            {
                "id": name,
                "category": entry.category,
                "name": f"{entry.word} of the lamp",
                "keys": ["lamp"],
                "content": f"The lamp {entry.word} is known.",
                "viewers": list(entry.viewers),
                "when": list(CONDITIONS[entry.condition]),
            }
            for name, entry in self.written.items()
        ]
        (self.folder / "lore" / "all.yaml").write_text(yaml.safe_dump(rows))

    def name(self):
        self.named = dict(self.written)
        return load_world(self.folder)


async def play(store, author, story, layout):
    """Play a story; every turn is woven by an engine that knows nothing of the one before."""
    for number, (changes, names_it, viewer, commits) in enumerate(story):
        author.edit(changes)
        world = author.name() if names_it or not number else None
        chooser = ScriptedModel(["a", "b", "c", "d"])
        config = RuntimeConfig(
            viewer=viewer, layout=layout, curation=CurationConfig(deadline_ms=60_000, lease_turns=number % 2)
        )
        worlds = {} if world is None else {world.world_id: world}
        async with create_context_engine(store, llm_adapter=chooser, config=config, worlds=worlds) as engine:
            if not number:
                await engine.start_session("s", world)
            turn = await engine.prepare_turn("s", ASKED)
            if commits:
                await engine.commit_assistant_message("s", "<content>So be it.</content>")
        allowed = {entry.word for entry in author.named.values() if entry.allows(viewer)}
        told = {*WORD.findall(turn.text), *(word for m in turn.messages for word in WORD.findall(m.content))}
        asked = {word for request in chooser.asked for word in WORD.findall(request)}
        assert told <= allowed, f"turn {number} shows what {viewer} may not know"
        assert asked <= allowed, f"turn {number} tells a model what {viewer} may not know"
        always = {e.word for e in author.named.values() if e.allows(viewer) and e.category in ("axiom", "directive")}
        assert always <= told, f"turn {number} lacks what stands in every prompt"


def run(story, layout, *, in_a_file):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "pack").mkdir()

        async def work():
            store = SqliteStore(home / "s.db", synchronous="NORMAL") if in_a_file else MemoryStore()
            try:
                await play(store, Author(home / "pack"), story, layout)
            finally:
                await store.close()

        anyio.run(work)


@given(steps, st.sampled_from(["classic", "cache_first"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_secret_of_a_changing_pack_is_shown(story, layout):
    run(story, layout, in_a_file=False)


@pytest.mark.full
@given(steps, st.sampled_from(["classic", "cache_first"]), st.booleans())
@settings(max_examples=1_500, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_secret_of_many_changing_packs_is_shown(story, layout, in_a_file):
    run(story, layout, in_a_file=in_a_file)
