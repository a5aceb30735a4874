"""What an import costs: no heavy package comes along before a configuration names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

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
UNUSED = (
    *HEAVY,
    "httpx",
    "importlib.metadata",
    "json_repair",
    "jsonpath",
    "platformdirs",
    "pydantic",
    "rich",
    "typer",
    "xml",
)
"""Packages that a usual turn with SQLite and without an encoder does not need."""
TURN = """
import anyio, json, re, sys
from pathlib import Path
from tempfile import TemporaryDirectory
compiled, compile_text = [], re._compiler.compile
re._compiler.compile = lambda text, flags=0: compiled.append(text) or compile_text(text, flags)
from jacquard import open_runtime
patterns = len(compiled)
async def play(folder):
    async with open_runtime(folder, world=Path("examples/whispering_forest/zh"), embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "那把钥匙是不是开启神庙的?我记得之前提到过。")
        await runtime.engine.commit_assistant_message("s", "<content>是的。</content>", turn_id=turn.turn_id)
        await runtime.engine.settle(60)
with TemporaryDirectory() as folder:
    anyio.run(play, folder)
print(json.dumps([sorted(sys.modules), patterns, len(compiled)]))
"""


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


def test_a_first_turn_loads_few_modules_and_compiles_few_patterns():
    done = subprocess.run([sys.executable, "-c", TURN], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded, at_import, at_all = json.loads(done.stdout)
    assert {*loaded} & {*UNUSED} == set()
    own = [name for name in loaded if name.split(".")[0] in ("filament", "mnemosyne", "jacquard")]
    assert (len(own) <= 495, len(loaded) <= 945) == (True, True), (len(own), len(loaded))
    assert (at_import <= 270, at_all <= 380) == (True, True), (at_import, at_all)


def test_the_client_is_loaded_when_a_name_of_it_is_first_used():
    assert not {"httpx", "jacquard.client.engine"} & loaded_by("import jacquard.client")
    assert "jacquard.client.engine" in loaded_by("from jacquard.client import RemoteEngine")
