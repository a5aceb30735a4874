"""A hostile world pack is refused with sentences that name a file, or it plays; it never breaks out, hangs or crashes."""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from time import process_time

import pytest
from cli_calls import call
from hostile_packs import hostile_pack, sound_pack, write_files
from long_form import LongForm

SHORT = 24
MOST_SECONDS = 30.0
MOST_MEGABYTES = 600
INPUTS = ("I draw my knife, at night.", "eat bread", "你还记得灯塔吗？")
LEAKS = ("root:x:0:0", "<class '", "<function", "<module")


def check(number: int) -> None:
    """Read, check and play pack `number` by the command line."""
    files = hostile_pack(number)
    started, held = process_time(), _peak_megabytes()
    with tempfile.TemporaryDirectory() as name:
        pack, store = write_files(Path(name) / "pack", files), Path(name) / "store"
        checked = call("author", "validate", pack, codes=(0, 1))
        assert checked.exit_code == 0 or checked.output.strip(), "refused without a word"
        for text in INPUTS:
            _play(pack, store, text, own_markup=_has_own_templates(files), fine=checked.exit_code == 0)
    spent = process_time() - started
    assert spent < MOST_SECONDS, f"{spent:.0f} s of processor time"
    assert _peak_megabytes() - held < MOST_MEGABYTES, f"{_peak_megabytes() - held:.0f} MB more"


def _play(pack: Path, store: Path, text: str, *, own_markup: bool, fine: bool) -> None:
    said = ("--session", "s", "--store", store, "--world", pack, "--embedder", "none")
    woven = call("play", "weave", *said, "--input", text, "--json", codes=(0, 1))
    if woven.exit_code:
        assert not fine or own_markup, f"a pack without faults cannot be played: {woven.output}"
        assert "Traceback" not in woven.output
        return
    prompt = json.dumps(json.loads(woven.stdout), ensure_ascii=False)
    leaked = [leak for leak in LEAKS if leak in prompt]
    assert not leaked, f"the prompt holds {leaked}"
    call("play", "commit", "--session", "s", "--store", store, "--text", "<content>So it is.</content>", codes=(0, 1))


def _has_own_templates(files: dict[str, bytes]) -> bool:
    sound = {name: body for locale in ("en", "zh") for name, body in sound_pack(locale).items()}
    return any(name.endswith(".j2") and body != sound.get(name) for name, body in files.items())


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


PACKS = LongForm(count=10_000, check=check, chunk=20)


@pytest.mark.parametrize("number", range(SHORT))
def test_a_hostile_pack_is_refused_or_plays(number):
    check(number)
