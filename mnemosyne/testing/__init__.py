"""Contract suites: tests that every implementation of a Protocol of mnemosyne must pass. They need pytest and hypothesis."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.stores", f"{__name__}.ingestor", f"{__name__}.redactor")
