"""`python -m tests.attack.fuzz NAME`: coverage-guided fuzzing with atheris, which has to be installed (`make fuzz` does).

    make fuzz FUZZ="reply --minutes 60"

A new input that reaches new code is kept in `.attack/fuzz/NAME`, so a later run goes on from there; an input that breaks a
promise is written to `.attack/fuzz/NAME-findings`. `--merge` writes the fewest inputs that reach as much into the corpus beside
this file, which the suite runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

CORPORA = Path(__file__).parent / "corpora"
MOST_BYTES = 4_096


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=("reply", "pack", "importers"))
    parser.add_argument("--minutes", type=float, default=60, help="how long (default: %(default)s)")
    parser.add_argument("--merge", action="store_true", help="shrink what was found into the corpus of the suite")
    parser.add_argument("--folder", type=Path, default=Path(".attack/fuzz"), help="(default: %(default)s)")
    chosen = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed; `make fuzz` installs it, or: pip install -e '.[fuzz]'")
    sys.path.insert(0, str(Path(__file__).parent))
    with atheris.instrument_imports(include=["filament", "mnemosyne"]):
        from fuzz_targets import TARGETS
    kept, findings = chosen.folder / chosen.name, chosen.folder / f"{chosen.name}-findings"
    for folder in (kept, findings, CORPORA / chosen.name):
        folder.mkdir(parents=True, exist_ok=True)
    target, ours = TARGETS[chosen.name], CORPORA / chosen.name
    words = CORPORA / f"{chosen.name}.dict"
    options = [
        f"-dict={words}",
        f"-max_len={MOST_BYTES}",
        f"-artifact_prefix={findings}/",
        "-timeout=30",
        "-rss_limit_mb=4096",
    ]
    options += ["-merge=1", str(ours), str(kept)] if chosen.merge else [
        f"-max_total_time={round(60 * chosen.minutes)}", "-print_final_stats=1", str(kept), str(ours),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
