"""`python -m tests.attack`: the long forms of what `tests/attack` checks in short. Each is resumable: run it again.

    python -m tests.attack                          # list the forms, and how far each of them is
    python -m tests.attack texts --minutes 60       # go on with one, for at most an hour
    python -m tests.attack texts --case 4711        # repeat one case, with its traceback

Exit code 1: there are findings, or the form is not done. The journals are in `.attack/`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from long_form import Journal, find_form, run

FORMS: dict[str, tuple[str, str]] = {
    "copies": ("test_damage:COPIES", "damaged copies of a SQLite store, a file store and an index"),
    "kills_file": ("test_kills:KILLS_FILE", "kills of the process that writes to a file store"),
    "kills_postgres": (
        "test_kills:KILLS_POSTGRES",
        "kills of the process that writes to PostgreSQL, or of its server's",
    ),
    "kills_sqlite": ("test_kills:KILLS_SQLITE", "kills of the process that writes to a SQLite store"),
    "kills_service": ("test_service_kills:KILLS_SQLITE", "kills of the service under load, on SQLite"),
    "kills_service_postgres": (
        "test_service_kills:KILLS_POSTGRES",
        "kills of the service under load, on PostgreSQL",
    ),
    "hosts": (
        "test_hosts:HOSTS",
        "kills of one of two hosts over one PostgreSQL, which is restarted, behind a proxy that cuts and holds back",
    ),
    "erasure": ("test_erasure:FORM", "random sessions in four stores, an erasure, and a search of every byte"),
    "ops": ("test_op_sets:OPS", "sets of ops on random states and in the replies of a session"),
    "packs": ("test_hostile_packs:PACKS", "world packs and templates that try to break the reader or the sandbox"),
    "walks": (
        "test_proxy_walks:WALKS",
        "walks of chat clients through the proxy, beside an oracle of the true history",
    ),
    "viewers": ("test_guarded_levels:VIEWER_FORM", "10,000 sessions of several viewers over guarded lore"),
    "growth": ("test_growth_of_texts:FORM", "every entry point with every generator: the exponent of its time"),
    "texts": ("test_texts:FORM", "hostile texts, each given to some of the entry points in turn"),
}
"""What each form is called: where it is (`module:NAME`, below tests/attack), and what its cases are."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="?", choices=sorted(FORMS), help="which form; without it, all are listed")
    parser.add_argument("--minutes", type=float, default=60, help="stop after this time (default: %(default)s)")
    parser.add_argument("--count", type=int, help="how many cases (default: as many as the form names)")
    parser.add_argument("--case", type=int, help="check one case alone")
    parser.add_argument("--journals", type=Path, default=Path(".attack"), help="folder (default: %(default)s)")
    chosen = parser.parse_args()
    if chosen.name is None:
        return _list(chosen.journals)
    place, _ = FORMS[chosen.name]
    form = find_form(place)
    if chosen.case is not None:
        form.check(chosen.case)
        return 0
    chosen.journals.mkdir(parents=True, exist_ok=True)
    journal = Journal.opened(chosen.journals / f"{chosen.name}.json")
    count = form.count if chosen.count is None else chosen.count
    run(place, journal, count=count, minutes=chosen.minutes, say=lambda line: print(line, flush=True))
    for number, finding in journal.findings.items():
        print(f"case {number}: {finding}")
    print(
        f"{chosen.name}: {journal.done} of {count} cases in {journal.seconds:.0f} s, {len(journal.findings)} findings"
    )
    return 1 if journal.findings or journal.done < count else 0


def _list(journals: Path) -> int:
    for name, (place, cases) in sorted(FORMS.items()):
        journal = Journal.opened(journals / f"{name}.json")
        done = f"{journal.done} of {find_form(place).count}, {len(journal.findings)} findings"
        print(f"{name:22} {cases} ({done})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
