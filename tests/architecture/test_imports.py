"""What an import costs: no heavy package comes along before a configuration names it."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "litellm",
    "lancedb",
    "torch",
    "sentence_transformers",
    "transformers",
    "tokenizers",
    "onnxruntime",
    "pyarrow",
    "starlette",
    "openai",
)


def loaded_by(statement: str) -> set[str]:
    script = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


STATEMENTS = (
    "import filament",
    "import mnemosyne",
    "import jacquard",
    "import jacquard.wiring.runtime",
    "from importlib import import_module; from jacquard.cli.app import GROUPS; "
    "[import_module(place.split(':')[0]) for group in GROUPS.values() for place in group.commands.values()]",
)


def test_importing_loads_nothing_heavy():
    loaded = loaded_by("; ".join(STATEMENTS))
    # Where something heavy comes along, each is tried alone to say which of them brings it.
    found = {} if loaded.isdisjoint(HEAVY) else {each: loaded_by(each) & {*HEAVY} for each in STATEMENTS}
    assert {each: names for each, names in found.items() if names} == {}


def test_the_front_door_opens_on_first_use():
    assert "jacquard.turns.engine" not in loaded_by("import jacquard")
    assert "jacquard.turns.engine" in loaded_by("import jacquard; jacquard.ContextEngine")
