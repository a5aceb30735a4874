"""Command line for `python -m jacquard`, if its script is not on the path."""

from __future__ import annotations

from jacquard.cli.main import main

if __name__ == "__main__":
    main()
