"""The core works without its satellites: every module of it can be imported, and a turn can be played."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SATELLITES = (
    "jacquard.authoring.files",
    "jacquard.cli.commands.memory.evidence",
    "jacquard.cli.commands.memory.files",
    "jacquard.cli.commands.operate.doctor",
    "jacquard.cli.commands.operate.housekeeping",
    "jacquard.cli.commands.operate.service",
    "jacquard.cli.commands.operate.snapshots",
    "jacquard.client",
    "jacquard.integrations",
    "jacquard.service",
    "jacquard.studio",
    "jacquard.testing",
    "mnemosyne.formats",
    "mnemosyne.retrieval.snapshots",
    "mnemosyne.testing",
)
"""Packages that only their own users need, and the commands that `GROUPS` finds by name."""
HIDDEN = f"""
import sys
from pathlib import Path
SATELLITES = {SATELLITES!r}
def is_hidden(name): return any(name == each or name.startswith(each + '.') for each in SATELLITES)
class Hider:
    def find_spec(self, name, path=None, target=None):
        if is_hidden(name): raise ModuleNotFoundError(f'{{name}} is hidden', name=name)
sys.meta_path.insert(0, Hider())
"""


def run_without_satellites(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_core_can_be_imported_without_the_satellites():
    code = """
import importlib, pkgutil
failed = []
for heavy in ('torch', 'sentence_transformers', 'ray', 'litellm'): sys.modules[heavy] = None
def walk(name):
    if is_hidden(name): return
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or is_hidden(error.name): failed.append(f'{name}: {error}')
        return
    for each in pkgutil.iter_modules(getattr(found, '__path__', ())):
        if each.name != '__main__': walk(f'{name}.{each.name}')
for package in ('filament', 'mnemosyne', 'jacquard'): walk(package)
assert not failed, failed
"""
    run_without_satellites(code)


def test_a_turn_is_played_without_the_satellites(tmp_path):
    code = """
import asyncio
from jacquard import open_runtime
async def play():
    async with open_runtime(sys.argv[1], world=sys.argv[2], embedder='none') as jacquard:
        await jacquard.ensure_session('s')
        turn = await jacquard.engine.prepare_turn('s', 'Is that the key that opens the temple?')
        await jacquard.engine.commit_assistant_message('s', '<content>It is.</content>')
        print(turn.messages[-1].content)
asyncio.run(play())
"""
    world = ROOT / "examples" / "whispering_forest" / "en"
    assert "the key that opens the temple" in run_without_satellites(code, str(tmp_path / "store"), str(world))


def test_a_command_of_the_core_runs_without_the_satellites(tmp_path):
    code = "from jacquard.cli.app import app; app(sys.argv[1:])"
    assert "play" in run_without_satellites(code, "--help")
    store = ("--store", str(tmp_path / "store"), "--session", "s")
    words = ("play", "weave", "--profile", "assistant", "--embedder", "none", "--input", "Hello", *store)
    assert "Hello" in run_without_satellites(code, *words)
