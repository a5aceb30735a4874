"""A small world pack that a test writes, edits and moves, and the commands that it is played with."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from jacquard.cli.app import app

WORLD = """\
id: mill
title: The Mill
locale: en
instruction: You tell what happens at the mill by the weir.
persona: {name: Weir, voice: low and patient}
user_name: Lin
entities:
  - {id: wheel, name: the wheel, aliases: [wheel], kind: thing}
state:
  hero: {id: hero, gold: 3}
"""
LORE = """\
- {id: ax_bread, category: axiom, name: Bread, content: Bread is holy at the mill.}
- {id: di_wheel, category: directive, name: The wheel, keys: [wheel], content: Let the wheel be heard when it is named.}
- {id: en_weir, category: encyclopedia, name: The weir, keys: [weir], content: The weir was built from ninety oaks.}
"""
SECRETS = """\
- {id: ax_grave, category: axiom, viewers: [chief], name: Grave, content: The miller lies under the third sack.}
- {id: di_hush, category: directive, viewers: [chief], keys: [wheel], name: Hush, content: Never speak of the drowned heir.}
- {id: en_door, category: encyclopedia, viewers: [chief], keys: [weir], name: Sluice, content: The weir hides an iron sluice.}
- {id: ax_later, category: axiom, when: ["hero.gold > 100"], name: Later, content: The mill burns down at harvest.}
"""
HIDDEN = ("third sack", "drowned heir", "iron sluice", "burns down")
OF_THE_CHIEF = HIDDEN[:3]
PLANNER = """\
default_template: chat
templates:
  - {id: night, keywords: [night]}
"""
ACTIONS = """\
- id: pay
  patterns: ["pay (?:the )?miller"]
  ops: [[SUB, hero.gold, 1]]
  reply: "You pay; {{ state.hero.gold }} gold are left."
"""
NIGHT = """\
<guidance>
rule: owls answer
{{ goal }}
</guidance>
"""
ASKED = "Does the wheel turn beside the weir?"
AT_NIGHT = "Does the wheel turn at night beside the weir?"


def write_pack(folder: Path, lore: str = LORE, files: dict[str, str] | None = None) -> Path:
    """Write the pack, `files` over it; return its folder."""
    told = {
        "world.yaml": WORLD,
        "planner.yaml": PLANNER,
        "actions.yaml": ACTIONS,
        "lore/all.yaml": lore,
        "templates/night/guidance.j2": NIGHT,
        **(files or {}),
    }
    for name, text in told.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def call(*args: object, code: int = 0):
    """Run a command as a user types it; return what came of it. A traceback is never an answer."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    return done


def weave(text: str, *more: object, session: str = "s", store: object = "store"):
    """Prepare a turn and return it as JSON has it."""
    options = ("--session", session, "--store", store, "--input", text, "--embedder", "none", "--json")
    return json.loads(call("play", "weave", *options, *more).stdout)


def commit(text: str = "<content>It does.</content>", *more: object, session: str = "s", store: object = "store"):
    """Commit a reply."""
    return call("play", "commit", "--session", session, "--store", store, "--text", text, *more)
