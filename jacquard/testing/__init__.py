"""Contract suites of jacquard's protocols for third parties (they need pytest), and a scripted server without dependencies.

Nothing in the three packages imports them.
"""

from contextlib import suppress

with suppress(ImportError):
    import pytest

    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("framework", "pruner", "smoke", "summarizer")))
