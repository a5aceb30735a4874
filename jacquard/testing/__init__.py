"""Provides test suites that check other implementations of jacquard's protocols, and a scripted model server.

A contract suite checks the rules of one protocol; it needs pytest. The server needs only the standard library. None of
the three packages imports these modules.
"""

from contextlib import suppress

with suppress(ImportError):
    import pytest

    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("framework", "pruner", "smoke", "summarizer")))
